//! Owners whose pods come back to this node and are evicted again: the core counts them, this module publishes the
//! result.

use super::Agent;
use crate::{evict::EvictError, fact::Fact, history::PastEviction};
use evictd_eviction::departures::Departure;
use evictd_kernel::kill::Termination;

impl Agent {
    /// Evictions before this start, oldest first.
    pub(crate) fn remember(&mut self, past: &[PastEviction]) {
        for eviction in past {
            self.housekeeper
                .evicted(eviction.time, &eviction.owner, eviction.condition);
        }
    }

    /// Counts an eviction once the pod has ended; a pod that could not be terminated does not count.
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
