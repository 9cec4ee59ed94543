//! Tables for people.

use crate::{
    Colour, View, printable_line,
    view::{lines_of, shortened},
};
use comfy_table::{CellAlignment, ContentArrangement, presets};
use evictd_html::{self as html, Block};
use unicode_width::UnicodeWidthStr;

/// Between two columns.
const GAP: usize = 2;
/// A name is not shortened below this width while a column can be left out instead.
const LEAST_NAME: usize = 30;
/// The least width of a column of sentences.
const LEAST_SENTENCE: usize = 24;

/// The content of a column, which decides how it shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// A figure or a word: shown completely or not at all.
    Figure,
    /// A name: its middle may be left out.
    Name,
    /// A sentence: it may take several lines.
    Sentence,
}

/// A column of a [`Table`]. If there is too little room, the least important one is left out first.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    heading: &'static str,
    holds: Holds,
    importance: u8,
    right: bool,
    least: usize,
    filled: Option<usize>,
}

impl Column {
    const fn new(heading: &'static str, holds: Holds, importance: u8) -> Self {
        Self {
            heading,
            holds,
            importance,
            right: false,
            least: match holds {
                Holds::Figure => usize::MAX,
                Holds::Name => LEAST_NAME,
                Holds::Sentence => LEAST_SENTENCE,
            },
            filled: None,
        }
    }

    /// Words that are shown whole or not at all.
    pub const fn words(heading: &'static str, importance: u8) -> Self {
        Self::new(heading, Holds::Figure, importance)
    }

    /// The same, flush right.
    pub const fn figure(heading: &'static str, importance: u8) -> Self {
        Self {
            right: true,
            ..Self::words(heading, importance)
        }
    }

    /// Names, which may be shortened in the middle.
    pub const fn name(heading: &'static str, importance: u8) -> Self {
        Self::new(heading, Holds::Name, importance)
    }

    /// Sentences, which may take several lines.
    pub const fn sentence(heading: &'static str, importance: u8) -> Self {
        Self::new(heading, Holds::Sentence, importance)
    }

    /// The same with this least width; below it another column is left out.
    #[must_use]
    pub const fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// The same, filled with blanks to this width where nothing limits the lines, for scripts that cut them by position. It
    /// counts in a table all of whose columns have it.
    #[must_use]
    pub const fn filled(self, width: usize) -> Self {
        Self {
            filled: Some(width),
            ..self
        }
    }
}

/// Rows below headings, without lines, as `kubectl` shows them.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

// Every column has room in a browser.
impl From<Table> for Block {
    fn from(table: Table) -> Self {
        let columns = table.columns.iter().map(|column| {
            let name = capitalized(column.heading);
            if column.right {
                html::Column::figure(name)
            } else {
                html::Column::text(name)
            }
        });
        let rows = table.rows.into_iter();
        let rows = rows.map(|row| row.cells.into_iter().map(html::Cell::from).collect());
        Self::Table(html::Table::new(columns, rows))
    }
}

/// `MAX SKEW` as `Max skew`. Headings are in capitals only where there are no other ways to set them off.
pub fn capitalized(heading: &str) -> String {
    match heading {
        "QOS" => return "QoS".to_owned(),
        "ID" | "CPU" => return heading.to_owned(),
        // The difference of two named columns.
        _ if heading.contains('-') => return heading.to_owned(),
        _ => {}
    }
    let mut letters = heading.chars();
    let first = letters.next();
    first
        .into_iter()
        .chain(letters.flat_map(char::to_lowercase))
        .collect()
}

/// One row of a [`Table`]: a cell for each column, and how the row is coloured.
#[derive(Debug, Clone)]
pub struct Row {
    cells: Vec<String>,
    colour: Option<Colour>,
}

impl From<Vec<String>> for Row {
    fn from(cells: Vec<String>) -> Self {
        Self {
            cells,
            colour: None,
        }
    }
}

impl Row {
    /// The same in a colour.
    #[must_use]
    pub fn coloured(self, colour: Option<Colour>) -> Self {
        Self { colour, ..self }
    }
}

/// A table laid out for a [`View`].
#[derive(Debug, Clone)]
pub struct Fitted {
    /// Its lines.
    pub text: String,
    /// The headings of the columns that were left out.
    pub left_out: Vec<&'static str>,
}

