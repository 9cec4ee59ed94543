//! Converts a frame to an SVG that looks the same everywhere: blocks and lines are drawn as shapes, only letters
//! need a font.

use evictd_picture::{CYAN, FAINT, FRAME, GREEN, RED, TEXT, YELLOW, escaped, on_card};
use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};
use std::fmt::Write;

/// Width of a cell in units of the image.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
/// From the top of a cell to the baseline of the text.
const BASELINE: f64 = 13.5;
const MARGIN: f64 = 16.0;
/// Height of the title bar.
const TITLE: f64 = 34.0;

const AREA: &str = "#1d4d2b";
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/// Turns a frame into an image.
pub fn of(buffer: &Buffer) -> String {
    let (columns, rows) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let width = columns * WIDTH + 2.0 * MARGIN;
    let height = rows * HEIGHT + TITLE + MARGIN;
    let mut svg = String::new();
    for (index, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let x = MARGIN + 6.0 + 20.0 * f64::from(u32::try_from(index).unwrap_or(0));
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.0}\" cy=\"17\" r=\"6\" fill=\"{colour}\"/>"
        );
    }
    let _ = writeln!(
        svg,
        "<g font-family=\"{FONT}\" font-size=\"14\" xml:space=\"preserve\" shape-rendering=\"crispEdges\">"
    );
    for row in 0..buffer.area.height {
        for run in runs(buffer, row) {
            draw(&mut svg, &run, row);
        }
    }
    svg.push_str("</g>\n");
    on_card((width, height), "evictd demo", &svg)
}

/// Adjacent cells of the same style.
struct Run<'a> {
    column: u16,
    cells: u16,
    symbol: &'a str,
    text: String,
    style: &'a Cell,
}

/// Splits a row: text up to the next gap is one run, equal blocks are one run.
fn runs(buffer: &Buffer, row: u16) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for column in 0..buffer.area.width {
        let Some(cell) = buffer.cell((buffer.area.x + column, buffer.area.y + row)) else {
            continue;
        };
        let symbol = cell.symbol();
        let alike = |run: &&mut Run<'_>| {
            let shape = shape(symbol).is_some();
            let same = if shape {
                run.symbol == symbol
            } else {
                symbol != " " && shape_of_run(run).is_none() && run.symbol != " "
            };
            same && run.column + run.cells == column && alike(run.style, cell)
        };
        match runs.last_mut().filter(alike) {
            Some(run) => {
                run.cells += 1;
                run.text.push_str(symbol);
            }
            None => runs.push(Run {
                column,
                cells: 1,
                symbol,
                text: symbol.to_owned(),
                style: cell,
            }),
        }
    }
    runs
}

fn shape_of_run(run: &Run<'_>) -> Option<Shape> {
    shape(run.symbol)
}

fn alike(one: &Cell, other: &Cell) -> bool {
    (one.fg, one.bg, one.modifier) == (other.fg, other.bg, other.modifier)
}

/// The filled part of a cell, in fractions of its width and height.
struct Shape {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// Whether equal neighbours are drawn as one shape.
    joins: bool,
}

fn shape(symbol: &str) -> Option<Shape> {
    let letter = symbol.chars().next()?;
    let whole = Shape {
        left: 0.0,
        top: 0.0,
        width: 1.0,
        height: 1.0,
        joins: true,
    };
    Some(match letter {
        '█' => whole,
        '▁'..='▇' => {
            let part = f64::from(u32::from(letter) - u32::from('▁') + 1) / 8.0;
            Shape {
                top: 1.0 - part,
                height: part,
                ..whole
            }
        }
        '━' => Shape {
            top: 0.29,
            height: 0.42,
            ..whole
        },
        '╸' => Shape {
            top: 0.29,
            width: 0.5,
            height: 0.42,
            joins: false,
            ..whole
        },
        '─' => Shape {
            top: 0.47,
            height: 0.06,
            ..whole
        },
        '┃' => Shape {
            left: 0.38,
            width: 0.24,
            joins: false,
            ..whole
        },
        '╌' => Shape {
            left: 0.15,
            top: 0.46,
            width: 0.7,
            height: 0.09,
            joins: false,
        },
        _ => return None,
    })
}

fn draw(svg: &mut String, run: &Run<'_>, row: u16) {
    let (x, y) = (
        MARGIN + f64::from(run.column) * WIDTH,
        TITLE + f64::from(row) * HEIGHT,
    );
    let (cells, modifier) = (f64::from(run.cells), run.style.modifier);
    let fill = colour(run.style);
    if run.style.bg != Color::Reset {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{HEIGHT}\" fill=\"{AREA}\"/>",
            cells * WIDTH
        );
    }
    if modifier.contains(Modifier::UNDERLINED) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"1\" fill=\"{FRAME}\"/>",
            y + HEIGHT - 1.0,
            cells * WIDTH
        );
    }
    if let Some(shape) = shape(run.symbol) {
        let shapes = if shape.joins { 1 } else { run.cells };
        for index in 0..shapes {
            let width = if shape.joins { cells } else { shape.width };
            let _ = writeln!(
                svg,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{fill}\"/>",
                x + (f64::from(index) + shape.left) * WIDTH,
                y + shape.top * HEIGHT,
                width * WIDTH,
                shape.height * HEIGHT
            );
        }
    } else if !run.text.trim().is_empty() {
        let weight = if modifier.contains(Modifier::BOLD) {
            " font-weight=\"bold\""
        } else {
            ""
        };
        let decoration = if modifier.contains(Modifier::CROSSED_OUT) {
            " text-decoration=\"line-through\""
        } else {
            ""
        };
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" fill=\"{fill}\"{weight}{decoration}>{}</text>",
            y + BASELINE,
            cells * WIDTH,
            escaped(&run.text)
        );
    }
}

fn colour(cell: &Cell) -> &'static str {
    match cell.fg {
        Color::Green => GREEN,
        Color::Red => RED,
        Color::Yellow => YELLOW,
        Color::Cyan => CYAN,
        Color::Indexed(_) => AREA,
        _ if cell.modifier.contains(Modifier::DIM) => FAINT,
        _ => TEXT,
    }
}
