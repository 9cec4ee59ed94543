//! What the command lines of all programs share: exit codes, `-o`, tables and sentences as wide as the terminal,
//! completions, manual pages.

mod colour;
mod completions;
mod failure;
mod manual;
mod output;
mod plugin;
mod printable;
mod table;
mod view;

pub use colour::Colour;
pub use completions::Completions;
pub use failure::Failure;
pub use manual::{Manual, ManualArguments, Page};
pub use output::{Output, warn, write_to_stdout};
pub use plugin::parse;
pub use printable::{printable, printable_line};
pub use table::{Column, Fitted, Row, Table};
pub use view::{View, shortened};
