//! The command line of all programs: exit codes, `-o`, tables and sentences that fit the terminal, escaped names,
//! completions and manual pages.
//!
//! A subcommand returns `Result<(), Failure>`. `?` makes any error a [`Failure::Work`] (exit code 1); bad usage and bad
//! input are [`Failure::Input`] (2), a missing right is [`Failure::NotPermitted`] (3). `main` prints it and ends with
//! [`Failure::exit_code`]. A command that prints a result takes [`Output`] among its arguments: a table for people, JSON
//! or YAML for programs, all of one value.
//!
//! ```
//! use clap::Parser;
//! use evictd_command::{Column, Failure, Output, Table, View};
//!
//! #[derive(Parser)]
//! struct Nodes {
//!     #[command(flatten)]
//!     output: Output,
//! }
//!
//! fn run(nodes: &Nodes) -> Result<(), Failure> {
//!     let found = [("a", 3), ("b", 12)];
//!     // Where there is not room for all columns, the least important one is left out.
//!     let columns = [Column::name("NODE", 9), Column::figure("PODS", 5)];
//!     let rows = found.map(|(name, pods)| vec![name.to_owned(), pods.to_string()]);
//!     let table = Table::new(columns, rows);
//!     assert_eq!(table.shown(View::WHOLE), "NODE  PODS\na        3\nb       12");
//!     nodes.output.print(&found, |_, view| table.shown(view))
//! }
//!
//! run(&Nodes::parse_from(["nodes", "-o", "json"]))?;
//! # Ok::<(), Failure>(())
//! ```
//!
//! Text from outside (names of pods and files, errors of a server) must pass [`printable`] before it reaches a terminal;
//! [`Table`], [`Output`], [`warn`] and the text of a [`Failure`] do that themselves.

mod colour;
mod completions;
mod failure;
mod frames;
mod live;
mod manual;
mod output;
mod plugin;
mod printable;
mod progress;
mod stderr;
mod table;
mod view;

pub use colour::Colour;
pub use completions::Completions;
pub use failure::Failure;
pub use frames::Frames;
pub use live::{Section, age, is_live, show_live};
pub use manual::{Manual, ManualArguments, Page};
pub use output::{Output, PageOutput, write_to_stdout};
pub use plugin::parse;
pub use printable::{printable, printable_line};
pub use progress::{Progress, bar};
pub use stderr::{note, warn};
pub use table::{Column, Fitted, Row, Table, capitalized};
pub use view::{View, shortened};
