//! What a new agent must know of the evictions before it.

use super::{HistoryError, read};
use crate::evict::Method;
use evictd_eviction::{NodeCondition, Owner, Signal};
use jiff::Timestamp;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    path::Path,
};

/// The eviction of a pod that its owner makes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// When it was decided.
    pub time: Timestamp,
    /// The owner.
    pub owner: Owner,
    /// What it went for.
    pub condition: NodeCondition,
}

/// What is read of a decision; most of one is its ranking.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    id: String,
    time: Timestamp,
    signal: String,
    #[serde(default)]
    dry_run: bool,
    owner: Option<Owner>,
    outcome: Option<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    last_process_gone_seconds: Option<f64>,
    #[serde(default)]
    method: String,
}

/// Those of this span of time that are kept in this directory, oldest first. One whose end nobody lived to see counts: it
/// was under way. What is no decision is passed over.
pub fn evictions(
    directory: &Path,
    span: &RangeInclusive<Timestamp>,
) -> Result<Vec<Past>, HistoryError> {
    let mut by_id = BTreeMap::new();
    for record in read(directory)? {
        let Ok(record) = serde_json::from_str::<Record>(&record?) else {
            continue;
        };
        if span.contains(&record.time) {
            // The later of two says how it ended.
            by_id.insert(record.id.clone(), record);
        }
    }
    let mut past: Vec<Past> = by_id.into_values().filter_map(Record::eviction).collect();
    past.sort_by_key(|eviction| eviction.time);
    Ok(past)
}

/// UIDs of the pods that were ended or kept out, as far back as this directory goes.
pub fn evicted(directory: &Path) -> Result<BTreeSet<String>, HistoryError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Whom {
        uid: String,
        #[serde(default)]
        dry_run: bool,
    }
    let mut uids = BTreeSet::new();
    for record in read(directory)? {
        let whom = serde_json::from_str::<Whom>(&record?);
        uids.extend(whom.ok().filter(|whom| !whom.dry_run).map(|whom| whom.uid));
    }
    Ok(uids)
}

impl Record {
    fn eviction(self) -> Option<Past> {
        // Of one that went while no evictd ran nobody knows when.
        let lives = |outcome: Outcome| {
            outcome.last_process_gone_seconds.is_none()
                && outcome.method != Method::AlreadyGone.as_str()
        };
        if self.dry_run || self.outcome.is_some_and(lives) {
            return None;
        }
        Some(Past {
            time: self.time,
            owner: self.owner?,
            condition: Signal::parse(&self.signal)?.condition()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use serde_json::{Value, json};

    fn decision(id: &str, second: i64, more: Value) -> Value {
        let mut decision = json!({
            "id": id, "time": Timestamp::from_second(second).unwrap(), "signal": "memory.available", "dryRun": false,
            "owner": { "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "shop", "name": "web", "uid": "1", "evictions": 2 },
            "ranking": [{ "pod": "shop/web-a" }],
        });
        if let (Value::Object(decision), Value::Object(more)) = (&mut decision, more) {
            decision.extend(more);
        }
        decision
    }

    #[test]
    fn evictions_of_owners_are_read_once_each_unless_the_pod_lives() {
        let place = tempfile::tempdir().unwrap();
        let gone = json!({ "outcome": { "lastProcessGoneSeconds": 0.1 } });
        let records = [
            json!({ "note": "of another version" }),
            decision("old", 9, json!({})),
            decision("first", 10, json!({ "outcome": null })),
            decision("blocked", 11, json!({})),
            decision("second", 12, json!({})),
            decision("second", 12, gone),
            decision("blocked", 11, json!({ "outcome": { "error": "a budget" } })),
            decision("rehearsed", 13, json!({ "dryRun": true })),
            decision("lonely", 14, json!({ "owner": null })),
            decision("limit", 15, json!({ "signal": "emptydirfs.limit" })),
            decision("disk", 16, json!({ "signal": "nodefs.available" })),
            decision(
                "found gone",
                17,
                json!({ "outcome": { "method": "already-gone" } }),
            ),
            decision("of a clock that was wrong", 18, json!({})),
        ];
        let mut history = History::open(place.path(), 1 << 20).unwrap();
        for record in &records {
            history.append(record).unwrap();
        }
        let [since, now] = [10, 17].map(|second| Timestamp::from_second(second).unwrap());
        let past = evictions(place.path(), &(since..=now)).unwrap();
        let found: Vec<_> = past
            .iter()
            .map(|past| (past.time.as_second(), past.condition))
            .collect();
        let expected = [
            (10, NodeCondition::MemoryPressure),
            (12, NodeCondition::MemoryPressure),
            (16, NodeCondition::DiskPressure),
            (17, NodeCondition::MemoryPressure),
        ];
        assert_eq!(found, expected);
        assert_eq!(past[0].owner.to_string(), "ReplicaSet shop/web");
    }

    #[test]
    fn who_was_evicted_is_known_by_uid_but_for_rehearsals() {
        let place = tempfile::tempdir().unwrap();
        let mut history = History::open(place.path(), 1 << 20).unwrap();
        for record in [
            json!({ "note": "of another version" }),
            json!({ "uid": null, "dryRun": false }),
            json!({ "uid": "a", "dryRun": false }),
            json!({ "uid": "b", "dryRun": true }),
            json!({ "uid": "c" }),
        ] {
            history.append(&record).unwrap();
        }
        let expected = ["a", "c"].map(str::to_owned);
        assert_eq!(evicted(place.path()).unwrap(), expected.into());
    }

    #[test]
    fn where_there_is_no_history_nothing_was_evicted() {
        let place = tempfile::tempdir().unwrap();
        let ever = Timestamp::MIN..=Timestamp::MAX;
        assert_eq!(evictions(place.path(), &ever).unwrap(), []);
        assert!(evicted(place.path()).unwrap().is_empty());
    }
}
