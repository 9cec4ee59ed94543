//! One of a few words: serde knows which, so that they are spelled in one place.

use super::{mistake::Fault, nearest::close, node::Node, value};
use serde::de::{self, DeserializeOwned, value::StrDeserializer};
use std::fmt;

/// Reads a word, or tells which ones there are.
pub(super) fn read<T: DeserializeOwned>(node: &Node) -> Result<T, Vec<Fault>> {
    let word = value::text(node, "").unwrap_or_default();
    T::deserialize(StrDeserializer::new(word)).map_err(|NoSuchWord(known)| {
        let expected = format!("one of {}", known.join(", "));
        let fault = value::mismatch(node, &expected);
        vec![match close(word, known.iter().copied()) {
            Some(meant) => fault.advise(format!("did you mean {meant}?")),
            None => fault,
        }]
    })
}

/// The words that there are.
#[derive(Debug)]
struct NoSuchWord(&'static [&'static str]);

impl fmt::Display for NoSuchWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "none of {}", self.0.join(", "))
    }
}

impl std::error::Error for NoSuchWord {}

impl de::Error for NoSuchWord {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self(known)
    }
}
