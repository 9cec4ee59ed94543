#![doc = include_str!("../README.md")]
//!
//! A parser usually stops at the first mistake. Here the offending value is removed and the rest is parsed again, until
//! it parses or [`ENOUGH`] mistakes are found. A printed mistake looks like this:
//!
//! ```text
//! pods.yaml:7:20: shop/web: spec.containers[0].resources.limits: invalid type: string "1Gi", expected a map
//! ^name     ^line ^object   ^key                                  ^message
//!            ^column, in characters; both counts begin at 1
//! ```
//!
//! Only Kubernetes objects have an object part (`namespace/name`, or `items[3]` without a name). Place and key may be
//! unknown. A [`Document`] is a text with a name. It comes from a file or stdin ([`Document::read`]) or from memory
//! ([`Document::new`]), and parses as any type that implements `Deserialize`.
//!
//! It reads pods, nodes and leases as `kubectl get -o json` or `-o yaml` prints them
//! ([`Document::pods`], [`Document::node_and_lease`]; [`pods_at`] also from a directory). The first character or the file's name decides between
//! JSON and YAML.
//! `cargo run -p evictd-document --example mistakes -- FILE` prints the mistakes of a file.

mod amounts;
mod directory;
mod document;
mod encoding;
mod error;
mod finder;
mod mistake;
mod objects;
mod pods;
#[cfg(test)]
mod tests;
mod yaml;

pub use amounts::{Amount, Wrong, amounts_of_list, amounts_of_pod};
pub use directory::{InputFile, LazyFile};
pub use document::{Document, LARGE, SMALL, STREAM};
pub use error::DocumentError;
pub use finder::{ENOUGH, mistakes_of};
pub use mistake::{Mistake, Mistakes, Place};
pub use objects::{
    Assumptions, InvalidField, Loaded, Loader, ObjectsError, OtherObject, Receiver, Source,
};
pub use pods::pods_at;
