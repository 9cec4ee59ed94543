//! What is wrong with a field of an object, in the words of Kubernetes' validation.

use std::collections::BTreeSet;

/// A text as messages quote it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
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
    quoted.push('"');
    quoted
}

/// A list as messages show it: `[a b]`.
pub(super) fn listed(texts: &[String]) -> String {
    format!("[{}]", texts.join(" "))
}

/// What was found wrong, in order.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Vec<String>);

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
        self.0
            .push(format!("{path}: Required value{separator}{why}"));
    }

    pub(super) fn not_supported(&mut self, path: &str, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|one| quoted(one)).collect();
        let supported = supported.join(", ");
        let value = quoted(value);
        self.0.push(format!(
            "{path}: Unsupported value: {value}: supported values: {supported}"
        ));
    }

    pub(super) fn duplicate(&mut self, path: &str, value: &str) {
        let value = quoted(value);
        self.0.push(format!("{path}: Duplicate value: {value}"));
    }

    pub(super) fn not_found(&mut self, path: &str, value: &str) {
        let value = quoted(value);
        self.0.push(format!("{path}: Not found: {value}"));
    }

    pub(super) fn forbidden(&mut self, path: &str, why: &str) {
        self.0.push(format!("{path}: Forbidden: {why}"));
    }

    /// One of these values; absent is a mistake where there is no default.
    pub(super) fn one_of(&mut self, path: &str, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Each of them, in order.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.0
    }

    /// All of them as one text: a single one as it is, several in brackets, each told once.
    pub(super) fn aggregate(self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let told = self.0.into_iter();
        let told: Vec<_> = told.filter(|text| seen.insert(text.clone())).collect();
        match told.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            all => Some(format!("[{}]", all.join(", "))),
        }
    }

    fn invalid_value(&mut self, path: &str, value: &str, why: &str) {
        self.0
            .push(format!("{path}: Invalid value: {value}: {why}"));
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
