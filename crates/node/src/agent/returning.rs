//! Owners whose pods come back to this node and are evicted again: the core counts, and the world is told.

use super::{Agent, Landing};
use crate::history::Past;

impl Agent {
    /// What was evicted before this agent began, oldest first.
    pub fn remember(&mut self, past: &[Past]) {
        for eviction in past {
            self.housekeeper
                .evicted(eviction.time, &eviction.owner, eviction.condition);
        }
    }

    /// A pod that is gone counts; one that could not be ended does not.
    pub(super) fn note_return(&mut self, landing: &Landing) {
        let gone = landing.result.as_ref().ok().and_then(|gone| gone.gone_at);
        let Some((owner, condition)) = landing.departure.owner.as_ref().filter(|_| gone.is_some())
        else {
            return;
        };
        let time = landing.departure.since;
        let Some(returned) = self.housekeeper.evicted(time, owner, *condition) else {
            return;
        };
        for publisher in &mut self.ports.publishers {
            publisher.returned(time, &returned);
        }
    }
}
