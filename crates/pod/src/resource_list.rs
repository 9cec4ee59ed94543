//! Resource names to amounts, as a pod's requests and limits list them.

use crate::Quantity;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use std::fmt;

/// An object that waits may name so many resources. Objects name a handful; more would make every decision about other pods slow,
/// because amounts are compared name by name on every node.
const MOST: usize = 256;

/// An object names too many resources to be compared with nodes and shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("names {0} different resources; more than {MOST} are not looked at")]
pub struct TooManyResources(usize);

impl TooManyResources {
    /// Checks how many resources an object names.
    ///
    /// # Errors
    /// If there are too many.
    pub const fn check(count: usize) -> Result<(), Self> {
        if count > MOST {
            Err(Self(count))
        } else {
            Ok(())
        }
    }
}

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

    /// Sets the amount of a resource. Returns the previous amount.
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

    /// How many resources it names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it names no resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sorted once, because inserting names one by one takes quadratic time. Of a name that is there twice the last amount counts.
    fn of(mut entries: Vec<(Box<str>, Quantity)>) -> Self {
        if !entries.is_sorted_by(|(one, _), (other, _)| one < other) {
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            entries.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    earlier.1 = later.1;
                }
                same
            });
        }
        entries.shrink_to_fit();
        Self(entries)
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
        let entries = entries.into_iter();
        Self::of(
            entries
                .map(|(name, quantity)| (name.into(), quantity))
                .collect(),
        )
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

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<Box<str>, Quantity>()? {
            entries.push(entry);
        }
        Ok(ResourceList::of(entries))
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
    fn inserting_replaces_the_previous_amount() {
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

    #[test]
    fn names_in_any_order_become_the_same_list() {
        let entry = |number: usize| (format!("example.com/r{number}"), Quantity::count(1));
        let forward: ResourceList = (0..500).map(entry).collect();
        let backward: ResourceList = (0..500).rev().map(entry).collect();
        assert_eq!((forward.len(), &forward), (500, &backward));
        let text = serde_json::to_string(&backward).unwrap();
        assert_eq!(read(&text), forward);
    }

    #[test]
    fn more_than_256_resources_are_too_many() {
        assert_eq!(TooManyResources::check(256), Ok(()));
        assert_eq!(
            TooManyResources::check(257).unwrap_err().to_string(),
            "names 257 different resources; more than 256 are not looked at"
        );
    }
}
