//! Postpones a decision if usage figures could not be read.
//!
//! A pod without figures ranks last, so after a single read error another pod would be evicted in its place. Most
//! errors, such as a lack of descriptors or memory, pass quickly.

use crate::pods::PodSet;
use std::collections::HashSet;
use tokio::time::{Duration, Instant, sleep_until};

/// How many consecutive cycles a decision waits for figures before it is made without them.
const MAX_POSTPONED: u8 = 3;
/// The pause before each of these cycles.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Postponement {
    /// Consecutive cycles in which the decision was postponed.
    postponed: u8,
    /// UIDs of pods that are not waited for any more: a decision was made without their figures, and these are
    /// still missing.
    given_up: HashSet<String>,
    next_look: Pause,
}

/// A time in which nothing is tried, and after which the next cycle is due.
#[derive(Debug, Default)]
pub(super) struct Pause(Option<Instant>);

impl Pause {
    pub(super) fn of(time: Duration) -> Self {
        Self(Some(Instant::now() + time))
    }

    pub(super) fn lasts(&self) -> bool {
        self.0.is_some_and(|until| Instant::now() < until)
    }

    /// Returns once, when the pause is over. Cancel safe; waits for ever where there is none.
    pub(super) async fn over(&mut self) {
        match self.0 {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }
}

impl Postponement {
    /// Whether a decision is postponed because the figures of the pods with these indices could not be read.
    pub(super) fn postpones(&mut self, set: &PodSet, unread: &[usize]) -> bool {
        let uids: HashSet<String> = unread
            .iter()
            .map(|index| set.pods[*index].uid.clone())
            .collect();
        self.given_up.retain(|uid| uids.contains(uid));
        if self.given_up.len() == uids.len() {
            self.postponed = 0;
            return false;
        }
        if self.postponed < MAX_POSTPONED {
            self.postponed += 1;
            self.next_look = Pause::of(RETRY_PAUSE);
            return true;
        }
        let names = unread.iter().map(|index| set.pods[*index].full_name());
        tracing::warn!(
            "usage of {} could not be read in {} samples in a row: the decision counts it as unknown",
            names.collect::<Vec<_>>().join(", "),
            MAX_POSTPONED + 1
        );
        self.postponed = 0;
        self.given_up = uids;
        false
    }

    /// Returns when the next cycle is due. Cancel safe; waits for ever if nothing is postponed.
    pub(super) async fn over(&mut self) {
        self.next_look.over().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_over_once() {
        let (mut pause, begun) = (Pause::of(Duration::from_millis(250)), Instant::now());
        assert!(pause.lasts());
        pause.over().await;
        assert_eq!(begun.elapsed().as_millis(), 250);
        assert!(!pause.lasts());
        let again = tokio::time::timeout(Duration::from_mins(1), pause.over());
        assert!(again.await.is_err(), "it would end a cycle each time");
    }
}
