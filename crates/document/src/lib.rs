//! Reads a JSON or YAML file that a person has written, and tells every mistake in it at once, each with its place.
//!
//! A parser usually stops at the first mistake, and says where only in the text that it was given. Here whatever keeps a
//! value from being of the wanted type is taken out and the rest is tried again, until nothing is left to complain about
//! or [`ENOUGH`] mistakes are found. What a mistake looks like, printed:
//!
//! ```text
//! pods.yaml:7:20: shop/web: spec.containers[0].resources.limits: invalid type: string "1Gi", expected a map
//! ^name     ^line ^object   ^key                                  ^message
//!            ^column, in characters; both counts begin at 1
//! ```
//!
//! The object is there for Kubernetes objects only (`namespace/name`, or `items[3]` where it has no name), place and key as
//! far as they are known. [`Document`] is a text with a name; it comes from a file or from stdin ([`Document::read`]) or
//! from memory ([`Document::new`]), and becomes any type that serde can read:
//!
//! ```
//! use evictd_document::{Document, DocumentError, Place};
//!
//! #[derive(Debug, serde::Deserialize)]
//! struct Server {
//!     port: u16,
//!     threads: u8,
//! }
//!
//! let document = Document::new("server.yaml", "port: many\nthreads: 1000\n".to_owned())?;
//! let Err(DocumentError::Mistakes(found)) = document.parse::<Server>() else {
//!     panic!("both are wrong");
//! };
//! assert_eq!(found.mistakes[0].place, Some(Place { line: 1, column: 7 }));
//! assert_eq!(found.mistakes[1].key, "threads");
//! # Ok::<(), DocumentError>(())
//! ```
//!
//! Of Kubernetes objects it knows pods, nodes and leases, as `kubectl get -o json` or `-o yaml` prints them
//! ([`Document::pods`], [`Document::node`]). JSON is told from YAML by its first character, or by the name of the file.
//! `cargo run -p evictd-document --example mistakes -- FILE` shows the mistakes of a file.

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
