//! Passes the node's conditions to the task that reports them to the Node.

use super::Publish;
use crate::delivery::Pressure;
use crate::fact::{Cycle, Fact};
use evictd_eviction::Housekeeper;
use evictd_signals::{ConditionMap, Headroom};
use jiff::Timestamp;
use tokio::sync::watch;

/// Passes on the conditions when they change.
#[derive(Debug)]
pub(crate) struct NodePressure {
    wanted: watch::Sender<Option<Pressure>>,
    settled: watch::Sender<bool>,
    headroom: Headroom,
}

impl NodePressure {
    /// With the channels of the reporter.
    pub(crate) fn new(
        wanted: watch::Sender<Option<Pressure>>,
        settled: watch::Sender<bool>,
    ) -> Self {
        Self {
            wanted,
            settled,
            headroom: Headroom::default(),
        }
    }
}

impl Publish for NodePressure {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Observed {
                now,
                housekeeper,
                dry_run,
            } => self.observed(*now, housekeeper, *dry_run),
            Fact::CycleEnded(cycle) => self.cycle_ended(cycle),
            _ => {}
        }
    }
}

impl NodePressure {
    /// Publishes conditions as soon as they are observed. The taint should be set before the victim is reported as
    /// ended, because its controller creates the next pod within milliseconds.
    fn observed(&mut self, now: Timestamp, housekeeper: &Housekeeper, dry_run: bool) {
        let next = self.next(now, housekeeper, dry_run);
        self.want(next);
    }

    /// The conditions and taints that the Node should show now, except for the close ones.
    fn next(&self, now: Timestamp, housekeeper: &Housekeeper, dry_run: bool) -> Pressure {
        let before = *self.wanted.borrow();
        let raised: ConditionMap<bool> = housekeeper.conditions().map(|one| (one, true)).collect();
        let mut next = before.unwrap_or(Pressure {
            raised,
            since: ConditionMap::from_fn(|_| now),
            taints: ConditionMap::default(),
            close: ConditionMap::default(),
        });
        for (condition, raised) in raised {
            if next.raised[condition] != raised {
                next.raised[condition] = raised;
                next.since[condition] = now;
            }
        }
        let taints = housekeeper.taints().filter(|_| !dry_run);
        next.taints = taints.map(|one| (one, true)).collect();
        next
    }

    fn want(&self, mut next: Pressure) {
        for (condition, raised) in next.raised {
            // A condition that holds is no longer close.
            next.close[condition] &= !raised;
        }
        if *self.wanted.borrow() != Some(next) {
            self.settled.send_replace(false);
            self.wanted.send_replace(Some(next));
        }
    }

    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        let mut next = self.next(cycle.now, cycle.housekeeper, cycle.dry_run);
        let (thresholds, seen) = (cycle.housekeeper.thresholds(), &cycle.sample.observations);
        next.close = self.headroom.observe(cycle.now, thresholds, seen);
        self.want(next);
    }
}
