//! Settings that are one of a few words. serde knows the words, so that they are spelled in one place; this module
//! also suggests the nearest word.

use super::{mistake::Fault, node::Node, value};
use evictd_spelling::close;
use serde::de::{self, DeserializeOwned, value::StrDeserializer};
use std::fmt;

/// Reads a word; the error lists the known ones.
pub fn read_word<T: DeserializeOwned>(node: &Node) -> Result<T, Vec<Fault>> {
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

/// Every word that there is.
pub fn words<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(StrDeserializer::<NoSuchWord>::new("")) {
        Ok(_) => &[],
        Err(NoSuchWord(known)) => known,
    }
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
