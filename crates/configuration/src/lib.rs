//! A configuration as a tree of values, each with its place, and one way to report its mistakes. The readers of
//! all three programs use it: the agent's, `KubeSchedulerConfiguration` and `volcano-scheduler.conf`.
//!
//! | for | look at |
//! |---|---|
//! | a text as a tree with places | [`Node`], [`Content`], [`Entry`] |
//! | a mistake with file, line, key and advice | [`Mistake`], [`InvalidConfiguration`] |
//! | a mistake in a value, before its key and file are known | [`Fault`], [`mismatch`] |
//! | keys that are unknown or appear twice | [`unknown_key`], [`Node::duplicate_keys`] |
//! | one of a few words | [`read_word`], [`words`] |
//! | a tree as a type that implements `Deserialize`, with all mistakes at once | [`read_typed`] |
//!
//! ```
//! use evictd_configuration::{Node, unknown_key};
//!
//! let tree = Node::parse("limits:\n  memroy: 1Gi\n").expect("YAML");
//! let limits = &tree.get("limits").expect("it is there").value;
//! let fault = unknown_key("limits", &limits.entries()[0], &["cpu", "memory"]);
//! let mistake = fault.in_file("limits.yaml", "limits.memroy");
//! assert_eq!(mistake.to_string(), "limits.yaml:2:3: limits.memroy: unknown key; did you mean limits.memory?");
//! ```
#![forbid(unsafe_code)]

mod keys;
mod mistake;
mod node;
mod place;
mod typed;
mod value;
mod word;

pub use keys::{joined, meant_key, nearest_key, unknown_key};
pub use mistake::{Fault, InvalidConfiguration, Mistake};
pub use node::{Content, Entry, Node, NotADocument};
pub use place::{Place, Step};
pub use typed::{WrongField, read_typed};
pub use value::{mismatch, text};
pub use word::{read_word, words};
