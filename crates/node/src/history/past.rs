//! The earlier decisions that a new run must know, collected in one pass over the history.

use super::{HistoryError, read};
use evictd_decision::{
    Owner,
    record::{Method, Notice, Outcome, Publication, Record},
};
use evictd_departures::NOTICE_OWED;
use evictd_signals::NodeCondition;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    path::Path,
};

/// The eviction of a pod that has an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PastEviction {
    /// When it was decided.
    pub time: Timestamp,
    /// The controller of the pod.
    pub owner: Owner,
    /// The condition that it was for.
    pub condition: NodeCondition,
}

impl PastEviction {
    /// Evictions without an outcome count, because they had begun.
    fn of(record: &Record) -> Option<Self> {
        // A pod that went while evictd was not running does not count, because the time is not known.
        let lives = |outcome: &Outcome| {
            let found_gone = |method| method == Method::AlreadyGone;
            let method = outcome.ended().map(|ended| ended.method);
            outcome.gone_seconds().is_none() && !method.is_some_and(found_gone)
        };
        if record.dry_run || record.outcome.as_ref().is_some_and(lives) {
            return None;
        }
        Some(Self {
            time: record.time,
            owner: record.owner.as_ref()?.owner.clone(),
            condition: record.condition()?,
        })
    }
}

/// Decisions by id.
pub(crate) type OpenRecords = BTreeMap<String, Record>;

/// Earlier decisions. Of two records of one decision the later one counts.
#[derive(Debug)]
pub(crate) struct EarlierDecisions {
    /// The open decisions: the outcome or the publication is missing.
    pub open: OpenRecords,
    /// The latest eviction.
    pub last: Option<Record>,
    /// The last records of the decisions that were asked for, by id.
    pub asked: OpenRecords,
    ask: BTreeSet<String>,
    span: RangeInclusive<Timestamp>,
    evictions: BTreeMap<String, PastEviction>,
    /// The notices of the last [`NOTICE_OWED`] that no record has closed, or one as published (true).
    notices: BTreeMap<String, (Notice, bool)>,
}

impl EarlierDecisions {
    /// An empty value. Collects evictions of owners' pods within this span, and the last records with these ids.
    pub(crate) fn new(span: RangeInclusive<Timestamp>, ask: BTreeSet<String>) -> Self {
        Self {
            open: OpenRecords::new(),
            last: None,
            asked: OpenRecords::new(),
            ask,
            span,
            evictions: BTreeMap::new(),
            notices: BTreeMap::new(),
        }
    }

    /// Reads the history in this directory. Records of another version that cannot be parsed are skipped.
    pub(crate) fn read(&mut self, directory: &Path) -> Result<(), HistoryError> {
        for line in read(directory)? {
            if let Ok(record) = serde_json::from_str::<Record>(&line?) {
                self.note(record);
            }
        }
        Ok(())
    }

    /// The next record in the order in which they were written.
    pub(crate) fn note(&mut self, record: Record) {
        let id = &record.id;
        match PastEviction::of(&record).filter(|_| self.span.contains(&record.time)) {
            Some(past) => drop(self.evictions.insert(id.clone(), past)),
            None => drop(self.evictions.remove(id)),
        }
        self.note_notice(&record);
        if self.ask.contains(id) {
            self.asked.insert(id.clone(), record.clone());
        }
        if record.is_open() {
            self.open.insert(id.clone(), record.clone());
        } else {
            self.open.remove(id);
        }
        // Records are in the order of their writing, which for one that was amended is not that of the decisions.
        let later = |last: &Record| last.time <= record.time;
        if record.is_eviction() && self.last.as_ref().is_none_or(later) {
            self.last = Some(record);
        }
    }

    /// Only records of pending notices have their text, so it is kept until the notice is closed.
    fn note_notice(&mut self, record: &Record) {
        let since = self.span.end().saturating_sub(NOTICE_OWED);
        if since.is_ok_and(|since| record.time < since) {
            return;
        }
        match &record.publication {
            Some(Publication::Waiting {
                notice: Some(notice),
            }) => {
                let entry = (Notice::clone(notice), false);
                self.notices.insert(record.id.clone(), entry);
            }
            Some(Publication::Published) => {
                if let Some((_, published)) = self.notices.get_mut(&record.id) {
                    *published = true;
                }
            }
            Some(Publication::Recorded { .. } | Publication::NotPublished { .. }) => {
                self.notices.remove(&record.id);
            }
            Some(Publication::Waiting { notice: None } | Publication::Unknown) | None => {}
        }
    }

