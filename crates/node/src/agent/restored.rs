//! The state of an earlier run: conditions for the rest of their transition periods, and the pods that it had rejected.

use super::Agent;
use crate::{config::Admission, kept::Kept};
use evictd_eviction::departures::{Event, Purpose};

impl Agent {
    /// Restores the state of an earlier run, as far as it still holds now.
    pub(super) fn restore(&mut self, kept: &Kept) {
        let now = self.clock.now();
        for (condition, held) in kept.conditions() {
            if self.housekeeper.restore(now, condition, held.seen) {
                self.admission.restore(condition, held.since.min(now));
                tracing::info!(
                    EVICTD_CONDITION = condition.as_str(),
                    "{condition} holds, as before this start: its cause was last seen at {:.0}",
                    held.seen
                );
            }
        }
        if self.behaviour.admission != Admission::Reject {
            return;
        }
        for kept in kept.rejections() {
            let departure = kept.departure();
            let uid = departure.uid.clone();
            // A rejection with a pending notice continues from the history.
            let goes_on = self.housekeeper.departures().is_rejected(&uid);
            let Purpose::Rejection { conditions } = &departure.purpose else {
                continue;
            };
            let mut held = conditions.iter();
            let is_over = !conditions.is_empty() && !held.any(|one| self.housekeeper.presses(*one));
            if goes_on || is_over {
                continue;
            }
            self.admission.restore_rejection(uid, kept.rejection());
            self.report(Event::Begin(Box::new(departure)));
        }
    }
}