impl Table {
    /// The rows, whose cells are in the order of the columns.
    pub fn new<R: Into<Row>>(
        columns: impl Into<Vec<Column>>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| {
            let mut row = row.into();
            for cell in &mut row.cells {
                // Names come from tenants and may hold sequences that move the cursor.
                *cell = printable_line(cell).into_owned();
            }
            row
        });
        Self {
            columns: columns.into(),
            rows: rows.collect(),
        }
    }

    /// The table for this view, and below it which columns are left out.
    pub fn shown(&self, view: View) -> String {
        let Fitted { text, left_out } = self.fitted(view);
        if left_out.is_empty() {
            return text;
        }
        let note = format!("(-o wide adds {})", left_out.join(", "));
        let note = view.paint(Colour::Faint, &view.sentence(&note));
        format!("{text}\n{note}")
    }

    /// The table for this view.
    pub fn fitted(&self, view: View) -> Fitted {
        // Without a width the output is for programs, which may cut columns at fixed places.
        if let (None, Some(text)) = (view.width(), self.filled()) {
            let left_out = Vec::new();
            return Fitted { text, left_out };
        }
        let natural: Vec<usize> = (0..self.columns.len()).map(|at| self.natural(at)).collect();
        let (kept, widths) = match view.width() {
            None => ((0..self.columns.len()).collect(), natural),
            Some(width) => self.arranged(&natural, width),
        };
        let left_out = (0..self.columns.len()).filter(|at| !kept.contains(at));
        Fitted {
            left_out: left_out.map(|at| self.columns[at].heading).collect(),
            text: self.rendered(view, &kept, &widths),
        }
    }

    /// All columns flush left, if all of them have a fixed width. A column grows only if it would touch the next one.
    fn filled(&self) -> Option<String> {
        let last = self.columns.len().saturating_sub(1);
        let widths = self.columns.iter().enumerate().map(|(at, column)| {
            let gap = usize::from(at != last);
            column.filled.map(|width| width.max(self.natural(at) + gap))
        });
        let widths: Vec<usize> = widths.collect::<Option<_>>()?;
        let line = |cells: &mut dyn Iterator<Item = &str>| -> String {
            let cells = cells.zip(&widths).map(|(cell, width)| {
                let blanks = width.saturating_sub(cell.width());
                format!("{cell}{}", " ".repeat(blanks))
            });
            cells.collect()
        };
        let heading = line(&mut self.columns.iter().map(|column| column.heading));
        let rows = self.rows.iter();
        let rows = rows.map(|row| line(&mut row.cells.iter().map(String::as_str)));
        let lines: Vec<String> = std::iter::once(heading).chain(rows).collect();
        Some(lines.join("\n"))
    }

    /// How wide a column is where nothing is shortened.
    fn natural(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(at));
        let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
        widest.max(self.columns[at].heading.width())
    }

    /// The remaining columns in order, with their widths. Names and sentences share the space left by the other
    /// columns, in proportion to what they lack.
    fn arranged(&self, natural: &[usize], width: usize) -> (Vec<usize>, Vec<usize>) {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .zip(natural)
            .map(|(column, natural)| (*natural).min(column.least.max(column.heading.width())))
            .collect();
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let taken = |kept: &[usize], widths: &[usize]| {
            let columns: usize = kept.iter().map(|at| widths[*at]).sum();
            columns + GAP * kept.len().saturating_sub(1)
        };
        // One column always stays, because an empty table is no answer.
        while taken(&kept, &widths) > width && kept.len() > 1 {
            let least = kept.iter().min_by_key(|at| self.columns[**at].importance);
            let least = least.copied();
            kept.retain(|at| Some(*at) != least);
        }
        let room = width.saturating_sub(taken(&kept, &widths));
        // The room that is left is shared in proportion to what each column lacks.
        let lacking: usize = kept.iter().map(|at| natural[*at] - widths[*at]).sum();
        for at in &kept {
            let lacks = natural[*at] - widths[*at];
            widths[*at] += (room * lacks)
                .checked_div(lacking)
                .map_or(0, |it| it.min(lacks));
        }
        (kept, widths)
    }

    fn rendered(&self, view: View, kept: &[usize], widths: &[usize]) -> String {
        let mut table = comfy_table::Table::new();
        let heading = |at: &usize| view.paint(Colour::Strong, self.columns[*at].heading);
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(kept.iter().map(heading));
        for row in &self.rows {
            table.add_row(kept.iter().map(|at| {
                let cell = row.cells.get(*at).map_or("", String::as_str);
                let cell = match self.columns[*at].holds {
                    Holds::Figure => cell.to_owned(),
                    Holds::Name => shortened(cell, widths[*at]),
                    Holds::Sentence => lines_of(cell, widths[*at]),
                };
                match row.colour {
                    Some(colour) => view.paint(colour, &cell),
                    None => cell,
                }
            }));
        }
        for (column, at) in table.column_iter_mut().zip(kept) {
            let padding = u16::try_from(GAP).unwrap_or_default();
            column.set_padding((0, padding));
            if self.columns[*at].right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn a_name_can_neither_steer_a_terminal_nor_begin_a_line() {
        let table = Table::new(
            [Column::name("NAME", 1)],
            [row(&["a\u{1b}[2J\nb\u{e0072}"])],
        );
        assert_eq!(
            table.shown(View::WHOLE),
            "NAME\na\\u001b[2J\\u000ab\\ue0072"
        );
    }

    #[test]
    fn a_table_has_no_lines_and_no_trailing_blanks() {
        let columns = [Column::name("NAME", 2), Column::figure("SIZE", 1)];
        let table = Table::new(columns, [row(&["a", "1"]), row(&["bb", "100"])]);
        for view in [View::WHOLE, View::of_width(80)] {
            assert_eq!(table.shown(view), "NAME  SIZE\na        1\nbb     100");
        }
    }

    #[test]
    fn filled_columns_keep_their_positions_where_nothing_limits_the_lines() {
        let columns = [
            Column::name("NAME", 2).filled(6),
            Column::figure("SIZE", 1).filled(6),
        ];
        let table = Table::new(columns, [row(&["a", "1"]), row(&["bb", "100"])]);
        let filled = "NAME  SIZE  \na     1     \nbb    100   ";
        assert_eq!(table.shown(View::WHOLE), filled);
        let fitted = "NAME  SIZE\na        1\nbb     100";
        assert_eq!(table.shown(View::of_width(80)), fitted);
        let long = Table::new(columns, [row(&["a-long-one", "1000000"])]);
        let widened = "NAME       SIZE   \na-long-one 1000000";
        assert_eq!(long.shown(View::WHOLE), widened);
    }

    #[test]
    fn the_least_important_columns_are_dropped_first_then_names_and_sentences_share_the_width() {
        let columns = [
            Column::name("POD", 9),
            Column::figure("USAGE", 8),
            Column::words("QOS", 1),
            Column::figure("PRIORITY", 2),
            Column::sentence("WHY", 3),
        ];
        let pod = "payments-production/checkout-payments-worker-7d9f8c6b0a-w8m3t";
        let why = "it uses more than it asked for, and more than every other pod of its kind does";
        let table = Table::new(
            columns,
            [row(&[pod, "605Mi", "BestEffort", "2000001000", why])],
        );
        let whole = table.fitted(View::WHOLE);
        assert!(whole.left_out.is_empty() && whole.text.contains(pod) && whole.text.contains(why));
        for (width, left_out) in [
            (200, vec![]),
            (120, vec![]),
            (80, vec!["QOS"]),
            (70, vec!["QOS", "PRIORITY"]),
            (60, vec!["QOS", "PRIORITY", "WHY"]),
        ] {
            let fitted = table.fitted(View::of_width(width));
            assert_eq!(fitted.left_out, left_out, "{width}\n{}", fitted.text);
            for line in fitted.text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(fitted.text.contains("605Mi") && fitted.text.contains("w8m3t"));
            let words: Vec<&str> = why.split(' ').collect();
            let shown = words.iter().all(|word| fitted.text.contains(word));
            assert_eq!(shown, width > 60, "{}", fitted.text);
        }
        let shown = table.shown(View::of_width(70));
        assert!(shown.ends_with("\n(-o wide adds QOS, PRIORITY)"), "{shown}");
    }

    #[test]
    fn a_colour_does_not_move_a_column() {
        let columns = [Column::name("NAME", 2), Column::figure("SIZE", 1)];
        let rows = || [Row::from(row(&["a", "1"])).coloured(Some(Colour::Bad))];
        let view = View::of_width(80);
        let plain = Table::new(columns, rows()).shown(view);
        let painted = Table::new(columns, rows()).shown(view.coloured());
        assert_ne!(plain, painted);
        let without: String = painted
            .chars()
            .filter(|it| !crate::colour::is_mark(*it))
            .collect();
        assert_eq!(plain, without);
    }
}
