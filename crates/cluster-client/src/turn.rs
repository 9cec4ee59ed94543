//! When the agents of a whole cluster ask the one API server: each in its turn.
//!
//! All of them lose it in the same moment, and none can tell whether it is alone with that. So whoever has nothing to do
//! but to come back takes a moment of a span that grows with the cluster, and keeps to it; whoever has a threshold crossed
//! comes sooner, for such nodes are few.

use crate::backoff::{self, Backoff};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// The time of a node's own in which no other comes back, on average.
const SHARE: Duration = Duration::from_millis(60);
/// The longest span: of 5000 nodes and more, a third of a percent of them a second.
const LONGEST_SPREAD: Duration = Duration::from_mins(5);
/// Nodes in a hurry spread over this part of the span.
const HURRY: u32 = 30;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What an agent knows of all that share the API server with it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Crowd(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// 0 while nobody has counted.
    nodes: AtomicU64,
    hurry: watch::Sender<bool>,
}

impl Crowd {
    /// So many nodes.
    pub fn of(nodes: u64) -> Self {
        let crowd = Self::default();
        crowd.counted(nodes);
        crowd
    }

    /// They were counted.
    pub fn counted(&self, nodes: u64) {
        self.0.nodes.store(nodes, Ordering::Relaxed);
    }

    /// The span in which all of them come back; `None` while it is not known how many they are.
    pub fn spread(&self) -> Option<Duration> {
        let nodes = self.0.nodes.load(Ordering::Relaxed);
        let share = SHARE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX));
        (nodes > 0).then(|| share.min(LONGEST_SPREAD))
    }

    /// The span for what may come after the watches: they are what evictions go by.
    pub fn spread_of_the_rest(&self) -> Option<Duration> {
        self.spread().map(|spread| spread * 2)
    }

    /// Whether this node has a use for what the API server tells now.
    pub fn hurry(&self, hurry: bool) {
        self.0
            .hurry
            .send_if_modified(|before| std::mem::replace(before, hurry) != hurry);
    }

    /// Resolves while it has. Cancel safe.
    pub async fn in_a_hurry(&self) {
        // The sender is part of this.
        let _ = self.0.hurry.subscribe().wait_for(|hurry| *hurry).await;
    }
}

/// How long to wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Whoever is in a hurry.
    pub least: Duration,
    /// Whoever is not.
    pub whole: Duration,
}

/// One agent's place among all others, for one kind of request.
#[derive(Debug)]
pub struct Turn {
    backoff: Backoff,
    /// Whether it has no place yet.
    fresh: bool,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_SPREAD),
            fresh: true,
        }
    }
}

impl Turn {
    /// The server answers; the place stays.
    pub fn answered(&mut self) {
        self.backoff.reset();
    }

    /// When to do again what is done once in each period: at first at any moment of it, so that agents that began together
    /// do not go on together. `chance` is at least 0 and below 1, as everywhere here.
    pub fn every(&mut self, period: Duration, chance: f64) -> Duration {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh {
            period.mul_f64(chance)
        } else {
            period
        }
    }

    /// After a failure. Waits double, and are no shorter than the crowd's turns take.
    pub fn wait(&mut self, spread: Option<Duration>, chance: f64) -> Wait {
        // Who does not know how many they are asks ever more rarely.
        self.backoff
            .limit(spread.map_or(LONGEST_SPREAD, |_| LONGEST_PAUSE));
        let pause = self.backoff.next(chance);
        let in_a_hurry = pause.min(backoff::spread(LONGEST_PAUSE, chance));
        let spread = spread.unwrap_or_default();
        let turn = self.every(spread, chance);
        Wait {
            least: in_a_hurry.max(spread.mul_f64(chance) / HURRY),
            whole: pause.max(turn),
        }
    }
}

/// A number from 0 to 1, without 1.
pub fn chance() -> f64 {
    // A fresh hasher is keyed by the machine's random numbers.
    let random = RandomState::new().hash_one(()) >> 32;
    f64::from(u32::try_from(random).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_a_limit_which_is_longer_while_nobody_has_counted() {
        for (crowd, longest) in [
            (Crowd::of(1), LONGEST_PAUSE),
            (Crowd::default(), LONGEST_SPREAD),
        ] {
            let mut turn = Turn::default();
            let mut most = FIRST_PAUSE;
            for _ in 0..20 {
                let wait = turn.wait(crowd.spread(), chance());
                assert!(wait.whole >= most / 2 && wait.whole <= most, "{wait:?}");
                assert_eq!(wait.least < wait.whole, most > LONGEST_PAUSE, "{wait:?}");
                most = (most * 2).min(longest);
            }
            turn.answered();
            assert!(turn.wait(crowd.spread(), 0.9).least <= FIRST_PAUSE);
        }
    }

    #[test]
    fn the_span_grows_with_the_cluster_and_has_an_end() {
        let seconds = |nodes| Crowd::of(nodes).spread().map(|spread| spread.as_secs_f64());
        let table = [
            (1, 0.06),
            (100, 6.0),
            (1000, 60.0),
            (5000, 300.0),
            (50_000, 300.0),
        ];
        for (nodes, expected) in table {
            assert_eq!(seconds(nodes), Some(expected), "{nodes} nodes");
        }
        assert_eq!(seconds(0), None);
        assert_eq!(seconds(u64::MAX), Some(300.0));
    }

    #[test]
    fn a_place_is_taken_once_and_kept() {
        let mut turn = Turn::default();
        let spread = Crowd::of(5000).spread();
        let first = turn.wait(spread, 0.5);
        assert_eq!(first.whole, 150 * SECOND);
        assert_eq!(first.least, 5 * SECOND);
        assert_eq!(turn.wait(spread, 0.1).whole, 300 * SECOND);
        turn.answered();
        assert_eq!(turn.every(60 * SECOND, 0.1), 60 * SECOND);
        assert_eq!(Turn::default().every(60 * SECOND, 0.1), 6 * SECOND);
    }

    #[test]
    fn chances_differ_and_are_below_one() {
        let chances: Vec<f64> = (0..5).map(|_| chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..1.0).contains(chance)));
        assert!(chances.iter().any(|chance| *chance > chances[0]) || chances[1] < chances[0]);
    }

    #[tokio::test]
    async fn a_hurry_is_noticed_while_it_lasts() {
        let crowd = Crowd::default();
        crowd.hurry(true);
        crowd.in_a_hurry().await;
        crowd.hurry(false);
        let hurry = crowd.clone();
        tokio::select! {
            biased;
            () = crowd.in_a_hurry() => panic!("there is none"),
            () = tokio::task::yield_now() => hurry.hurry(true),
        }
        crowd.in_a_hurry().await;
    }
}
