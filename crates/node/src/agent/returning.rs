//! Owners whose pods come back to this node and are evicted again: the core counts, and the world is told.

use super::Agent;
use crate::{evict::EvictError, fact::Fact, history::Past};
use evictd_eviction::departures::Departure;
use evictd_kernel::kill::Termination;

impl Agent {
    /// What was evicted before this agent began, oldest first.
    pub fn remember(&mut self, past: &[Past]) {
        for eviction in past {
            self.housekeeper
                .evicted(eviction.time, &eviction.owner, eviction.condition);
        }
    }

    /// A pod that is gone counts; one that could not be ended does not.
    pub(super) fn note_return(
        &mut self,
        departure: &Departure,
        result: &Result<Termination, EvictError>,
    ) {
        let gone = result.as_ref().ok().and_then(|gone| gone.gone_at);
        let Some((owner, condition)) = departure.owner.as_ref().filter(|_| gone.is_some()) else {
            return;
        };
        let time = departure.since;
        let Some(returned) = self.housekeeper.evicted(time, owner, *condition) else {
            return;
        };
        self.ports
            .publishers
            .publish(&Fact::Returned(time, &returned));
    }
}
