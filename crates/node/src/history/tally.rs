//! Counts the records of a part of the history, and the evictions among them: an eviction has one record when it is
//! decided, and one more for each later change.

use evictd_decision::record::Kind;
use serde::{Deserialize, de::IgnoredAny};
use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// The counts of one segment.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) records: u64,
    /// Hashes of the decisions' ids, long enough to distinguish them.
    evictions: BTreeSet<u64>,
}

/// The fields of a [`Record`](evictd_decision::record::Record) that show whether it is an eviction.
#[derive(Deserialize)]
struct Head {
    id: String,
    kind: Kind,
    uid: Option<IgnoredAny>,
}

impl Tally {
    /// Adds a record as JSON. A record that only another version can parse counts as a record.
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

    /// The number of different evictions in both.
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
        // Its outcome was written to the next segment.
        let ended = record("2", "hard", Some("v")).replace('{', r#"{"outcome":{},"#);
        current.note(ended.as_bytes());
        current.note(record("3", "localStorage", Some("w")).as_bytes());
        // No pod was evicted; a pod was rejected; a record of another version.
        current.note(record("4", "hard", None).as_bytes());
        current.note(record("5", "admission", Some("x")).as_bytes());
        current.note(br#"{"note":"what it may be"}"#);
        assert_eq!((previous.records, current.records), (2, 5));
        assert_eq!(current.evictions_with(&previous), 3);
    }
}
