//! Labels and annotations in little room.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Texts by their keys, sorted, each key once: labels, annotations.
///
/// A cluster has hundreds of thousands of these, with a few short texts each. So they stand one after the other in a single
/// text, each after its length and a colon, as in a netstring: `3:app3:web`. A list of pairs takes five times the room.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextMap(Box<str>);

impl TextMap {
    /// The empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut entries = self.iter();
        entries.find_map(|(known, text)| (known == key).then_some(text))
    }

    /// Whether it has the key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and texts, by key.
    pub const fn iter(&self) -> Iter<'_> {
        Iter(&self.0)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// Whether it has no key.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Sets the text of a key.
    pub fn insert(&mut self, key: impl AsRef<str>, text: impl AsRef<str>) {
        self.extend([(key, text)]);
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.retain(|known, _| known != key);
    }

    /// Removes the keys for which this is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&str, &str) -> bool) {
        let left = self.iter().filter(|(key, text)| stays(key, text));
        *self = Self::of_sorted(left);
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn of_sorted<'t>(entries: impl Iterator<Item = (&'t str, &'t str)>) -> Self {
        let mut all = String::new();
        for text in entries.flat_map(|(key, text)| [key, text]) {
            // Writing to a String does not fail.
            let _ = write!(all, "{}:{text}", text.len());
        }
        Self(all.into())
    }
}

/// The entries of a [`TextMap`], by key.
#[derive(Debug, Clone)]
pub struct Iter<'t>(&'t str);

impl<'t> Iter<'t> {
    /// `None` at the end.
    fn text(&mut self) -> Option<&'t str> {
        let mut length = 0;
        // No text is longer than an object, so that the length does not overflow.
        for (at, byte) in self.0.bytes().enumerate() {
            if byte == b':' {
                let end = at + 1 + length;
                let text = self.0.get(at + 1..end)?;
                self.0 = self.0.get(end..)?;
                return Some(text);
            }
            length = length * 10 + usize::from(byte - b'0');
        }
        None
    }
}

impl<'t> Iterator for Iter<'t> {
    type Item = (&'t str, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.text()?, self.text()?))
    }
}

impl<'t> IntoIterator for &'t TextMap {
    type Item = (&'t str, &'t str);
    type IntoIter = Iter<'t>;

    fn into_iter(self) -> Iter<'t> {
        self.iter()
    }
}

/// Of several texts of a key the last one counts.
impl<K: AsRef<str>, T: AsRef<str>> Extend<(K, T)> for TextMap {
    fn extend<I: IntoIterator<Item = (K, T)>>(&mut self, entries: I) {
        let new: Vec<(K, T)> = entries.into_iter().collect();
        if new.is_empty() {
            return;
        }
        let new = new.iter().map(|(key, text)| (key.as_ref(), text.as_ref()));
        let all: BTreeMap<&str, &str> = self.iter().chain(new).collect();
        *self = Self::of_sorted(all.into_iter());
    }
}

impl<K: AsRef<str>, T: AsRef<str>> FromIterator<(K, T)> for TextMap {
    fn from_iter<I: IntoIterator<Item = (K, T)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl fmt::Debug for TextMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for TextMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

/// `null` as a text becomes the empty text, as for the API server.
impl<'de> Deserialize<'de> for TextMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, Option<String>>::deserialize(deserializer)?;
        let entries = map.iter();
        Ok(Self::of_sorted(entries.map(|(key, text)| {
            (key.as_str(), text.as_deref().unwrap_or_default())
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_tree_map_of_strings(
            entries in prop::collection::vec(("[a-c:0-9é]{0,2}", ".{0,12}"), 0..12),
            later in prop::collection::vec(("[a-c:0-9é]{0,2}", ".{0,12}"), 0..4),
        ) {
            let mut tree: BTreeMap<String, String> = entries.iter().cloned().collect();
            let mut map: TextMap = entries.into_iter().collect();
            for (key, text) in later {
                if text.len() % 2 == 0 {
                    tree.remove(&key);
                    map.remove(&key);
                } else {
                    map.insert(&key, &text);
                    tree.insert(key, text);
                }
            }
            let both = tree.iter().map(|(key, text)| (key.as_str(), text.as_str()));
            prop_assert!(map.iter().eq(both));
            prop_assert_eq!(map.len(), tree.len());
            for (key, text) in &tree {
                prop_assert_eq!(map.get(key), Some(text.as_str()));
            }
            prop_assert!(!map.contains_key("absent"));
            prop_assert_eq!(&map, &tree.iter().rev().collect());
            prop_assert_eq!(serde_json::to_value(&map).unwrap(), serde_json::to_value(&tree).unwrap());
            prop_assert_eq!(serde_json::from_value::<TextMap>(serde_json::to_value(&tree).unwrap()).unwrap(), map);
        }
    }
}
