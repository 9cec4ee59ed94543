//! Passes on to the connections to the API server whether they are urgent, because the node is under pressure.

use super::Publish;
use crate::fact::{Cycle, Fact};
use evictd_cluster_client::Fleet;

/// Sets whether this node needs the answers of the API server urgently.
#[derive(Debug)]
pub(crate) struct UrgencyPublisher(pub Fleet);

impl Publish for UrgencyPublisher {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::CycleEnded(cycle) = fact {
            self.cycle_ended(cycle);
        }
    }
}

impl UrgencyPublisher {
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        let housekeeper = cycle.housekeeper;
        let crossed = housekeeper.first_observed().next().is_some();
        self.0
            .set_urgent(crossed || housekeeper.conditions().next().is_some());
    }
}
