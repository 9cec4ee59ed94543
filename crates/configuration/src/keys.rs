//! Keys that are unknown, misspelt or written twice.

use super::{
    mistake::Fault,
    node::{Content, Entry, Node},
};
use evictd_spelling::{close, nearest};

/// The path of a key below another one.
pub fn joined(above: &str, key: &str) -> String {
    if above.is_empty() {
        key.to_owned()
    } else {
        format!("{above}.{key}")
    }
}

/// Reports a key that is none of the known ones at this place, with the one that was probably meant.
pub fn unknown_key(above: &str, entry: &Entry, known: &[&str]) -> Fault {
    let meant = meant_key(above, &entry.key, known);
    let advice = meant.unwrap_or_else(|| nearest_key(above, &entry.key, known));
    Fault::new(entry.at, "unknown key").advise(advice)
}

/// Advice with the known key that was probably meant; `None` if none is close.
pub fn meant_key(above: &str, key: &str, known: &[&str]) -> Option<String> {
    let meant = close(key, known.iter().copied())?;
    Some(format!("did you mean {}?", joined(above, meant)))
}

/// Advice with the nearest known key, which need not be close.
pub fn nearest_key(above: &str, key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(name) => format!("the nearest known key is {}", joined(above, name)),
        None => "no key is known here".to_owned(),
    }
}

impl Node {
    /// Every key that appears more than once in its map, at its second place, with its path.
    pub fn duplicate_keys(&self) -> Vec<(String, Fault)> {
        let mut found = Vec::new();
        add_duplicates(self, "", &mut found);
        found
    }
}

fn add_duplicates(node: &Node, above: &str, found: &mut Vec<(String, Fault)>) {
    match &node.content {
        Content::Map(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                let path = joined(above, &entry.key);
                let first = entries[..index].iter().find(|first| first.key == entry.key);
                if let Some(first) = first {
                    let line = first.at.map_or(0, |at| at.line);
                    let message = format!("appears twice, first in line {line}");
                    let fault = Fault::new(entry.at, message).advise("remove one");
                    found.push((path.clone(), fault));
                }
                add_duplicates(&entry.value, &path, found);
            }
        }
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                add_duplicates(item, &format!("{above}[{index}]"), found);
            }
        }
        _ => {}
    }
}
