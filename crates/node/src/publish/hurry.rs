//! The way back to the API server as a listener: under pressure it is needed now.

use super::Publish;
use crate::fact::{Fact, Look};
use evictd_cluster_client::Crowd;

/// Says whether this node is in a hurry.
#[derive(Debug)]
pub struct Hurry(pub Crowd);

impl Publish for Hurry {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl Hurry {
    fn looked(&mut self, look: &Look<'_>) {
        let housekeeper = look.housekeeper;
        let crossed = housekeeper.first_observed().next().is_some();
        self.0
            .hurry(crossed || housekeeper.conditions().next().is_some());
    }
}
