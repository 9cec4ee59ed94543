//! Every document: texts never become markup, nothing is loaded, and a row is small.
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use evictd_html::{Block, Cell, Column, Page, Table, Tone};

const HOSTILE: &str = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";

fn all_blocks(text: &str) -> Page {
    let mut page = Page::new(text, Tone::Bad, text);
    let table = || {
        let share = Cell::Share { used: 3.0, of: 4.0 };
        let rows = vec![vec![text.into(), share]];
        let columns = [Column::text(text), Column::figure("Share")];
        Table::grouped(columns, [(text.to_owned(), rows)])
    };
    page.section(
        text,
        [
            Block::Text(text.to_owned()),
            Block::List(vec![text.to_owned()]),
            Block::Facts(vec![(text.to_owned(), text.to_owned())]),
            Block::Table(table()),
        ],
    );
    page
}

#[test]
fn no_text_becomes_markup() {
    let plain = all_blocks("name").to_html();
    let hostile = all_blocks(HOSTILE).to_html();
    for tag in [
        "<script",
        "<img",
        "</title",
        "<style",
        "onerror=alert(1)>\"'",
    ] {
        let count = |document: &str| document.matches(tag).count();
        assert_eq!(count(&hostile), count(&plain), "{tag}");
    }
    // A value of an attribute ends where it should.
    assert!(!hostile.contains("aria-label=\"</title"));
}

#[test]
fn a_document_loads_nothing() {
    let document = all_blocks("name").to_html();
    for word in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!document.contains(word), "{word}");
    }
    assert!(document.contains("default-src 'none'"));
}

#[test]
fn a_row_of_two_columns_costs_at_most_fifty_bytes_beside_its_text() {
    let rows = |count: usize| {
        let rows = (0..count).map(|index| vec![format!("node-{index:04}").into(), "97".into()]);
        let mut page = Page::new("all", Tone::Good, "all");
        let columns = [Column::text("Node"), Column::figure("Score")];
        page.section("Nodes", [Block::Table(Table::new(columns, rows))]);
        page.to_html().len()
    };
    let each = (rows(5000) - rows(1000)) / 4000;
    assert!(each <= 9 + 2 + 50, "{each}");
}

#[test]
fn only_long_tables_can_be_searched_and_empty_sections_are_left_out() {
    let of = |count: usize| {
        let rows = (0..count).map(|index| vec![Cell::from(index)]);
        let mut page = Page::new("all", Tone::Plain, "all");
        let table = Table::new([Column::figure("Number")], rows);
        page.section("Numbers", [Block::Table(table)]);
        page.to_html()
    };
    assert!(!of(0).contains("<section"));
    assert!(!of(10).contains("<table data-search"));
    assert!(of(11).contains("<table data-search"));
}
