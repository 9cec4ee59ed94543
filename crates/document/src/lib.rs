//! Reading what the command line is given: a file or stdin, JSON or YAML, with every mistake in it told in one go.

mod document;
mod error;
mod finder;
mod mistake;
mod node;
mod pods;
#[cfg(test)]
mod tests;
mod yaml;

pub use document::{Document, LARGE, SMALL};
pub use error::DocumentError;
pub use finder::{ENOUGH, mistakes_of};
pub use mistake::{Mistake, Mistakes, Place};