    /// The notices that were published in the last [`NOTICE_OWED`]: a kubelet may still empty their reasons.
    pub(crate) fn published_notices(&self) -> Vec<Notice> {
        let notices = self.notices.values();
        let published = notices.filter(|(_, published)| *published);
        published.map(|(notice, _)| notice.clone()).collect()
    }

    /// Adds the intents of the last run, and returns those that the history lacks. Intents from before a reboot do
    /// not exist any more.
    pub(crate) fn add_intents(&mut self, intents: Vec<Record>, boot_id: &str) -> Vec<Record> {
        let mut latest = OpenRecords::new();
        for intent in intents {
            // After a reboot no process of the decision is left that could be ended.
            if intent.boot_id.as_deref() != Some(boot_id) {
                continue;
            }
            match latest.get_mut(&intent.id) {
                // Two slots of one decision: a crash came between writing the newer and freeing the older.
                Some(other) => other.absorb(intent),
                None => drop(latest.insert(intent.id.clone(), intent)),
            }
        }
        let mut lacking = Vec::new();
        for (id, intent) in latest {
            let kept = self.asked.remove(&id);
            let mut whole = kept.clone().unwrap_or_else(|| intent.clone());
            whole.absorb(intent);
            // The history has it whole already, so nothing must be written again.
            if kept.as_ref() != Some(&whole) {
                self.note(whole.clone());
                lacking.push(whole);
            }
        }
        lacking
    }

    /// The evictions of owners' pods, oldest first.
    pub(crate) fn evictions(&self) -> Vec<PastEviction> {
        let mut past: Vec<PastEviction> = self.evictions.values().cloned().collect();
        past.sort_by_key(|eviction| eviction.time);
        past
    }
}

