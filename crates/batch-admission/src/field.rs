//! Field errors, in the words of Kubernetes' validation.

use std::collections::BTreeSet;

/// The errors reported for one object.
const MOST: usize = 10;
/// The bytes reported of one error.
const LONGEST: usize = 1024;

/// The beginning of a text that is longer than this.
fn beginning(text: &str, longest: usize) -> Option<&str> {
    (text.len() > longest).then(|| &text[..text.floor_char_boundary(longest)])
}

/// Truncates a text to the length of all errors together.
pub(super) fn bounded(mut text: String) -> String {
    if let Some(kept) = beginning(&text, MOST * LONGEST) {
        text.truncate(kept.len());
        text.push_str("...");
    }
    text
}

/// A text as messages quote it; of a long one the beginning.
pub(super) fn quoted(text: &str) -> String {
    let kept = beginning(text, LONGEST);
    let mut quoted = String::with_capacity(kept.unwrap_or(text).len() + 5);
    quoted.push('"');
    for character in kept.unwrap_or(text).chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_ascii_control() => {
                quoted.extend(format!("\\x{:02x}", u32::from(control)).chars());
            }
            other => quoted.push(other),
        }
    }
    if kept.is_some() {
        quoted.push_str("...");
    }
    quoted.push('"');
    quoted
}

/// A list as messages show it: `[a b]`.
pub(super) fn listed(texts: &[String]) -> String {
    format!("[{}]", texts.join(" "))
}

/// The errors in order: the first [`MOST`], each up to [`LONGEST`] bytes, and the number of the others.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    texts: Vec<String>,
    more: usize,
}

impl Mistakes {
    pub(super) fn invalid(&mut self, path: &str, value: &str, why: &str) {
        self.invalid_value(path, &quoted(value), why);
    }

    /// A number is not quoted.
    pub(super) fn invalid_number(&mut self, path: &str, value: i64, why: &str) {
        self.invalid_value(path, &value.to_string(), why);
    }

    /// One for each thing that is wrong with the value.
    pub(super) fn each_invalid(&mut self, path: &str, value: &str, why: Vec<String>) {
        for why in why {
            self.invalid(path, value, &why);
        }
    }

    pub(super) fn required(&mut self, path: &str, why: &str) {
        let separator = if why.is_empty() { "" } else { ": " };
        self.push(format!("{path}: Required value{separator}{why}"));
    }

    pub(super) fn not_supported(&mut self, path: &str, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|one| quoted(one)).collect();
        let supported = supported.join(", ");
        let value = quoted(value);
        self.push(format!(
            "{path}: Unsupported value: {value}: supported values: {supported}"
        ));
    }

    pub(super) fn duplicate(&mut self, path: &str, value: &str) {
        let value = quoted(value);
        self.push(format!("{path}: Duplicate value: {value}"));
    }

    pub(super) fn not_found(&mut self, path: &str, value: &str) {
        let value = quoted(value);
        self.push(format!("{path}: Not found: {value}"));
    }

    pub(super) fn forbidden(&mut self, path: &str, why: &str) {
        self.push(format!("{path}: Forbidden: {why}"));
    }

    /// One of these values; absent is a mistake where there is no default.
    pub(super) fn one_of(&mut self, path: &str, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    /// Adds one in whole words; nothing is added where nothing is wrong.
    pub(super) fn push(&mut self, mut text: String) {
        if text.is_empty() {
            return;
        }
        if self.texts.len() == MOST {
            self.more = self.more.saturating_add(1);
            return;
        }
        if let Some(kept) = beginning(&text, LONGEST) {
            text.truncate(kept.len());
            text.push_str("...");
        }
        self.texts.push(text);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(super) fn extend(&mut self, others: Self) {
        for text in others.texts {
            self.push(text);
        }
        self.more = self.more.saturating_add(others.more);
    }

    /// Each of them, in order.
    pub(super) fn into_texts(self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.texts.into_iter().chain(more).collect()
    }

    /// One after the other, as they were written.
    pub(super) fn concat(self) -> String {
        let more = (self.more > 0).then(|| format!(" and {} more", self.more));
        self.texts.into_iter().chain(more).collect()
    }

    /// All errors as one text, each once: a single one as it is, several in brackets.
    pub(super) fn aggregate(self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let texts = self.into_texts().into_iter();
        let texts: Vec<_> = texts.filter(|text| seen.insert(text.clone())).collect();
        match texts.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            all => Some(format!("[{}]", all.join(", "))),
        }
    }

    pub(super) fn invalid_value(&mut self, path: &str, value: &str, why: &str) {
        self.push(format!("{path}: Invalid value: {value}: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_mistake_in_its_words() {
        let mut mistakes = Mistakes::default();
        assert!(mistakes.is_empty());
        mistakes.invalid("a", "x\"\n\u{1}", "bad");
        mistakes.invalid_number("a", -1, "bad");
        mistakes.required("b", "");
        mistakes.required("b", "because");
        mistakes.one_of("c", "z", &["x", "y"]);
        mistakes.one_of("c", "x", &["x", "y"]);
        mistakes.duplicate("d", "x");
        mistakes.not_found("e", "x");
        mistakes.forbidden("f", "no");
        assert_eq!(
            mistakes.into_texts(),
            [
                r#"a: Invalid value: "x\"\n\x01": bad"#,
                "a: Invalid value: -1: bad",
                "b: Required value",
                "b: Required value: because",
                r#"c: Unsupported value: "z": supported values: "x", "y""#,
                r#"d: Duplicate value: "x""#,
                r#"e: Not found: "x""#,
                "f: Forbidden: no",
            ]
        );
    }

    #[test]
    fn ten_mistakes_of_1_kib_are_told_and_how_many_more_there_are() {
        let mut mistakes = Mistakes::default();
        for _ in 0..100_000 {
            mistakes.invalid("a", &"ä".repeat(100_000), "bad");
        }
        let texts = mistakes.into_texts();
        assert_eq!(texts.len(), MOST + 1);
        assert_eq!(texts[MOST], "and 99990 more");
        assert!(texts.iter().all(|text| text.len() <= LONGEST + 3));
        assert!(texts[0].starts_with("a: Invalid value: \"ää"));
        let long = bounded("ä".repeat(100_000));
        assert_eq!(long.len(), MOST * LONGEST + 3);
    }

    #[test]
    fn several_mistakes_stand_in_brackets_and_each_once() {
        let of = |texts: &[&str]| {
            let mut mistakes = Mistakes::default();
            for text in texts {
                mistakes.required(text, "");
            }
            mistakes.aggregate()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["a"]), Some("a: Required value".to_owned()));
        let both = "[a: Required value, b: Required value]";
        assert_eq!(of(&["a", "b", "a"]), Some(both.to_owned()));
    }
}
