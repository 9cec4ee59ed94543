//! Arguments of plugins, in the manner of Go's flags: `--name=value`, `-name value`, `-switch`.

use std::collections::BTreeMap;

/// Arguments that were given, by name.
#[derive(Debug, Default)]
pub(super) struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Reads arguments; `known` are the names, and whether each is a switch. Reading ends at the first error, and
    /// earlier arguments count, as in Volcano.
    pub(super) fn read(given: &[String], known: &[(&str, bool)]) -> Self {
        let mut read = BTreeMap::new();
        let mut rest = given.iter();
        while let Some(word) = rest.next() {
            let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                break;
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let Some((_, switch)) = known.iter().find(|(known, _)| *known == name) else {
                break;
            };
            let value = match value {
                Some(value) => value,
                None if *switch => "true".to_owned(),
                None => match rest.next() {
                    Some(value) => value.clone(),
                    None => break,
                },
            };
            if *switch && boolean(&value).is_none() {
                break;
            }
            read.insert(name.to_owned(), value);
        }
        Self(read)
    }

    /// The text of an argument.
    pub(super) fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    /// The number of an argument; the default also if it is no number.
    pub(super) fn number(&self, name: &str, default: i64) -> i64 {
        let given = self.0.get(name).and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        let given = self.0.get(name).and_then(|text| boolean(text));
        given.unwrap_or(default)
    }
}

/// The texts that Go takes for a truth value.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_gos_flags_up_to_the_first_mistake() {
        let given = [
            "--port=7",
            "-master",
            "boss",
            "-loud",
            "--loud=nonsense",
            "--worker=x",
        ];
        let given = given.map(str::to_owned);
        let known = [
            ("port", false),
            ("master", false),
            ("loud", true),
            ("worker", false),
        ];
        let read = Arguments::read(&given, &known);
        assert_eq!(read.number("port", 1), 7);
        assert_eq!(read.text("master", ""), "boss");
        assert!(read.is_on("loud", false));
        assert_eq!(read.text("worker", "unset"), "unset");
    }
}
