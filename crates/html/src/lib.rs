//! Results as one HTML document that needs no network: it is read without colours, by keyboard, in the dark and on paper.
//!
//! Every text is escaped. Tables of more than ten rows can be searched, and all can be sorted, by one small script; without scripts
//! everything is still there.
//!
//! ```
//! use evictd_html::{Block, Column, Page, Table, Tone};
//!
//! let mut page = Page::new("explain shop/web", Tone::Good, "shop/web would be assigned to node-1.");
//! let columns = [Column::text("Node"), Column::figure("Score")];
//! let rows = [vec!["node-1".into(), "97".into()]];
//! page.section("Scores", [Block::Table(Table::new(columns, rows))]);
//! let document = page.to_html();
//! assert!(document.starts_with("<!DOCTYPE html>") && document.contains("node-1"));
//! ```
#![forbid(unsafe_code)]

mod page;
mod render;
mod table;

pub use page::{Block, Page, Tone};
pub use table::{Cell, Column, Table, counted};
