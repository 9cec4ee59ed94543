//! Resource names to amounts, as a pod's requests and limits list them.

use crate::Quantity;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use std::fmt;

/// Resource names to amounts, sorted by name, each name once.
///
/// A node's pods have hundreds of these with two or three entries each. A `BTreeMap` allocates room for eleven entries, which
/// would be most of the memory of a pod.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ResourceList(Vec<(Box<str>, Quantity)>);

impl ResourceList {
    /// The amount of a resource.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        let place = self.place(name).ok()?;
        self.0.get(place).map(|(_, quantity)| quantity)
    }

    /// Whether it names the resource.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Sets the amount of a resource; returns what it was before.
    pub fn insert(&mut self, name: impl Into<Box<str>>, quantity: Quantity) -> Option<Quantity> {
        let name = name.into();
        match self.place(&name) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, quantity)),
            Err(place) => {
                self.0.insert(place, (name, quantity));
                None
            }
        }
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, quantity)| (&**name, quantity))
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Whether it names no resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The index of the name; as an error, the index at which to insert it.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl fmt::Debug for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: Into<Box<str>>> FromIterator<(N, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(entries: I) -> Self {
        let mut list = Self::default();
        for (name, quantity) in entries {
            list.insert(name, quantity);
        }
        list.0.shrink_to_fit();
        list
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = ResourceList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    /// Of a name that is there twice the last amount counts.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
        let mut list = ResourceList::default();
        while let Some((name, quantity)) = map.next_entry::<Box<str>, Quantity>()? {
            list.insert(name, quantity);
        }
        list.0.shrink_to_fit();
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> ResourceList {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn sorted_by_name_and_each_name_once() {
        let list = read(r#"{"memory":"1Gi","cpu":"1","nvidia.com/gpu":"2","cpu":"500m"}"#);
        let all: Vec<_> = list
            .iter()
            .map(|(name, quantity)| format!("{name}={quantity}"))
            .collect();
        assert_eq!(all, ["cpu=500m", "memory=1Gi", "nvidia.com/gpu=2"]);
        assert_eq!(
            list.keys().collect::<Vec<_>>(),
            ["cpu", "memory", "nvidia.com/gpu"]
        );
        assert_eq!(list.get("pods"), None);
        assert!(list.contains_key("cpu") && !list.contains_key("pods"));
        assert_eq!(list.get("memory"), Some(&Quantity::bytes(1 << 30)));
        assert!(!list.is_empty() && read("{}").is_empty());
    }

    #[test]
    fn what_is_inserted_replaces_what_was() {
        let mut list = read(r#"{"memory":"1"}"#);
        assert_eq!(list.insert("cpu", Quantity::count(1)), None);
        assert_eq!(
            list.insert("cpu", Quantity::count(2)),
            Some(Quantity::count(1))
        );
        assert_eq!(
            list,
            [("memory", Quantity::count(1)), ("cpu", Quantity::count(2))]
                .into_iter()
                .collect()
        );
        assert_eq!(format!("{:?}", read("{}")), "{}");
    }

    #[test]
    fn anything_but_a_map_is_refused() {
        for (json, problem) in [
            ("[]", "invalid type: sequence, expected a map"),
            (r#"{"cpu":"many"}"#, "quantities must match"),
        ] {
            let error = serde_json::from_str::<ResourceList>(json).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
    }
}
