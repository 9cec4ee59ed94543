//! The history as a publisher: each decision whole when it is made, and again with its outcome when that is known;
//! of two records with one id the later counts.

use super::{Decided, Landed, Look, Publish};
use crate::{
    doors::state::Shared,
    history::{Kept, Recorder},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Writes decisions to the history.
#[derive(Debug)]
pub struct Ledger {
    recorder: Recorder,
    shared: Arc<Shared>,
    told: Option<Kept>,
    /// Decisions whose outcome is not known yet, by id.
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
        if let Some(mut record) = self.open.remove(&landed.landing.flight.id) {
            record["outcome"] = landed.outcome();
            self.keep(&record);
        }
    }
}
