//! The way back to the API server as a listener: under pressure it is needed now.

use super::{Decided, Landed, Look, Publish};
use evictd_cluster_client::Crowd;

/// Says whether this node is in a hurry.
#[derive(Debug)]
pub struct Hurry(pub Crowd);

impl Publish for Hurry {
    fn looked(&mut self, look: &Look<'_>) {
        let housekeeper = look.housekeeper;
        let crossed = housekeeper.first_observed().next().is_some();
        self.0
            .hurry(crossed || housekeeper.conditions().next().is_some());
    }

    fn decided(&mut self, _: &Decided<'_>) {}

    fn landed(&mut self, _: &Landed<'_>) {}
}
