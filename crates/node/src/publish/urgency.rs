//! Tells the connections to the API server that they are needed now, because the node is under pressure.

use super::Publish;
use crate::fact::{Fact, Look};
use evictd_cluster_client::Fleet;

/// Sets whether this node is in a hurry.
#[derive(Debug)]
pub struct Urgency(pub Fleet);

impl Publish for Urgency {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl Urgency {
    fn looked(&mut self, look: &Look<'_>) {
        let housekeeper = look.housekeeper;
        let crossed = housekeeper.first_observed().next().is_some();
        self.0
            .hurry(crossed || housekeeper.conditions().next().is_some());
    }
}
