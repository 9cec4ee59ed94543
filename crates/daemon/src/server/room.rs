//! The connections of a listener, and which one is closed when there are too many.

use super::Limits;
use super::connection::Phase;
use std::cmp::Reverse;
use std::net::IpAddr;
use tokio::sync::watch;
use tokio::task::AbortHandle;

struct Place {
    peer: Option<IpAddr>,
    phase: watch::Receiver<Phase>,
    task: AbortHandle,
}

/// All connections of a listener.
pub(super) struct Places {
    limits: Limits,
    taken: Vec<Place>,
}

impl Places {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            taken: Vec::new(),
        }
    }

    /// Closes an idle connection if there are too many; false if all of them are being answered.
    pub(super) fn make_room(&mut self, peer: Option<IpAddr>) -> bool {
        self.taken.retain(|place| !place.task.is_finished());
        if self
            .limits
            .per_peer
            .is_some_and(|most| self.of(peer) >= most)
        {
            return self.close(|place| place.peer == peer);
        }
        self.taken.len() < self.limits.connections || self.close_oldest()
    }

    pub(super) fn add(
        &mut self,
        peer: Option<IpAddr>,
        phase: watch::Receiver<Phase>,
        task: AbortHandle,
    ) {
        self.taken.push(Place { peer, phase, task });
    }

    /// Closes the connection that is idle for the longest time. Where peers have a limit, it takes one of the peer with
    /// the most connections. Otherwise a crowd of strangers would close the only connection of a probe.
    pub(super) fn close_oldest(&mut self) -> bool {
        self.close(|_| true)
    }

    fn of(&self, peer: Option<IpAddr>) -> usize {
        self.taken.iter().filter(|place| place.peer == peer).count()
    }

    fn close(&mut self, may_go: impl Fn(&Place) -> bool) -> bool {
        let places = self.taken.iter().enumerate();
        let idle = places.filter_map(|(index, place)| {
            let since = place.phase.borrow().idle_since()?;
            may_go(place).then_some((index, place.peer, since))
        });
        let of_peer = |peer| self.limits.per_peer.map(|_| Reverse(self.of(peer)));
        let oldest = idle.min_by_key(|(_, peer, since)| (of_peer(*peer), *since));
        let Some((index, ..)) = oldest else {
            return false;
        };
        self.taken.remove(index).task.abort();
        true
    }
}
