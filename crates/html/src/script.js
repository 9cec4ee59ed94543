"use strict";
for (const table of document.querySelectorAll("table")) {
  const bodies = [...table.tBodies];
  const rows = (body) => [...body.rows].filter((row) => !row.classList.contains("group"));
  const value = (row, column) => row.cells[column].textContent.trim();
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const figure = head.classList.contains("figure");
      const compare = (a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        const order = figure ? (parseFloat(x) || 0) - (parseFloat(y) || 0) : x.localeCompare(y, undefined, { numeric: true });
        return up ? order : -order;
      };
      for (const body of bodies) body.append(...rows(body).sort(compare));
    });
  });
  if (!table.hasAttribute("data-search")) continue;
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("span");
  const all = bodies.reduce((sum, body) => sum + rows(body).length, 0);
  label.className = "search";
  count.setAttribute("role", "status");
  count.textContent = `Search in ${all} rows`;
  input.type = "search";
  label.append(count, input);
  table.parentElement.before(label);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const body of bodies) {
      const group = body.querySelector(".group");
      const heading = group ? group.textContent.toLowerCase() : "";
      let any = false;
      for (const row of rows(body)) {
        const text = `${row.textContent.toLowerCase()} ${heading}`;
        row.hidden = !words.every((word) => text.includes(word));
        any ||= !row.hidden;
        shown += row.hidden ? 0 : 1;
      }
      if (group) group.hidden = !any;
    }
    count.textContent = words.length ? `${shown} of ${all} rows` : `Search in ${all} rows`;
  });
}
