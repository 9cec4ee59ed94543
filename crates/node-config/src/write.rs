//! Writes the configuration: as YAML that can be read again, and as a list of settings.

use super::{
    effective::{Effective, Kind, Origin},
    key::{Field, Key},
    keys::KEYS,
    read::built_in,
};
use evictd_command::View;
use serde_json::{Map, Value as Json};
use std::fmt::Write;

/// The longest line with a comment, in columns.
const COMMENT_COLUMNS: usize = 80;

/// One setting, or one entry of a signals' map.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key, with those above it.
    pub key: String,
    /// The value, as it would be written.
    pub value: Json,
    /// The origin; `None` if it is neither written nor defaulted.
    pub origin: Option<Origin>,
}

impl Setting {
    /// The value as written in a file; `""` for the empty text.
    pub fn written(&self) -> String {
        match &self.value {
            Json::String(text) if !text.is_empty() => text.clone(),
            other => flow(other),
        }
    }
}

/// The documentation of a setting.
#[derive(Debug, Clone, Copy)]
pub struct Documented {
    /// The key, with those above it.
    pub key: &'static str,
    /// The default in YAML.
    pub default: &'static str,
    /// The purpose in one line.
    pub why: &'static str,
}

/// Every key of an `EvictionConfiguration`, in the order of the documentation.
pub fn documented() -> impl Iterator<Item = Documented> {
    KEYS.iter().filter_map(|key| {
        Some(Documented {
            key: key.name(Kind::Evictd)?,
            default: key.default?,
            why: key.why,
        })
    })
}

/// `config/evictd.yaml`: every key with its default and purpose.
pub fn commented_defaults() -> String {
    // The path in the packages; elsewhere `evictd check-config --schema` prints the schema.
    let header = "# yaml-language-server: $schema=/usr/share/evictd/evictd.schema.json\n\
         # The configuration of evictd: every key with its default and its purpose.\n\
         # A key that is left out has its default, so a file needs only what differs.\n\
         # `evictd check-config FILE` shows the settings in force and their origins.\n";
    header.to_owned() + &yaml(&built_in(), &Comments::Why)
}

impl Effective {
    /// A file of the same kind with the same meaning, each setting with its origin in a comment.
    pub fn to_yaml(&self) -> String {
        yaml(self, &Comments::Origin)
    }

    /// All settings as one nested document.
    pub fn to_json(&self) -> Json {
        let mut document = Map::new();
        for key in self.keys() {
            let value = key.show(self);
            // No key is deeper than two levels.
            match key.path.split_once('.') {
                None => drop(document.insert(key.path.to_owned(), value)),
                Some((above, name)) => {
                    let inner = document
                        .entry(above)
                        .or_insert_with(|| Json::Object(Map::new()));
                    if let Json::Object(inner) = inner {
                        inner.insert(name.to_owned(), value);
                    }
                }
            }
        }
        Json::Object(document)
    }

    /// Every setting with its origin, in the order of the documentation.
    pub fn settings(&self) -> Vec<Setting> {
        let setting = |key: String, value| Setting {
            origin: self.origin(&key).cloned(),
            key,
            value,
        };
        let mut settings = Vec::new();
        for key in self.keys() {
            match (&key.field, key.show(self)) {
                (Field::Signals { .. }, Json::Object(entries)) if !entries.is_empty() => {
                    for (signal, value) in entries {
                        settings.push(setting(format!("{}.{signal}", key.path), value));
                    }
                }
                (_, value) => settings.push(setting(key.path.to_owned(), value)),
            }
        }
        settings
    }

    /// The keys that exist in this kind.
    fn keys(&self) -> impl Iterator<Item = &'static Key> {
        let kind = self.kind;
        KEYS.iter()
            .filter(move |key| key.default.is_some() || key.name(kind).is_some())
    }
}

/// Which comments to write.
enum Comments {
    /// The purpose, above each key.
    Why,
    /// The origin, after each value.
    Origin,
}

fn yaml(effective: &Effective, comments: &Comments) -> String {
    let kind = effective.kind;
    let mut text = format!(
        "apiVersion: {}\nkind: {}\n",
        kind.api_version(),
        kind.as_str()
    );
    let mut group = "";
    for key in KEYS {
        let Some(name) = key.name(kind) else {
            continue;
        };
        let (above, name) = name.split_once('.').unwrap_or(("", name));
        if above != group && !above.is_empty() {
            let _ = writeln!(text, "{}{above}:", blank_line(comments));
        } else if above.is_empty() {
            text.push_str(blank_line(comments));
        }
        group = above;
        let indent = if above.is_empty() { "" } else { "  " };
        push_setting(&mut text, effective, key, (indent, name), comments);
    }
    text
}

fn blank_line(comments: &Comments) -> &'static str {
    match comments {
        Comments::Why => "\n",
        Comments::Origin => "",
    }
}

fn push_setting(
    text: &mut String,
    effective: &Effective,
    key: &Key,
    (indent, name): (&str, &str),
    comments: &Comments,
) {
    if matches!(comments, Comments::Why) {
        let view = View::of_width(COMMENT_COLUMNS - indent.len() - "# ".len());
        for line in view.sentence(key.why).lines() {
            let _ = writeln!(text, "{indent}# {line}");
        }
    }
    let origin = |path: &str| match (comments, effective.origin(path)) {
        (Comments::Origin, Some(origin)) => format!(" # {origin}"),
        _ => String::new(),
    };
    match key.show(effective) {
        Json::Object(entries) if !entries.is_empty() => {
            let _ = writeln!(text, "{indent}{name}:");
            for (entry, value) in entries {
                let origin = match key.field {
                    Field::Signals { .. } => origin(&format!("{}.{entry}", key.path)),
                    Field::One { .. } => origin(key.path),
                };
                let (entry, value) = (scalar(&entry), flow(&value));
                let _ = writeln!(text, "{indent}  {entry}: {value}{origin}");
            }
        }
        value => {
            let (value, origin) = (flow(&value), origin(key.path));
            let _ = writeln!(text, "{indent}{name}: {value}{origin}");
        }
    }
}

/// As JSON on one line.
fn flow(value: &Json) -> String {
    match value {
        Json::String(text) => scalar(text),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(entries) => {
            let entry =
                |(key, value): (&String, &Json)| format!("{}: {}", scalar(key), flow(value));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Without quotes only if every YAML reader takes it for a text.
fn scalar(text: &str) -> String {
    const TAKEN: [&str; 10] = [
        "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan",
    ];
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "./_-".contains(c))
        && !TAKEN.contains(&text.to_lowercase().as_str());
    if bare {
        text.to_owned()
    } else {
        Json::from(text).to_string()
    }
}
