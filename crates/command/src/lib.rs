//! What the command lines of all programs share: exit codes, `-o`, tables, and names that cannot steer a terminal.
//!
//! A subcommand returns `Result<(), Failure>`. `?` makes any error a [`Failure::Work`] (exit code 1); bad usage and bad
//! input are [`Failure::Input`] (2), a missing right is [`Failure::NotPermitted`] (3). `main` prints it and ends with
//! [`Failure::exit_code`]. A command that prints a result takes [`Output`] among its arguments: a table for people, JSON
//! or YAML for programs, all of one value.
//!
//! ```
//! use clap::Parser;
//! use evictd_command::{Failure, Output, table};
//!
//! #[derive(Parser)]
//! struct Nodes {
//!     #[command(flatten)]
//!     output: Output,
//! }
//!
//! fn run(nodes: &Nodes) -> Result<(), Failure> {
//!     let found = [("a", 3), ("b", 12)];
//!     // A heading that begins with `>` is flush right.
//!     let rows = found.map(|(name, pods)| vec![name.to_owned(), pods.to_string()]);
//!     assert_eq!(table(&["NODE", ">PODS"], rows.clone()), "NODE  PODS\na        3\nb       12");
//!     nodes.output.print(&found, |_| table(&["NODE", ">PODS"], rows))
//! }
//!
//! run(&Nodes::parse_from(["nodes", "-o", "json"]))?;
//! # Ok::<(), Failure>(())
//! ```
//!
//! Whatever others have named (pods, files, errors of a server) goes through [`printable`] before it reaches a terminal;
//! [`table`], [`Output`] and the text of a [`Failure`] do that themselves.

mod failure;
mod output;
mod printable;
mod table;

pub use failure::Failure;
pub use output::{Output, write_to_stdout};
pub use printable::{printable, printable_line};
pub use table::table;
