//! Splits a body into its objects while it arrives. Two thousand pods may be 40 MB of text; only one object at a time
//! is in memory.

/// The most bytes of a list apart from its items.
const LONGEST_REST: usize = 1 << 20;

/// A piece of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'b> {
    /// The next bytes of it.
    Part(&'b [u8]),
    /// It is complete.
    End,
}

/// Takes the next piece from the beginning of `bytes`; `None` when there is nothing left of them.
pub(super) trait Split {
    fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Piece<'b>>;
}

/// Lines, as a watch sends its events.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ended: bool,
}

impl Split for Lines {
    fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Piece<'b>> {
        if std::mem::take(&mut self.ended) {
            return Some(Piece::End);
        }
        let input: &'b [u8] = bytes;
        if input.is_empty() {
            return None;
        }
        let part = match input.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                self.ended = true;
                *bytes = &input[end + 1..];
                &input[..end]
            }
            None => std::mem::take(bytes),
        };
        Some(Piece::Part(part))
    }
}

/// The items of a JSON object's `items`; everything else is kept.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says where in the text the next byte stands"
)]
pub(super) struct Items {
    rest: Vec<u8>,
    /// The number of open brackets.
    depth: usize,
    inside: bool,
    in_text: bool,
    escaped: bool,
    ended: bool,
}

/// The number of open brackets between two items: that of the list and that of `items`.
const BETWEEN: usize = 2;

impl Split for Items {
    fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Piece<'b>> {
        if std::mem::take(&mut self.ended) {
            return Some(Piece::End);
        }
        let input: &'b [u8] = bytes;
        if input.is_empty() {
            return None;
        }
        let mut begin = (self.inside && self.depth > BETWEEN).then_some(0);
        for (at, &byte) in input.iter().enumerate() {
            let begins = self.step(byte);
            if let Some(begin) = begin {
                if self.depth == BETWEEN && !self.in_text {
                    self.ended = true;
                    *bytes = &input[at + 1..];
                    return Some(Piece::Part(&input[begin..=at]));
                }
            } else if begins {
                begin = Some(at);
            // Commas and white space between the items would only fill the rest.
            } else if !(self.inside && self.depth == BETWEEN && byte != b'[')
                && self.rest.len() < LONGEST_REST
            {
                self.rest.push(byte);
            }
        }
        *bytes = &[];
        begin.map(|begin| Piece::Part(&input[begin..]))
    }
}

impl Items {
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
                    self.inside = true;
                }
                self.depth += 1;
                return self.inside && self.depth == BETWEEN + 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth < BETWEEN {
                    self.inside = false;
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
        let mut splitter = Items::default();
        let mut items = Vec::new();
        let mut item = Vec::new();
        for mut bytes in text.as_bytes().chunks(size) {
            while let Some(piece) = splitter.next(&mut bytes) {
                match piece {
                    Piece::Part(part) => item.extend_from_slice(part),
                    Piece::End => {
                        items.push(serde_json::from_slice(&item).unwrap());
                        item.clear();
                    }
                }
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
        let large = json!({"rest": "x".repeat(2 << 20), "items": [{"a": 1}]}).to_string();
        assert!(split(&large, 100).1.is_err());
    }

    #[test]
    fn lines_end_where_they_end_however_they_are_cut() {
        let text = "one\n\ntwo\nthr";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let (mut found, mut line) = (Vec::new(), Vec::new());
            for mut bytes in text.as_bytes().chunks(size) {
                while let Some(piece) = lines.next(&mut bytes) {
                    match piece {
                        Piece::Part(part) => line.extend_from_slice(part),
                        Piece::End => {
                            found.push(String::from_utf8(std::mem::take(&mut line)).unwrap());
                        }
                    }
                }
            }
            assert_eq!(
                (found.join("|").as_str(), line.as_slice()),
                ("one||two", b"thr".as_slice())
            );
        }
    }
}
