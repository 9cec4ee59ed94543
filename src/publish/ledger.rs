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

impl Ledger {
    /// Onto this recorder; how it fares is told on the status page. Decisions of before are `open`.
    pub fn new(recorder: Recorder, shared: Arc<Shared>, open: Open) -> Self {
        Self {
            recorder,
            shared,
            told: None,
            open,
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

    fn keep(&self, record: &Value) {
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
            let id = decided.record["id"].as_str().unwrap_or_default();
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
        self.amend(&landed.landing.flight.id, |record| {
            record["outcome"] = outcome;
        });
    }

    fn published(&mut self, publication: &Publication) {
        self.amend(&publication.id, |record| {
            record["publication"] = publication.fate.record();
        });
    }
}
