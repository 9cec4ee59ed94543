//! A document as an untyped tree in which every key and value has its place, so that all mistakes can be reported
//! at once.

use super::place::{Place, Step};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{
    Location, Spanned,
    options::{DuplicateKeyPolicy, NonFiniteFloatPolicy},
};
use std::fmt;

/// The deepest nesting that is accepted.
const DEEPEST: usize = 64;

/// A value with its place; `None` if the document was not read from a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The place of the value.
    pub at: Option<Place>,
    /// The value.
    pub content: Content,
}

/// A value. Numbers keep their text, because `1e3` may be an amount.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As it is written.
    Number(String),
    /// A text, with or without quotes.
    Text(String),
    /// Items.
    List(Vec<Node>),
    /// Entries in the order of the document, including duplicate keys.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub at: Option<Place>,
    /// The value.
    pub value: Node,
}

/// The text is neither YAML nor JSON.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct NotADocument {
    /// The place, if the parser knows it.
    pub at: Option<Place>,
    what: String,
}

impl Node {
    /// Parses YAML, which includes JSON. As in Kubernetes only `true` and `false` are booleans.
    pub fn parse(text: &str) -> Result<Self, NotADocument> {
        let options = serde_saphyr::options! {
            // Kept, so that each of them is reported with its place.
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            non_finite_float_policy: NonFiniteFloatPolicy::AsString,
            strict_booleans: true,
            with_snippet: false,
            budget: serde_saphyr::budget! { max_depth: DEEPEST },
        };
        let root: Spanned<Raw> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| NotADocument {
                at: error.location().and_then(position),
                what: without_place(&error.without_snippet().to_string()),
            })?;
        Ok(Self::placed(root, text))
    }

    fn placed(raw: Spanned<Raw>, text: &str) -> Self {
        let content = match raw.value {
            Raw::Null => Content::Null,
            Raw::Bool(value) => Content::Bool(value),
            // The digits of the file: 1e3 and 1000 are the same number but not the same amount.
            Raw::Number(value) => {
                Content::Number(as_written(raw.defined, text).map_or(value, str::to_owned))
            }
            // A number too large for a double arrives as infinity, but may be a valid amount.
            Raw::Text(value) if matches!(value.as_str(), ".inf" | "-.inf") => {
                let written = as_written(raw.defined, text).unwrap_or(&value);
                Content::Text(written.trim_matches(['"', '\'']).to_owned())
            }
            Raw::Text(value) => Content::Text(value),
            Raw::List(items) => Content::List(
                items
                    .into_iter()
                    .map(|item| Self::placed(item, text))
                    .collect(),
            ),
            Raw::Map(entries) => Content::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Entry {
                        at: position(key.referenced),
                        key: key.value,
                        value: Self::placed(value, text),
                    })
                    .collect(),
            ),
        };
        Self {
            at: position(raw.referenced),
            content,
        }
    }

    /// The tree as JSON, without places.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(digits) => digits
                .parse()
                .map_or_else(|_| Value::String(digits.clone()), Value::Number),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(items) => items.iter().map(Self::to_json).collect(),
            Content::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect(),
        }
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        self.content == Content::Null
    }

    /// The kind of value, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::Null => "nothing",
            Content::Bool(_) => "true or false",
            Content::Number(_) => "a number",
            Content::Text(_) => "a text",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }

    /// The last entry with that key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        let Content::Map(entries) = &self.content else {
            return None;
        };
        // The last one wins, as for the parser of a kubelet; the earlier ones are reported.
        entries.iter().rev().find(|entry| entry.key == key)
    }

    /// The entries of a map; none of another value.
    pub fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The place of the value at this path, or of its nearest parent that exists. A missing field has no place; the object
    /// that should have it is the nearest.
    pub fn place_of(&self, way: &[Step]) -> Option<Place> {
        let mut here = self;
        for step in way {
            let next = match (&here.content, step) {
                (Content::Map(_), Step::Key(key)) => here.get(key).map(|entry| &entry.value),
                (Content::List(items), Step::Index(index)) => items.get(*index),
                _ => None,
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.at
    }
}

impl From<&serde_json::Value> for Node {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        let content = match value {
            Value::Null => Content::Null,
            Value::Bool(value) => Content::Bool(*value),
            Value::Number(number) => Content::Number(number.to_string()),
            Value::String(text) => Content::Text(text.clone()),
            Value::Array(items) => Content::List(items.iter().map(Self::from).collect()),
            Value::Object(entries) => Content::Map(
                entries
                    .iter()
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        at: None,
                        value: Self::from(value),
                    })
                    .collect(),
            ),
        };
        Self { at: None, content }
    }
}

