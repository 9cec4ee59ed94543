//! The interface of every kind of value.

use evictd_configuration::{Fault, Node};
use serde_json::Value as Json;

/// A setting's value.
pub(super) trait Value: Sized {
    /// Reads it, or returns everything that is wrong with it.
    fn read(node: &Node) -> Result<Self, Vec<Fault>>;
    /// Shows it in the form of a configuration file.
    fn show(&self) -> Json;
    /// The accepted values as a JSON Schema. It may accept a value that [`Value::read`] refuses, but must accept every
    /// value that it reads.
    fn schema() -> Json;
}
