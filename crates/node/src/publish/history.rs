//! Publishes to the history: each decision in full before it is carried out, and again with its outcome; of two
//! records with one id the later one counts. A record whose outcome or publication is missing is open: the next run
//! takes it up.

use super::Publish;
use crate::fact::{AdmissionDecision, Decided, Fact, Terminated};
use crate::{
    delivery::Publication,
    history::{HistoryError, Intents, OpenRecords, Recorder, RecorderState, encode},
    server::state::Shared,
};
use evictd_decision::record::Record;
use std::sync::Arc;

/// Writes decisions to the history.
#[derive(Debug)]
pub(crate) struct HistoryPublisher {
    recorder: Recorder,
    /// Where a record is written before it is carried out; `None` if that is not possible.
    intents: Option<Intents>,
    shared: Arc<Shared>,
    shown_state: Option<RecorderState>,
    /// The open records by decision id.
    open: OpenRecords,
    /// The number of the segment in which `open` was last written again.
    rewritten_segment: u64,
    /// Whether anything else was written since.
    has_new_records: bool,
}

impl HistoryPublisher {
    /// Writes to this recorder, and its state to the status page. `open` are the open decisions of earlier runs;
    /// `intents` come with records that the history lacks.
    pub(crate) fn new(
        recorder: Recorder,
        intents: Option<(Intents, Vec<Record>)>,
        shared: &Arc<Shared>,
        open: OpenRecords,
    ) -> Self {
        let (intents, intended) = intents.unzip();
        let mut ledger = Self {
            recorder,
            intents,
            shared: Arc::clone(shared),
            shown_state: None,
            open,
            rewritten_segment: 0,
            has_new_records: false,
        };
        for record in intended.iter().flatten() {
            ledger.keep(record);
        }
        ledger
    }

    /// Writes a decision before it is carried out.
    fn begin(&mut self, record: &Record) {
        self.keep(record);
        if record.is_open() {
            self.open.insert(record.id.clone(), record.clone());
        }
    }

    /// Changes an open record, and closes it if nothing is missing any more.
    fn amend(&mut self, id: &str, change: impl FnOnce(&mut Record)) {
        let Some(mut record) = self.open.remove(id) else {
            return;
        };
        change(&mut record);
        self.keep(&record);
        if record.is_open() {
            self.open.insert(record.id.clone(), record);
        }
    }

    /// Open records must not be lost with the segment that is deleted next, so they are written again after each
    /// deletion. If that itself causes a deletion, they are written again only with the next record. Otherwise
    /// decisions larger than a segment would be rewritten for ever.
    fn rewrite_open(&mut self, kept: &RecorderState) {
        let displaced = kept.segments != self.rewritten_segment && self.has_new_records;
        if !displaced || kept.waiting > 0 {
            return;
        }
        // If the queue is full, a later cycle tries again.
        if self.recorder.record_all(self.open.values()).is_ok() {
            self.rewritten_segment = kept.segments;
            self.has_new_records = false;
        }
    }

    fn keep(&mut self, record: &Record) {
        self.has_new_records = true;
        if let Err(error) = self.write(record) {
            tracing::error!("a decision is missing in the history: {error}");
        }
    }

    fn write(&mut self, record: &Record) -> Result<(), HistoryError> {
        let line = encode(record)?;
        let intents = self.intents.as_mut().filter(|_| record.is_departure());
        let receipt = intents.map(|intents| intents.write(record, &line));
        self.recorder.deliver(line, receipt.unwrap_or_default())
    }
}

impl Publish for HistoryPublisher {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::CycleEnded(_) => self.cycle_ended(),
            Fact::Deciding(decided) => self.deciding(decided),
            Fact::Admitting(admission) => self.admitting(admission),
            Fact::Terminated(ended) => self.terminated(ended),
            Fact::FoundGone(ended) => self.found_gone(ended),
            Fact::Reclaimed(record) => self.keep(record),
            Fact::Published(publication) => self.published(publication),
            _ => {}
        }
    }
}

impl HistoryPublisher {
    fn cycle_ended(&mut self) {
        let kept = self.recorder.state();
        if let Some(intents) = &mut self.intents {
            intents.release();
        }
        self.rewrite_open(&kept);
        if self.shown_state.as_ref() != Some(&kept) {
            self.shared.update(|status| {
                status.history.records = kept.records;
                status.history.evictions = kept.evictions;
                status.history.waiting = kept.waiting;
                status.history.error.clone_from(&kept.error);
            });
            self.shown_state = Some(kept);
        }
    }

    fn deciding(&mut self, decided: &Decided<'_>) {
        self.begin(decided.record);
    }

    fn admitting(&mut self, admission: &AdmissionDecision) {
        if let Some(record) = admission.record() {
            self.begin(&record);
        }
    }

    fn terminated(&mut self, ended: &Terminated<'_>) {
        let outcome = ended.outcome();
        self.amend(&ended.departure.id, |record| {
            record.conclude(outcome);
        });
    }

    fn found_gone(&mut self, ended: &Terminated<'_>) {
        self.terminated(ended);
    }

    fn published(&mut self, publication: &Publication) {
        let outcome = publication.outcome.record();
        self.amend(&publication.id, |record| record.published(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::{EarlierDecisions, History, Waiting},
        server::state::Status,
    };
    use evictd_decision::record::{Kind, Outcome, Publication};
    use evictd_kernel::clock::Clock;
    use evictd_testkit::testing::wait_until;
    use jiff::Timestamp;
    use std::{collections::BTreeSet, path::Path, time::Duration};

    const LIMIT: u64 = 4000;

    fn decision(id: &str) -> Record {
        Record {
            pod: Some("shop/cart".to_owned()),
            uid: Some("u".to_owned()),
            publication: Some(Publication::Waiting { notice: None }),
            ..Record::new(
                id.to_owned(),
                Timestamp::UNIX_EPOCH,
                Kind::Hard,
                "memory.available",
            )
        }
    }

    fn whole(id: &str) -> Record {
        Record {
            publication: None,
            outcome: Some(Outcome::not_started()),
            ..decision(id)
        }
    }

    fn open(directory: &Path) -> OpenRecords {
        let mut before = EarlierDecisions::new(Timestamp::MIN..=Timestamp::MAX, BTreeSet::new());
        before.read(directory).unwrap();
        before.open
    }

    #[test]
    fn open_records_outlive_their_segment() {
        let place = tempfile::tempdir().unwrap();
        let mut history = History::open(place.path(), LIMIT).unwrap();
        let from_before = decision("from-before");
        history.append(&from_before).unwrap();
        let recorder = Recorder::start(history, Duration::from_millis(1));
        let (shared, _questions) = Shared::new(
            Clock::start(),
            Status::default(),
            place.path().to_owned(),
            Waiting::default(),
        );
        let mut ledger = HistoryPublisher::new(recorder, None, &shared, open(place.path()));
        ledger.begin(&decision("new"));
        for number in 0..200 {
            let before = ledger.recorder.state();
            ledger.keep(&whole(&format!("whole-{number}")));
            wait_until("it is written", || ledger.recorder.state() != before);
            let kept = ledger.recorder.state();
            ledger.rewrite_open(&kept);
        }
        ledger.amend("new", |record| *record = whole("new"));
        assert!(ledger.recorder.state().segments > 2);
        drop(ledger);
        let left: Vec<_> = open(place.path()).into_values().collect();
        assert_eq!(left, [from_before]);
    }
}
