//! The history as a publisher: each decision whole when it is made, and again with what became of it;
//! of two records with one id the later counts.

use super::{Decided, Landed, Look, Publish};
use crate::{
    doors::state::Shared,
    history::{Kept, Recorder},
    outbox::Publication,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Writes decisions to the history.
#[derive(Debug)]
pub struct Ledger {
    recorder: Recorder,
    shared: Arc<Shared>,
    told: Option<Kept>,
    /// Decisions of which not everything is known yet, by id.
    open: BTreeMap<String, Value>,
}

impl Ledger {
    /// Onto this recorder; how it fares is told on the status page.
    pub fn new(recorder: Recorder, shared: Arc<Shared>) -> Self {
        Self {
            recorder,
            shared,
            told: None,
            open: BTreeMap::new(),
        }
    }

    /// Adds to an open decision, and closes it when everything is known.
    fn amend(&mut self, id: &str, change: impl FnOnce(&mut Value)) {
        let Some(record) = self.open.get_mut(id) else {
            return;
        };
        change(record);
        let known = record["publication"]["state"] != "waiting" && !record["outcome"].is_null();
        let record = record.clone();
        self.keep(&record);
        if known {
            self.open.remove(id);
        }
    }

    fn keep(&self, record: &Value) {
        if let Err(error) = self.recorder.record(record) {
            tracing::error!("a decision is not kept in the history: {error}");
        }
    }
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

    fn decided(&mut self, decided: &Decided<'_>) {
        self.keep(decided.record);
        if decided.decision.eviction.is_some() && !decided.dry_run {
            let id = decided.record["id"].as_str().unwrap_or_default();
            self.open.insert(id.to_owned(), decided.record.clone());
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
