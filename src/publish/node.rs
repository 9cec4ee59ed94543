//! The Node as a publisher: hands the node's conditions to whoever reports them.

use super::{Decided, Landed, Look, Publish};
use crate::outbox::Pressure;
use evictd_eviction::NodeCondition;
use tokio::sync::watch;

/// Says what holds, when it changes.
#[derive(Debug)]
pub struct NodePressure {
    wanted: watch::Sender<Option<Pressure>>,
    settled: watch::Sender<bool>,
}

impl NodePressure {
    /// To the reporter at the other ends.
    pub fn new(wanted: watch::Sender<Option<Pressure>>, settled: watch::Sender<bool>) -> Self {
        Self { wanted, settled }
    }
}

impl Publish for NodePressure {
    fn looked(&mut self, look: &Look<'_>) {
        let before = *self.wanted.borrow();
        let mut raised = [false; NodeCondition::ALL.len()];
        for condition in look.housekeeper.conditions() {
            raised[condition as usize] = true;
        }
        let mut next = before.unwrap_or(Pressure {
            raised,
            since: [look.now; NodeCondition::ALL.len()],
            taints: [false; NodeCondition::ALL.len()],
        });
        for (index, raised) in raised.into_iter().enumerate() {
            if next.raised[index] != raised {
                next.raised[index] = raised;
                next.since[index] = look.now;
            }
        }
        next.taints = [false; NodeCondition::ALL.len()];
        for condition in look.housekeeper.taints().filter(|_| !look.dry_run) {
            next.taints[condition as usize] = true;
        }
        if before != Some(next) {
            self.settled.send_replace(false);
            self.wanted.send_replace(Some(next));
        }
    }

    fn decided(&mut self, _: &Decided<'_>) {}

    fn landed(&mut self, _: &Landed<'_>) {}
}
