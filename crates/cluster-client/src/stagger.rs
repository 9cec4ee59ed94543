//! Spreads the requests of all agents of a cluster over time, because they share one API server.
//!
//! When the API server fails, all agents lose it at the same moment, and none knows whether it is alone. So each
//! waits for a random part of a time span that grows with the number of nodes, and keeps this place for later
//! requests. An agent with a crossed threshold comes sooner; there are few such nodes.

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

/// The share of the span per node: on average one agent returns in this time.
const SPREAD_PER_NODE: Duration = Duration::from_millis(60);
/// The longest span. With 5000 nodes or more a third of a percent of them return per second.
const LONGEST_SPREAD: Duration = Duration::from_mins(5);
/// Agents that need the answer urgently return within this fraction of the span.
const URGENT_FRACTION: u32 = 30;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The agents that share an API server, as one of them knows it. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Fleet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// 0 while the nodes were not counted.
    nodes: AtomicU64,
    urgent: watch::Sender<bool>,
}

impl Fleet {
    /// A fleet of `nodes` agents.
    pub fn of(nodes: u64) -> Self {
        let fleet = Self::default();
        fleet.set_nodes(nodes);
        fleet
    }

    /// Updates the number of nodes.
    pub fn set_nodes(&self, nodes: u64) {
        self.0.nodes.store(nodes, Ordering::Relaxed);
    }

    /// The span in which all agents return; `None` while their number is not known.
    pub fn spread(&self) -> Option<Duration> {
        let nodes = self.0.nodes.load(Ordering::Relaxed);
        let share = SPREAD_PER_NODE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX));
        (nodes > 0).then(|| share.min(LONGEST_SPREAD))
    }

    /// The span for requests that may come after the watches, which are more urgent because evictions depend on
    /// them.
    pub fn background_spread(&self) -> Option<Duration> {
        self.spread().map(|spread| spread * 2)
    }

    /// Sets whether this node needs the API server's answers urgently.
    pub fn set_urgent(&self, urgent: bool) {
        self.0
            .urgent
            .send_if_modified(|before| std::mem::replace(before, urgent) != urgent);
    }

    /// Returns when this node needs the answers urgently. Cancel safe.
    pub async fn until_urgent(&self) {
        // The channel cannot be closed, because `self` holds its sender.
        let _ = self.0.urgent.subscribe().wait_for(|urgent| *urgent).await;
    }
}

/// How long to wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// For an agent that needs the answer urgently.
    pub urgent: Duration,
    /// For other agents.
    pub normal: Duration,
}

/// The place of one agent among all others, for one kind of request.
#[derive(Debug)]
pub struct Stagger {
    backoff: Backoff,
    /// Whether its place is not chosen yet.
    unplaced: bool,
}

impl Default for Stagger {
    fn default() -> Self {
        Self {
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_SPREAD),
            unplaced: true,
        }
    }
}

impl Stagger {
    /// After a success: resets the back-off, but keeps the place.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
    }

    /// When to repeat a periodic request: the first time at a random moment of the period, so that agents that were
    /// started together do not stay in step. It is not in the first quarter, when a repetition would have no news.
    /// `chance` is at least 0 and below 1, as everywhere here.
    pub fn interval(&mut self, period: Duration, chance: f64) -> Duration {
        let quarter = period / 4;
        quarter + self.place(quarter * 3, chance)
    }

    /// A random part of the span the first time, then the whole of it.
    fn place(&mut self, span: Duration, chance: f64) -> Duration {
        let unplaced = std::mem::take(&mut self.unplaced);
        if unplaced { span.mul_f64(chance) } else { span }
    }

    /// How long to wait after a failure. Waits double, and are at least as long as the span.
    pub fn after_failure(&mut self, spread: Option<Duration>, chance: f64) -> Delay {
        // If the number of agents is not known, the back-off alone must spread them.
        self.backoff
            .limit(spread.map_or(LONGEST_SPREAD, |_| LONGEST_PAUSE));
        let pause = self.backoff.next(chance);
        let soon = pause.min(backoff::spread(LONGEST_PAUSE, chance));
        let spread = spread.unwrap_or_default();
        let place = self.place(spread, chance);
        Delay {
            urgent: soon.max(spread.mul_f64(chance) / URGENT_FRACTION),
            normal: pause.max(place),
        }
    }
}

/// A random number of at least 0 and below 1.
pub fn chance() -> f64 {
    // A new hasher is keyed with the system's random numbers.
    let random = RandomState::new().hash_one(()) >> 32;
    f64::from(u32::try_from(random).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn back_off_doubles_up_to_a_limit_that_is_higher_until_the_nodes_are_counted() {
        for (fleet, longest) in [
            (Fleet::of(1), LONGEST_PAUSE),
            (Fleet::default(), LONGEST_SPREAD),
        ] {
            let mut stagger = Stagger::default();
            let mut most = FIRST_PAUSE;
            for _ in 0..20 {
                let wait = stagger.after_failure(fleet.spread(), chance());
                assert!(wait.normal >= most / 2 && wait.normal <= most, "{wait:?}");
                assert_eq!(wait.urgent < wait.normal, most > LONGEST_PAUSE, "{wait:?}");
                most = (most * 2).min(longest);
            }
            stagger.succeeded();
            assert!(stagger.after_failure(fleet.spread(), 0.9).urgent <= FIRST_PAUSE);
        }
    }

    #[test]
    fn the_span_grows_with_the_cluster_and_has_an_end() {
        let seconds = |nodes| Fleet::of(nodes).spread().map(|spread| spread.as_secs_f64());
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
        let mut stagger = Stagger::default();
        let spread = Fleet::of(5000).spread();
        let first = stagger.after_failure(spread, 0.5);
        assert_eq!(first.normal, 150 * SECOND);
        assert_eq!(first.urgent, 5 * SECOND);
        assert_eq!(stagger.after_failure(spread, 0.1).normal, 300 * SECOND);
        stagger.succeeded();
        assert_eq!(stagger.interval(60 * SECOND, 0.1), 60 * SECOND);
        assert_eq!(Stagger::default().interval(60 * SECOND, 0.0), 15 * SECOND);
        assert_eq!(Stagger::default().interval(60 * SECOND, 0.2), 24 * SECOND);
    }

    #[test]
    fn chances_differ_and_are_below_one() {
        let chances: Vec<f64> = (0..5).map(|_| chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..1.0).contains(chance)));
        assert!(chances.iter().any(|chance| *chance > chances[0]) || chances[1] < chances[0]);
    }

    #[tokio::test]
    async fn a_hurry_is_noticed_while_it_lasts() {
        let fleet = Fleet::default();
        fleet.set_urgent(true);
        fleet.until_urgent().await;
        fleet.set_urgent(false);
        let urgent = fleet.clone();
        tokio::select! {
            biased;
            () = fleet.until_urgent() => panic!("there is none"),
            () = tokio::task::yield_now() => urgent.set_urgent(true),
        }
        fleet.until_urgent().await;
    }
}
