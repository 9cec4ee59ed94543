//! How a value of the wrong type is reported.

use super::{
    mistake::Fault,
    node::{Content, Node},
};

/// "... is not ...".
pub fn mismatch(node: &Node, expected: &str) -> Fault {
    let found = match &node.content {
        Content::Text(text) => format!("{text:?}"),
        Content::Number(digits) => digits.clone(),
        Content::Bool(value) => value.to_string(),
        Content::Null | Content::List(_) | Content::Map(_) => node.kind().to_owned(),
    };
    Fault::new(node.at, format!("{found} is not {expected}"))
}

/// A text, or a number as text.
pub fn text<'a>(node: &'a Node, expected: &str) -> Result<&'a str, Vec<Fault>> {
    match &node.content {
        Content::Text(text) | Content::Number(text) => Ok(text),
        _ => Err(vec![mismatch(node, expected)]),
    }
}
