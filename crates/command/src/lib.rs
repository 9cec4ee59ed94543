//! What the command lines of all programs share: exit codes, `-o`, tables.

mod failure;
mod output;
mod printable;
mod table;

pub use failure::Failure;
pub use output::{Output, write_to_stdout};
pub use printable::{printable, printable_line};
pub use table::table;
