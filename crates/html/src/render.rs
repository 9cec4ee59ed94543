//! The document's markup.

use crate::page::{Block, Page, Section, Tone};
use crate::table::{Cell, Column, Table};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Longer tables can be searched.
const SHORT: usize = 10;

impl Page {
    /// The document as text.
    pub fn to_html(&self) -> String {
        document(self).into_string()
    }
}

fn document(page: &Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) }
                // The page cannot load or send anything, also if a text were markup.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (page.title) }
                    p.verdict.(tone(page.tone)) { (page.verdict) }
                }
                @if page.sections.len() > 2 {
                    nav aria-label="Sections" {
                        @for (index, section) in page.sections.iter().enumerate() {
                            a href=(format!("#s{index}")) { (section.heading) }
                        }
                    }
                }
                main {
                    @for (index, section) in page.sections.iter().enumerate() {
                        (self::section(index, section))
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
        Tone::Plain => "plain",
    }
}

fn section(index: usize, section: &Section) -> Markup {
    html! {
        section id=(format!("s{index}")) aria-label=(section.heading) {
            h2 { (section.heading) }
            @for block in &section.blocks { (self::block(&section.heading, block)) }
        }
    }
}

fn block(heading: &str, block: &Block) -> Markup {
    match block {
        Block::Text(text) => html! { p { (text) } },
        Block::List(lines) => html! { ul { @for line in lines { li { (line) } } } },
        Block::Facts(facts) => html! {
            dl { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
        },
        Block::Table(table) => self::table(heading, table),
        Block::Picture(svg) => {
            html! { div.wide tabindex="0" role="region" aria-label=(heading) { (PreEscaped(svg)) } }
        }
    }
}

fn table(heading: &str, table: &Table) -> Markup {
    let is_long = table.rows() > SHORT;
    html! {
        // A wide table scrolls by itself, also by keyboard.
        div.wide tabindex="0" role="region" aria-label=(format!("{heading}, table")) {
            table data-search[is_long] {
                thead { tr { @for column in &table.columns {
                    th scope="col" class=[column.is_figure.then_some("figure")] { (column.name) }
                } } }
                @for (name, rows) in &table.groups {
                    tbody {
                        @if !name.is_empty() {
                            tr.group { th scope="rowgroup" colspan=(table.columns.len()) { (name) } }
                        }
                        @for row in rows { tr { @for (column, cell) in table.columns.iter().zip(row) {
                            (self::cell(column, cell))
                        } } }
                    }
                }
            }
        }
    }
}

fn cell(column: &Column, cell: &Cell) -> Markup {
    match cell {
        Cell::Text(text) if column.is_figure => html! { td.figure { (text) } },
        Cell::Text(text) => html! { td { (text) } },
        Cell::Share { used, of } if *of > 0.0 => {
            // Cut as in the tables on a terminal: a whole that is not used up is no 100 %.
            let percent = (used * 100.0 / of).floor();
            html! {
                td.figure {
                    span.bar aria-hidden="true" { span style=(format!("width:{:.0}%", percent.clamp(0.0, 100.0))) {} }
                    (format!("{percent:.0}%"))
                }
            }
        }
        Cell::Share { .. } => html! { td.figure { "-" } },
    }
}
