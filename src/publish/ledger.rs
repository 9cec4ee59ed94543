//! The history as a publisher: each decision whole before anything follows from it, and again with what became of it;
//! of two records with one id the later counts. One of which not everything is known is open: whoever starts next takes
//! it up.

use super::{Decided, Landed, Look, Publish};
use crate::{
    agent::Ruling,
    doors::state::Shared,
    history::{self, HistoryError, Kept, Recorder},
    outbox::Publication,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Writes decisions to the history.
#[derive(Debug)]
pub struct Ledger {
    recorder: Recorder,
    shared: Arc<Shared>,
    told: Option<Kept>,
    /// Decisions of which not everything is known yet, by id.
    open: Open,
    /// How often a segment had begun when `open` was last written anew.
    carried: u64,
    /// Something else was written since.
    grown: bool,
}

/// The state of a publication of which nobody knows yet whether it was told.
pub const WAITING: &str = "waiting";

/// The decisions that the history leaves open, by id.
pub type Open = BTreeMap<String, Value>;

/// Enough of a record to see whether it is open.
#[derive(Deserialize)]
struct Head {
    id: String,
    #[serde(default, rename = "dryRun")]
    dry_run: bool,
    uid: Option<String>,
    outcome: Option<serde::de::IgnoredAny>,
    publication: Option<State>,
}

#[derive(Deserialize)]
struct State {
    state: String,
}

impl Head {
    fn is_open(&self) -> bool {
        let waits = self.publication.as_ref().map(|told| told.state.as_str()) == Some(WAITING);
        !self.dry_run && self.uid.is_some() && (waits || self.outcome.is_none())
    }
}

/// What the history in `directory` leaves open.
pub fn open(directory: &Path) -> Result<Open, HistoryError> {
    let mut open = BTreeMap::new();
    for record in history::read(directory)? {
        let record = record?;
        // What another version wrote is no decision to this one.
        let Ok(head) = serde_json::from_str::<Head>(&record) else {
            continue;
        };
        if head.is_open() {
            open.insert(head.id, record);
        } else {
            open.remove(&head.id);
        }
    }
    let parsed = open.into_iter();
    Ok(parsed
        .filter_map(|(id, record)| Some((id, serde_json::from_str(&record).ok()?)))
        .collect())
}

/// The last word of the history in `directory` on the latest eviction.
pub fn last(directory: &Path) -> Result<Option<Value>, HistoryError> {
    let mut last: Option<(Latest, String)> = None;
    for record in history::read(directory)? {
        let record = record?;
        let Ok(head) = serde_json::from_str::<Latest>(&record) else {
            continue;
        };
        let later = |(latest, _): &(Latest, String)| latest.time <= head.time;
        if head.is_eviction() && last.as_ref().is_none_or(later) {
            last = Some((head, record));
        }
    }
    Ok(last.and_then(|(_, record)| serde_json::from_str(&record).ok()))
}

/// Enough of a record to see whether it is the latest eviction.
#[derive(Deserialize)]
struct Latest {
    time: Timestamp,
    kind: String,
    uid: Option<String>,
}

impl Latest {
    /// Whether somebody was chosen because something was short, and not at the door.
    fn is_eviction(&self) -> bool {
        self.uid.is_some() && !matches!(self.kind.as_str(), "admission" | "preemption")
    }
}

impl Ledger {
    /// Onto this recorder; how it fares is told on the status page. Decisions of before are `open`.
    pub fn new(recorder: Recorder, shared: Arc<Shared>, open: Open) -> Self {
        Self {
            recorder,
            shared,
            told: None,
            open,
            carried: 0,
            grown: false,
        }
    }

    /// Adds to an open decision, and closes it when everything is known.
    fn amend(&mut self, id: &str, change: impl FnOnce(&mut Value)) {
        let Some(record) = self.open.get_mut(id) else {
            return;
        };
        change(record);
        let record = record.clone();
        self.keep(&record);
        if is_whole(&record) {
            self.open.remove(id);
        }
    }

    /// What is open must not go with the segment that falls away next: after each that fell away it is written anew. What
    /// that itself displaces waits for the next record, lest decisions larger than a segment chase each other.
    fn carry(&mut self, kept: &Kept) {
        let displaced = kept.segments != self.carried && self.grown;
        if !displaced || kept.waiting > 0 {
            return;
        }
        // A queue that is full has room at a later look.
        if self.recorder.record_all(self.open.values()).is_ok() {
            self.carried = kept.segments;
            self.grown = false;
        }
    }

    fn keep(&mut self, record: &Value) {
        self.grown = true;
        if let Err(error) = self.recorder.record(record) {
            tracing::error!("a decision is not kept in the history: {error}");
        }
    }
}

/// Whether everything is known of a decision.
fn is_whole(record: &Value) -> bool {
    record["publication"]["state"] != WAITING && !record["outcome"].is_null()
}

impl Publish for Ledger {
    fn looked(&mut self, _: &Look<'_>) {
        let kept = self.recorder.kept();
        self.carry(&kept);
        if self.told.as_ref() != Some(&kept) {
            self.shared.update(|status| {
                status.history.records = kept.records;
                status.history.waiting = kept.waiting;
                status.history.error.clone_from(&kept.error);
            });
            self.told = Some(kept);
        }
    }

    fn deciding(&mut self, decided: &Decided<'_>) {
        self.keep(decided.record);
        if decided.decision.eviction.is_some() && !decided.dry_run {
            let id = decided.id();
            self.open.insert(id.to_owned(), decided.record.clone());
        }
    }

    fn decided(&mut self, _: &Decided<'_>) {}

    fn ruling(&mut self, ruling: &Ruling) {
        let Some(record) = ruling.record() else {
            return;
        };
        self.keep(&record);
        if !is_whole(&record) {
            self.open.insert(ruling.id.clone(), record);
        }
    }

    fn landed(&mut self, landed: &Landed<'_>) {
        let outcome = landed.outcome();
        self.amend(&landed.landing.departure.id, |record| {
            record["outcome"] = outcome;
        });
    }

    fn was_gone(&mut self, landed: &Landed<'_>) {
        self.landed(landed);
    }

    fn published(&mut self, publication: &Publication) {
        self.amend(&publication.id, |record| {
            record["publication"] = publication.fate.record();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, doors::state::Status, history::History, testing::wait_until};
    use serde_json::json;
    use std::time::Duration;

    const LIMIT: u64 = 4000;

    fn decision(id: &str) -> Value {
        json!({ "id": id, "uid": "u", "pod": "shop/cart", "outcome": null, "publication": { "state": WAITING } })
    }

    #[test]
    fn what_is_open_outlives_the_segment_that_it_was_written_to() {
        let place = tempfile::tempdir().unwrap();
        let mut history = History::open(place.path(), LIMIT).unwrap();
        let from_before = decision("from-before");
        history.append(&from_before).unwrap();
        let recorder = Recorder::start(history, Duration::from_millis(1));
        let (shared, _questions) =
            Shared::new(Clock::start(), Status::default(), place.path().to_owned());
        let mut ledger = Ledger::new(recorder, shared, open(place.path()).unwrap());
        ledger.open.insert("new".to_owned(), decision("new"));
        ledger.keep(&decision("new"));
        for number in 0..200 {
            let whole = json!({ "id": format!("whole-{number}"), "uid": "u", "outcome": {} });
            let before = ledger.recorder.kept();
            ledger.keep(&whole);
            wait_until("it is written", || ledger.recorder.kept() != before);
            let kept = ledger.recorder.kept();
            ledger.carry(&kept);
        }
        ledger.amend("new", |record| {
            *record = json!({ "id": "new", "outcome": {} });
        });
        assert!(ledger.recorder.kept().segments > 2);
        drop(ledger);
        let left: Vec<_> = open(place.path()).unwrap().into_values().collect();
        assert_eq!(left, [from_before]);
    }

    #[test]
    fn the_latest_eviction_is_known_after_a_start_by_its_last_word() {
        let place = tempfile::tempdir().unwrap();
        let record = |id: &str, second: i64, kind: &str, outcome: Value| {
            let time = Timestamp::from_second(second).unwrap();
            json!({ "id": id, "time": time, "kind": kind, "uid": id, "outcome": outcome })
        };
        let gone = json!({ "lastProcessGoneSeconds": 0.1 });
        let mut history = History::open(place.path(), 1 << 20).unwrap();
        assert_eq!(last(place.path()).unwrap(), None);
        for record in [
            json!({ "note": "of another version" }),
            record("a", 1, "soft", Value::Null),
            record("b", 2, "hard", Value::Null),
            record("b", 2, "hard", gone.clone()),
            record("turned away", 3, "admission", gone.clone()),
            json!({ "id": "nobody", "time": Timestamp::from_second(4).unwrap(), "kind": "hard" }),
            record("a", 1, "soft", gone.clone()),
        ] {
            history.append(&record).unwrap();
        }
        let latest = last(place.path()).unwrap();
        assert_eq!(latest, Some(record("b", 2, "hard", gone)));
    }
}
