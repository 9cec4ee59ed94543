// Looks at a document as a reader would; what is wrong becomes the document's title.
"use strict";
const problems = [...window.early];
const problem = (text) => problems.push(text);
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth) problem(`wider than the window: ${root.scrollWidth} > ${root.clientWidth}`);
for (const input of document.querySelectorAll("input")) {
  if (!input.closest("label")?.textContent.trim()) problem("an input without a name");
}
for (const named of document.querySelectorAll("[role=region], nav, section, svg")) {
  if (!named.getAttribute("aria-label")) problem(`${named.tagName} without a name`);
}
if (document.querySelectorAll("h1").length !== 1) problem("not one h1");
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
if (new Set(ids).size !== ids.length) problem("an id twice");
for (const link of document.querySelectorAll("nav a")) {
  if (!document.querySelector(link.getAttribute("href"))) problem(`a link to nothing: ${link.textContent}`);
}

const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const linear = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
for (const element of document.querySelectorAll("h1, h2, p, li, dt, dd, th, td, a, button, label")) {
  const [light, dark] = [channels(getComputedStyle(element).color), background(element)].map(luminance).sort((a, b) => b - a);
  const contrast = (light + 0.05) / (dark + 0.05);
  if (contrast < 4.5) problem(`${element.tagName} has a contrast of ${contrast.toFixed(1)}`);
}

const shown = (table) => [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => !row.hidden && !row.classList.contains("group"));
for (const table of document.querySelectorAll("table[data-search]")) {
  const input = table.parentElement.previousElementSibling?.querySelector("input");
  if (!input) { problem("a long table without a search"); continue; }
  const all = shown(table).length;
  const search = (words) => { input.value = words; input.dispatchEvent(new Event("input")); return shown(table).length; };
  if (search("no such words anywhere") !== 0) problem("a search that finds everything");
  if (search(shown(table)[0]?.cells[0].textContent ?? "") < 1 || search("") !== all) problem("a search that loses rows");
}
for (const table of document.querySelectorAll("table")) {
  const [head] = table.tHead.rows[0].cells;
  const count = shown(table).length;
  head.querySelector("button").click();
  if (head.getAttribute("aria-sort") !== "ascending" || shown(table).length !== count) problem("a table that is not sorted");
}
document.title = problems.length ? `wrong: ${[...new Set(problems)].join("; ")}` : "nothing is wrong";
