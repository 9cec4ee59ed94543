//! What the command lines of all programs share: exit codes, `-o`, tables and sentences as wide as the terminal.

mod colour;
mod failure;
mod output;
mod printable;
mod table;
mod view;

pub use colour::Colour;
pub use failure::Failure;
pub use output::{Output, warn, write_to_stdout};
pub use printable::{printable, printable_line};
pub use table::{Column, Fitted, Row, Table};
pub use view::{View, shortened};