fn position(location: Location) -> Option<Place> {
    (location != Location::UNKNOWN).then(|| Place {
        line: location.line(),
        column: location.column(),
    })
}

/// Removes the place from the end of the parser's message, because it is reported separately.
fn without_place(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    message[..end].to_owned()
}

/// The scalar's text as written.
fn as_written(location: Location, text: &str) -> Option<&str> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let length = usize::try_from(location.span().byte_len()?).ok()?;
    let digits = text.get(start..start.checked_add(length)?)?.trim();
    (!digits.is_empty()).then_some(digits)
}

/// The parser's result, with places still in its own form.
enum Raw {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(node: &'a Node, path: &[&str]) -> &'a Entry {
        let (last, before) = path.split_last().unwrap();
        let parent = before
            .iter()
            .fold(node, |node, key| &node.get(key).unwrap().value);
        parent.get(last).unwrap()
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let node = Node::parse("# why\na: 1\nb:\n  c: [x, 1e3]\n").unwrap();
        let c = entry(&node, &["b", "c"]);
        assert_eq!(c.at, Some(Place { line: 4, column: 3 }));
        assert_eq!(c.value.at, Some(Place { line: 4, column: 6 }));
        let Content::List(items) = &c.value.content else {
            panic!("{c:?}")
        };
        assert_eq!(items[1].content, Content::Number("1e3".into()));
        assert_eq!(
            items[1].at,
            Some(Place {
                line: 4,
                column: 10
            })
        );
    }

    #[test]
    fn scalars_stay_as_written() {
        let table = [
            ("10%", Content::Text("10%".into())),
            ("1Gi", Content::Text("1Gi".into())),
            ("0.50", Content::Number("0.50".into())),
            ("-5", Content::Number("-5".into())),
            (
                "99999999999999999999999",
                Content::Number("99999999999999999999999".into()),
            ),
            (".inf", Content::Text(".inf".into())),
            ("\".inf\"", Content::Text(".inf".into())),
            ("1e400", Content::Text("1e400".into())),
            ("yes", Content::Text("yes".into())),
            ("true", Content::Bool(true)),
            ("\"5\"", Content::Text("5".into())),
            ("~", Content::Null),
            ("", Content::Null),
        ];
        for (text, content) in table {
            let node = Node::parse(&format!("key: {text}\n")).unwrap();
            assert_eq!(entry(&node, &["key"]).value.content, content, "{text}");
        }
    }

    #[test]
    fn json_is_read_too_and_a_key_twice_is_kept_twice() {
        let node = Node::parse("{\"a\": {\"b\": \"1\", \"b\": \"2\"}}").unwrap();
        let Content::Map(entries) = &entry(&node, &["a"]).value.content else {
            panic!("{node:?}")
        };
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[1].at,
            Some(Place {
                line: 1,
                column: 18
            })
        );
    }

    #[test]
    fn an_empty_text_is_nothing() {
        for text in ["", "\n", "# only a comment\n", "---\n"] {
            assert!(Node::parse(text).unwrap().is_null(), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_document_is_refused() {
        for text in ["a: [1", "a: b: c", "a: 1\n---\nb: 2\n", "\u{1}", "a: *b"] {
            let error = Node::parse(text).unwrap_err();
            assert!(error.at.is_some(), "{text:?}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(Node::parse(&deep).is_err());
    }
}
