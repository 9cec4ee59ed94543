//! Keeps the conditions that hold, and the pods that were rejected, for the next start.

use super::Publish;
use crate::{
    fact::{Cycle, Fact},
    kept::{Kept, KeptCondition, KeptFile, KeptRejection, latest},
};
use evictd_departures::Departure;
use evictd_signals::ConditionMap;
use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinHandle, spawn_blocking};

/// The least time between two writes. While the cause of a condition is there, the file changes with each cycle.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// Writes the file when the conditions or rejections have changed, beside the loop.
#[derive(Debug)]
pub(crate) struct KeptPublisher {
    file: KeptFile,
    boot_id: String,
    /// Since when each condition keeps new pods off the node.
    since: ConditionMap<Option<Timestamp>>,
    last: Kept,
    written_at: Option<Timestamp>,
    writing: Option<JoinHandle<()>>,
}

impl KeptPublisher {
    /// Continues from the contents of the file at the start.
    pub(crate) fn new(file: KeptFile, boot_id: String, kept: &Kept) -> Self {
        let mut since = ConditionMap::default();
        for (condition, held) in kept.conditions() {
            since[condition] = Some(held.since);
        }
        Self {
            file,
            boot_id,
            since,
            last: Kept::default(),
            written_at: None,
            writing: None,
        }
    }

    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        let now = self.kept(cycle);
        let just_now = |at: Timestamp| cycle.now.duration_since(at) < PERIOD;
        let is_writing = self
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if now == self.last || is_writing || self.written_at.is_some_and(just_now) {
            return;
        }
        self.written_at = Some(cycle.now);
        let (file, kept) = (self.file.clone(), now.clone());
        self.last = now;
        self.writing = Some(spawn_blocking(move || {
            if let Err(error) = file.write(&kept) {
                tracing::debug!("conditions are not kept for the next start: {error}");
            }
        }));
    }

    fn kept(&mut self, cycle: &Cycle<'_>) -> Kept {
        let mut keeping_away = ConditionMap::default();
        for condition in cycle.housekeeper.taints() {
            keeping_away[condition] = true;
        }
        let seen = cycle.housekeeper.cause_seen();
        let mut conditions = ConditionMap::default();
        for (condition, since) in &mut self.since {
            let holds = keeping_away[condition];
            *since = holds.then(|| since.unwrap_or(cycle.now));
            let held = since.zip(seen[condition]);
            conditions[condition] = held.map(|(since, seen)| KeptCondition { since, seen });
        }
        let departures = cycle.housekeeper.departures();
        let rejections = cycle.pods.rejected.iter().filter_map(|rejected| {
            let departure: &Departure = departures.get(&rejected.uid)?;
            KeptRejection::new(rejected, departure)
        });
        let rejections = latest(rejections.collect());
        Kept::new(&self.boot_id, &conditions, rejections)
    }
}

impl Publish for KeptPublisher {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::CycleEnded(cycle) = fact {
            self.cycle_ended(cycle);
        }
    }
}
