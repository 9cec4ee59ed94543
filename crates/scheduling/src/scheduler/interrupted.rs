//! Attempts that are ended because they take too long or cost too much. A pod whose attempt was ended is tried again after its
//! back-off, as after any other error, and the others go on meanwhile. The first time that an attempt exceeds the usual cost its
//! pod is put off until its namespace has a turn.

use super::{Outcome, Scheduler};
use crate::queue::{Popped, USUAL_COST};
use crate::scheduling_algorithm::SchedulingAlgorithm;
use evictd_placement::{INTERRUPTED, Pod, estimated_cost};
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

/// What a costly attempt may take besides its estimated cost. What it evaluates is cached, and the next attempt continues.
const MOST_COST: u64 = 8_000_000;

/// The message of a pod whose attempt exceeds every limit.
const TOO_COSTLY: &str = "the attempt reached its limit of cost and was ended";

/// The attempt that is under way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Current {
    /// Whether its pod has a turn of the costly ones.
    has_turn: bool,
}

impl Scheduler {
    /// Ends attempts once `ask` returns true. It is called often, by several threads, and only during an attempt.
    pub fn interrupt_where(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        self.cluster.interrupt_mut().ask(ask);
    }

    /// The cost of the attempts since the last call, in the units of [`estimated_cost`].
    pub fn take_cost(&mut self) -> u64 {
        std::mem::take(&mut self.cost)
    }

    /// Runs an attempt that may be ended by time alone.
    pub(super) fn interruptible<T>(&mut self, attempt: impl FnOnce(&mut Self) -> T) -> T {
        self.current = Current { has_turn: true };
        self.run(MOST_COST, attempt).0
    }

    /// Runs the attempt of a pod, or of a gang with this pod, that may cost no more than usual unless it has a turn.
    pub(super) fn attempt_within<T>(
        &mut self,
        popped: &Popped,
        namespace: &Arc<str>,
        attempt: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let has_turn = popped.has_turn;
        self.current = Current { has_turn };
        let most = if has_turn { MOST_COST } else { USUAL_COST };
        let (made, cost) = self.run(most, attempt);
        self.queue.count_cost(namespace, cost, has_turn);
        made
    }

    fn run<T>(&mut self, most: u64, attempt: impl FnOnce(&mut Self) -> T) -> (T, u64) {
        self.cluster.interrupt_mut().begin(most);
        let made = attempt(self);
        let ended = self.cluster.interrupt_mut().end();
        if ended.interrupted {
            // It may have cached the answers of checks that were ended.
            self.decider = SchedulingAlgorithm::default();
        }
        self.cost = self.cost.saturating_add(ended.cost);
        (made, ended.cost)
    }

    /// Counts what an attempt for a pod costs at least.
    pub(super) fn charge(&mut self, pod: &Pod) {
        let cost = estimated_cost(&self.cluster, pod);
        let interrupt = self.cluster.interrupt_mut();
        if self.current.has_turn {
            // However large the cluster is, a pod that the API server accepts is tried.
            interrupt.extend(cost);
        }
        interrupt.charge(cost);
    }

    /// Whether the attempt was ended. Then its results do not count.
    pub(super) fn is_interrupted(&self) -> bool {
        self.cluster.interrupt().is_raised()
    }

    /// The outcome of a pod whose attempt was ended, and who is put off or tried again after its back-off.
    pub(super) fn end_interrupted(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        wire: &wire::Pod,
    ) -> Outcome {
        if !self.cluster.interrupt().is_too_costly() {
            return self.error(now, key, INTERRUPTED.to_owned());
        }
        if self.current.has_turn {
            return self.error(now, key, TOO_COSTLY.to_owned());
        }
        self.put_off(now, key, wire)
    }

    /// Lets a pod in flight wait for a turn of its namespace.
    pub(super) fn put_off(&mut self, now: Timestamp, key: &Arc<str>, wire: &wire::Pod) -> Outcome {
        let namespace: Arc<str> = wire.metadata.namespace_or_default().into();
        self.queue.put_off(now, key, &namespace);
        Outcome::PutOff(format!(
            "an attempt to place a pod of namespace {namespace:?} costs more than {USUAL_COST} units (selectors of devices, \
             terms and their values): its pods take turns, and others are tried in between"
        ))
    }
}
