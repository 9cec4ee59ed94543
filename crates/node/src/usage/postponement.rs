//! A decision that waits for figures that could not be read.
//!
//! A pod without figures ranks last, so one failed read would let its neighbour go in its place. Most errors pass: no
//! descriptor or no memory was free at that moment.

use crate::pods::PodSet;
use std::collections::HashSet;
use tokio::time::{Duration, Instant, sleep_until};

/// Looks in a row that a decision waits for figures; then it goes on without them.
const LOOKS: u8 = 3;
/// The next of these looks comes after this long.
const AGAIN: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Postponement {
    /// Looks in a row that did not decide.
    looks: u8,
    /// UIDs of pods that are no longer waited for: their figures have been missing since a decision went on without them.
    given_up: HashSet<String>,
    next_look: Option<Instant>,
}

impl Postponement {
    /// Whether a decision waits for another look, where the figures of these pods, by their indices, could not be read.
    pub(super) fn postpones(&mut self, set: &PodSet, unread: &[usize]) -> bool {
        let uids: HashSet<String> = unread
            .iter()
            .map(|index| set.pods[*index].uid.clone())
            .collect();
        self.given_up.retain(|uid| uids.contains(uid));
        if self.given_up.len() == uids.len() {
            self.looks = 0;
            return false;
        }
        if self.looks < LOOKS {
            self.looks += 1;
            self.next_look = Some(Instant::now() + AGAIN);
            return true;
        }
        let names = unread.iter().map(|index| set.pods[*index].full_name());
        tracing::warn!(
            "usage of {} could not be read in {} looks in a row: a decision is made without it, and counts it as unknown",
            names.collect::<Vec<_>>().join(", "),
            LOOKS + 1
        );
        self.looks = 0;
        self.given_up = uids;
        false
    }

    /// It is time for the next look. Cancel safe; waits for ever where nothing is postponed.
    pub(super) async fn over(&mut self) {
        match self.next_look {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.next_look = None;
    }
}
