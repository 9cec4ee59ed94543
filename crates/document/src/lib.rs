//! Reading what the command line is given: a file or stdin, JSON or YAML, with every mistake in it told in one go.

mod amounts;
mod document;
mod error;
mod finder;
mod mistake;
mod node;
mod pods;
#[cfg(test)]
mod tests;
mod yaml;

pub use amounts::{Amount, Wrong, amounts_of_list, amounts_of_pod};
pub use document::{Document, LARGE, SMALL, STREAM};
pub use error::DocumentError;
pub use finder::{ENOUGH, mistakes_of};
pub use mistake::{Mistake, Mistakes, Place};
