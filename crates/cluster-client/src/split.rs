//! Parses a list while it arrives. Two thousand pods may be 40 MB of text; only one object at a time is held in
//! memory.

use std::str::Utf8Error;

/// Yields each item of a JSON object's `items` when it is complete, and keeps everything else.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The most bytes of an item, and of everything else.
    limit: usize,
    rest: Vec<u8>,
    item: Vec<u8>,
    /// The number of open brackets.
    depth: usize,
    in_items: bool,
    in_text: bool,
    escaped: bool,
}

/// Why a list cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SplitError {
    /// An object larger than any that an API server stores.
    #[error("an object of more than {0} bytes")]
    TooLarge(usize),
    /// An object that is not UTF-8.
    #[error("an object that is not UTF-8")]
    NotText(#[from] Utf8Error),
}

/// The number of open brackets between two items: that of the list and that of `items`.
const BETWEEN: usize = 2;

impl Splitter {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            rest: Vec::new(),
            item: Vec::new(),
            depth: 0,
            in_items: false,
            in_text: false,
            escaped: false,
        }
    }

    /// Takes the next bytes of the list; calls `each` for every item that they complete.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str),
    ) -> Result<(), SplitError> {
        for &byte in bytes {
            let within = self.in_items && self.depth > BETWEEN;
            let is_item = self.step(byte);
            if within || is_item {
                self.item.push(byte);
            } else if !(self.in_items && self.depth == BETWEEN && byte != b'[') {
                self.rest.push(byte);
            }
            if self.item.len().max(self.rest.len()) > self.limit {
                return Err(SplitError::TooLarge(self.limit));
            }
            if within && self.depth == BETWEEN && !self.in_text {
                each(std::str::from_utf8(&self.item)?);
                self.item.clear();
                self.item.shrink_to(4096);
            }
        }
        Ok(())
    }

    /// The list without its items; incomplete while the list is.
    pub(super) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Processes one byte; true if it begins an item.
    fn step(&mut self, byte: u8) -> bool {
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => {
                if byte == b'[' && self.depth == 1 && self.follows_items() {
                    self.in_items = true;
                }
                self.depth += 1;
                return self.in_items && self.depth == BETWEEN + 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth < BETWEEN {
                    self.in_items = false;
                }
            }
            _ => {}
        }
        false
    }

    fn follows_items(&self) -> bool {
        let key = self.rest.trim_ascii_end().strip_suffix(b":");
        key.is_some_and(|key| key.trim_ascii_end().ends_with(b"\"items\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The items and the rest, for an input in pieces of this size.
    fn split(text: &str, size: usize) -> (Vec<Value>, Result<Value, String>) {
        let mut splitter = Splitter::new(1 << 10);
        let mut items = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            let each = |item: &str| items.push(serde_json::from_str(item).unwrap());
            if let Err(error) = splitter.feed(piece, each) {
                return (items, Err(error.to_string()));
            }
        }
        let rest = serde_json::from_slice(splitter.rest());
        (items, rest.map_err(|error| error.to_string()))
    }

    #[test]
    fn a_list_is_taken_apart_wherever_it_is_cut() {
        let items = [
            json!({"a": [1, {"items": [{"b": 2}]}], "text": "\"},{ ] \\ é"}),
            json!({}),
            json!({"metadata": {"annotations": {"x": "\"items\":["}}}),
        ];
        let list = json!({"apiVersion": "v1", "items": items, "metadata": {"resourceVersion": "7", "items": [1]}});
        for text in [
            list.to_string(),
            serde_json::to_string_pretty(&list).unwrap(),
        ] {
            for size in 1..text.len() {
                let (found, rest) = split(&text, size);
                assert_eq!(found, items, "{size}");
                let mut without = list.clone();
                without["items"] = json!([]);
                assert_eq!(rest, Ok(without), "{size}");
            }
        }
    }

    #[test]
    fn what_is_no_list_has_no_items_and_one_that_breaks_off_no_end() {
        for (text, items) in [
            (r#""nothing""#, 0),
            ("7", 0),
            (r#"{"items": null}"#, 0),
            (r#"{"items": [7, "x", null, [1]]}"#, 1),
            (r#"[{"a": 1}]"#, 0),
        ] {
            let (found, rest) = split(text, 3);
            assert_eq!(found.len(), items, "{text}");
            assert!(rest.is_ok(), "{text}: {rest:?}");
        }
        for text in [
            r#"{"items": [{"a": 1}, {"b""#,
            r#"{"items": [{"a": 1}]"#,
            "]}",
            "",
        ] {
            assert!(split(text, 3).1.is_err(), "{text}");
        }
        let large = json!({"items": [{"a": "x".repeat(2000)}]}).to_string();
        let (_, rest) = split(&large, 100);
        assert_eq!(rest, Err("an object of more than 1024 bytes".to_owned()));
    }
}
