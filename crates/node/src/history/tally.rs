//! How many records some part of the history holds, and of how many evictions they are: each eviction has one when it is
//! decided, and one more for each thing that became known of it.

use evictd_eviction::record::Kind;
use serde::{Deserialize, de::IgnoredAny};
use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// What one segment holds.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) records: u64,
    /// Hashes of the decisions' ids, which are all that is needed to tell them apart.
    evictions: BTreeSet<u64>,
}

/// As much of a [`Record`](evictd_eviction::record::Record) as says whether it is of an eviction.
#[derive(Deserialize)]
struct Head {
    id: String,
    kind: Kind,
    uid: Option<IgnoredAny>,
}

impl Tally {
    /// One more record, as its JSON. What another version wrote counts as a record.
    pub(super) fn note(&mut self, json: &[u8]) {
        self.records += 1;
        let Ok(head) = serde_json::from_slice::<Head>(json) else {
            return;
        };
        if head.uid.is_some() && head.kind.cause().is_some() {
            let mut hasher = DefaultHasher::new();
            head.id.hash(&mut hasher);
            self.evictions.insert(hasher.finish());
        }
    }

    /// The evictions of both.
    pub(super) fn evictions_with(&self, other: &Self) -> usize {
        self.evictions.union(&other.evictions).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_eviction_counts_once_however_many_records_it_has() {
        let record = |id: &str, kind: &str, uid: Option<&str>| {
            json!({ "id": id, "kind": kind, "uid": uid, "time": "2026-01-01T00:00:00Z" })
                .to_string()
        };
        let (mut previous, mut current) = (Tally::default(), Tally::default());
        previous.note(record("1", "hard", Some("u")).as_bytes());
        previous.note(record("2", "hard", Some("v")).as_bytes());
        // Its outcome came when the segment was full.
        current.note(record("2", "hard", Some("v")).as_bytes());
        current.note(record("3", "localStorage", Some("w")).as_bytes());
        // Nobody went; nobody was let in; another version's.
        current.note(record("4", "hard", None).as_bytes());
        current.note(record("5", "admission", Some("x")).as_bytes());
        current.note(br#"{"note":"what it may be"}"#);
        assert_eq!((previous.records, current.records), (2, 5));
        assert_eq!(current.evictions_with(&previous), 3);
    }
}
