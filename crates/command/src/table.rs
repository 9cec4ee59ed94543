//! Tables for people.

use crate::printable_line;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table without lines, as `kubectl` has them; columns whose heading begins with `>` are flush right.
pub fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(
            headings
                .iter()
                .map(|heading| heading.trim_start_matches('>')),
        );
    for row in rows {
        table.add_row(row.iter().map(|cell| printable_line(cell)));
    }
    for (column, heading) in table.column_iter_mut().zip(headings) {
        column.set_padding((0, 2));
        if heading.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_neither_steer_a_terminal_nor_begin_a_line() {
        let rows = [vec!["a\u{1b}[2J\nb".to_owned()]];
        assert_eq!(table(&["NAME"], rows), "NAME\na\\u001b[2J\\u000ab");
    }

    #[test]
    fn a_table_has_no_lines_and_no_trailing_blanks() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["bb".to_owned(), "100".to_owned()],
        ];
        assert_eq!(
            table(&["NAME", ">SIZE"], rows),
            "NAME  SIZE\na        1\nbb     100"
        );
    }
}
