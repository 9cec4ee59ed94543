//! What the command lines of all programs share: exit codes, `-o`, tables, completions, manual pages.

mod completions;
mod failure;
mod manual;
mod output;
mod plugin;
mod printable;
mod table;

pub use completions::Completions;
pub use failure::Failure;
pub use manual::{Manual, ManualArguments, Page};
pub use output::{Output, write_to_stdout};
pub use plugin::parse;
pub use printable::{printable, printable_line};
pub use table::table;