/// UIDs of the pods that were terminated or rejected, as far back as the history in this directory reaches.
pub(crate) fn evicted(directory: &Path) -> Result<BTreeSet<String>, HistoryError> {
    let mut uids = BTreeSet::new();
    for line in read(directory)? {
        let record = serde_json::from_str::<Record>(&line?);
        let departure = record.ok().filter(Record::is_departure);
        uids.extend(departure.and_then(|record| record.uid));
    }
    Ok(uids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use serde_json::{Value, json};

    fn decision(id: &str, second: i64, more: Value) -> Value {
        let mut decision = json!({
            "id": id, "time": Timestamp::from_second(second).unwrap(), "kind": "hard", "signal": "memory.available",
            "dryRun": false, "uid": id,
            "owner": { "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "shop", "name": "web", "uid": "1", "evictions": 2 },
            "ranking": [{ "pod": "shop/web-a" }],
        });
        if let (Value::Object(decision), Value::Object(more)) = (&mut decision, more) {
            decision.extend(more);
        }
        decision
    }

    fn before(place: &Path, records: &[Value], span: [i64; 2]) -> EarlierDecisions {
        let mut history = History::open(place, 1 << 20).unwrap();
        for record in records {
            history.append(record).unwrap();
        }
        let [since, now] = span.map(|second| Timestamp::from_second(second).unwrap());
        let mut before = EarlierDecisions::new(since..=now, ["a".to_owned()].into());
        before.read(place).unwrap();
        before
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
        let past = before(place.path(), &records, [10, 17]).evictions();
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
    fn notices_published_in_the_last_minutes_are_known_after_a_start() {
        let place = tempfile::tempdir().unwrap();
        let waiting = |id: &str| {
            let notice = json!({ "id": id, "namespace": "shop", "name": "web", "uid": id, "reason": "Evicted",
                "message": "m", "disruptionTarget": null, "way": "status", "record": "{}",
                "time": Timestamp::from_second(0).unwrap() });
            json!({ "publication": { "state": "waiting", "notice": notice } })
        };
        let published = json!({ "publication": { "state": "published" } });
        let gone = json!({ "publication": { "state": "recorded", "why": "it is gone" } });
        let records = [
            decision("long ago", 399, waiting("long ago")),
            decision("long ago", 399, published.clone()),
            decision("published", 400, waiting("published")),
            decision("pending", 401, waiting("pending")),
            decision("gone", 402, waiting("gone")),
            decision("gone", 402, gone),
            decision("published", 400, published),
        ];
        let earlier = before(place.path(), &records, [1000, 1000]);
        let notices = earlier.published_notices();
        let ids: Vec<&str> = notices.iter().map(|notice| notice.id.as_str()).collect();
        assert_eq!(ids, ["published"]);
    }

    #[test]
    fn where_there_is_no_history_nothing_was_decided() {
        let place = tempfile::tempdir().unwrap();
        let before = before(&place.path().join("nothing"), &[], [0, 10]);
        assert_eq!(before.evictions(), []);
        assert!(before.open.is_empty() && before.last.is_none());
    }

    #[test]
    fn the_latest_eviction_is_known_after_a_start_by_its_last_word() {
        let place = tempfile::tempdir().unwrap();
        let gone = json!({ "outcome": { "lastProcessGoneSeconds": 0.1 } });
        let rejected =
            json!({ "kind": "admission", "outcome": { "processes": 0, "method": "not-started" } });
        let records = [
            json!({ "note": "of another version" }),
            decision("a", 1, json!({ "kind": "soft" })),
            decision("b", 2, json!({})),
            decision("b", 2, gone.clone()),
            decision("turned away", 3, rejected),
            decision("nobody", 4, json!({ "uid": null })),
            decision("a", 1, gone),
        ];
        let before = before(place.path(), &records, [0, 10]);
        let last = before.last.unwrap();
        assert_eq!(
            (last.id.as_str(), last.outcome.unwrap().gone_seconds()),
            ("b", Some(0.1))
        );
        assert!(before.open.is_empty(), "{:?}", before.open);
        assert!(before.asked["a"].outcome.is_some() && before.asked.len() == 1);
    }

    fn record(id: &str, more: Value) -> Record {
        serde_json::from_value(decision(id, 1, more)).unwrap()
    }

    #[test]
    fn an_intent_without_a_record_is_resumed_once() {
        let place = tempfile::tempdir().unwrap();
        let here = json!({ "bootId": "here" });
        let gone = json!({ "bootId": "here", "outcome": { "lastProcessGoneSeconds": 0.1 } });
        let kept = [
            decision("same", 1, here.clone()),
            decision("finished", 1, here.clone()),
            decision("finished", 1, gone.clone()),
            decision("ended since", 1, here.clone()),
        ];
        let mut history = History::open(place.path(), 1 << 20).unwrap();
        for line in &kept {
            history.append(line).unwrap();
        }
        let intents = vec![
            record("same", here.clone()),
            record("finished", here.clone()),
            record("ended since", gone.clone()).essential(),
            record("new", here.clone()),
            record("new", gone),
            record("new and open", here),
            record("of another boot", json!({ "bootId": "there" })),
        ];
        let ids = intents.iter().map(|record| record.id.clone()).collect();
        let mut before = EarlierDecisions::new(Timestamp::MIN..=Timestamp::MAX, ids);
        before.read(place.path()).unwrap();
        let lacking = before.add_intents(intents, "here");
        let told: Vec<(&str, bool, usize)> = lacking
            .iter()
            .map(|record| (record.id.as_str(), record.is_open(), record.ranking.len()))
            .collect();
        let expected = [
            ("ended since", false, 1),
            ("new", false, 1),
            ("new and open", true, 1),
        ];
        assert_eq!(told, expected);
        let open: Vec<&str> = before.open.keys().map(String::as_str).collect();
        assert_eq!(open, ["new and open", "same"]);
        assert_eq!(before.evictions().len(), 5);
    }

    #[test]
    fn evicted_pods_are_known_by_uid_except_of_dry_runs() {
        let place = tempfile::tempdir().unwrap();
        let mut history = History::open(place.path(), 1 << 20).unwrap();
        for record in [
            json!({ "note": "of another version" }),
            decision("nobody", 1, json!({ "uid": null })),
            decision("one", 1, json!({ "uid": "a" })),
            decision("rehearsed", 1, json!({ "uid": "b", "dryRun": true })),
        ] {
            history.append(&record).unwrap();
        }
        let expected = ["a"].map(str::to_owned);
        assert_eq!(evicted(place.path()).unwrap(), expected.into());
        assert!(evicted(&place.path().join("nothing")).unwrap().is_empty());
    }
}
