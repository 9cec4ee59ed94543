//! The interface of every kind of value, and how a wrong one is reported.

use super::{
    mistake::Fault,
    node::{Content, Node},
};
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

/// "... is not ...".
pub(super) fn mismatch(node: &Node, expected: &str) -> Fault {
    let found = match &node.content {
        Content::Text(text) => format!("{text:?}"),
        Content::Number(digits) => digits.clone(),
        Content::Bool(value) => value.to_string(),
        Content::Null | Content::List(_) | Content::Map(_) => node.kind().to_owned(),
    };
    Fault::new(node.at, format!("{found} is not {expected}"))
}

/// A text, or a number as text.
pub(super) fn text<'a>(node: &'a Node, expected: &str) -> Result<&'a str, Vec<Fault>> {
    match &node.content {
        Content::Text(text) | Content::Number(text) => Ok(text),
        _ => Err(vec![mismatch(node, expected)]),
    }
}
