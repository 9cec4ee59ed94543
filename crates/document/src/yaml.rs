//! The only module that depends on the YAML parser.

use crate::mistake::{Mistake, Place, Step};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{Error, Localizer, Location, Options, Spanned, UserMessageFormatter};
use std::{borrow::Cow, fmt};

/// Files of a whole cluster are large, so only the expansion of a small file is limited.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_documents: 100_000,
            max_recorded_anchor_events: 100_000,
        },
        with_snippet: false,
    }
}

/// Parses one document. All types are made from this value, because the parser's generated code for each type would be
/// a large part of the program.
pub(crate) fn parse(text: &str) -> Result<Value, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// Parses every document of the text.
pub(crate) fn parse_all(text: &str) -> Result<Vec<Value>, Error> {
    serde_saphyr::from_multiple_with_options(text, options())
}

/// Converts the parser's error.
pub(crate) fn mistake(error: &Error) -> Mistake {
    let place = error.location().and_then(known);
    let words = UserMessageFormatter.with_localizer(&WithoutPlace);
    let message = error.without_snippet().render_with_formatter(&words);
    Mistake {
        place,
        object: String::new(),
        key: String::new(),
        message,
    }
}

/// Omits places from messages, because our messages begin with them.
struct WithoutPlace;

impl Localizer for WithoutPlace {
    fn attach_location<'a>(&self, base: Cow<'a, str>, _: Location) -> Cow<'a, str> {
        base
    }
}

fn known(location: Location) -> Option<Place> {
    (location.line() > 0).then(|| Place {
        line: location.line(),
        column: location.column(),
    })
}

/// The place of every value in every document. JSON parses as YAML here. Empty if the places are unknown.
pub(crate) fn spans(text: &str) -> Vec<Span> {
    let all: Result<Vec<Spanned<Tree>>, _> =
        serde_saphyr::from_multiple_with_options(text, options());
    all.unwrap_or_default().into_iter().map(Span).collect()
}

/// The places of a value and of all nested values.
pub(crate) struct Span(Spanned<Tree>);

enum Tree {
    Leaf,
    Map(Vec<(String, Spanned<Tree>)>),
    List(Vec<Spanned<Tree>>),
}

impl Span {
    /// The place of the value at `way`, or of its last existing parent.
    pub(crate) fn place(&self, way: &[Step]) -> Option<Place> {
        let mut here = &self.0;
        for step in way {
            let next = match (&here.value, step) {
                (Tree::Map(entries), Step::Key(key)) => entries
                    .iter()
                    .find_map(|(name, value)| (name == key).then_some(value)),
                (Tree::List(values), Step::Index(index)) => values.get(*index),
                _ => None,
            };
            match next {
                Some(value) => here = value,
                None => break,
            }
        }
        known(here.referenced)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Tree::List(values))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }
}
