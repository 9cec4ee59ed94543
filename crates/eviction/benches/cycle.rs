//! One whole cycle, from the observation to the decision. The real kubelet needs, at 110 and 1000 pods: 0.12 and
//! 1.2 ms where nothing is short, 1.9 and 32 ms where a pod goes.
#![allow(clippy::expect_used, reason = "a bench")]

mod node;

use divan::{AllocProfiler, Bencher, black_box};
use evictd_decision::Decision;
use evictd_eviction::{Housekeeper, Rules, Step};
use evictd_signals::{Observation, Observations, Signal, ThresholdMaps, threshold};
use jiff::{SignedDuration, Timestamp};
use node::Node;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const PODS: [usize; 2] = [110, 1000];

fn main() {
    divan::main();
}

/// The kubelet's rules with its default thresholds, one for process ids and one for the pods' cgroup.
fn kubelet_rules() -> Rules {
    let mut maps = ThresholdMaps::default();
    for (signal, value) in [
        ("memory.available", "100Mi"),
        ("nodefs.available", "10%"),
        ("nodefs.inodesFree", "5%"),
        ("imagefs.available", "15%"),
        ("imagefs.inodesFree", "5%"),
        ("pid.available", "10%"),
    ] {
        maps.hard.insert(signal.to_owned(), value.to_owned());
    }
    Rules {
        thresholds: threshold::with_allocatable(&maps.parse().expect("thresholds")),
        local_storage_capacity_isolation: true,
        ..Rules::kubelet()
    }
}

/// Our rules with the same thresholds.
fn evictd_rules() -> Rules {
    Rules {
        thresholds: kubelet_rules().thresholds,
        // The bench evicts for ever, and nothing ever gets better.
        futility: None,
        ..Rules::evictd()
    }
}

/// A node with room for everything, but for this much memory.
fn observations(memory_available: i64, time: Timestamp) -> Observations {
    let all = Signal::ALL.into_iter().map(|signal| {
        let (available, capacity) = match signal {
            Signal::MemoryAvailable => (memory_available, 64 << 30),
            _ => (50 << 30, 64 << 30),
        };
        let observation = Observation {
            available,
            capacity,
            time: Some(time),
        };
        (signal, observation)
    });
    all.collect()
}

/// A daemon that has been up for a while; every cycle is a second after the one before.
struct Daemon {
    keeper: Housekeeper,
    node: Node,
    memory_available: i64,
    now: Timestamp,
}

impl Daemon {
    fn new(rules: Rules, pods: usize, memory_available: i64) -> Self {
        Self {
            keeper: Housekeeper::new(rules),
            node: Node::new(pods),
            memory_available,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn cycle(&mut self) -> Option<Decision> {
        self.now += SignedDuration::from_secs(1);
        let (pods, usage) = (black_box(&self.node.pods), black_box(&self.node.usage));
        let seen = observations(black_box(self.memory_available), self.now);
        let mut step = self.keeper.observe(self.now, &seen);
        if step == Step::LocalStorage {
            let over_their_limit = self.keeper.check_local_storage(self.now, pods, usage);
            assert!(over_their_limit.is_empty());
            step = self.keeper.pressure();
        }
        match step {
            Step::Rank(_) => self.keeper.decide(self.now, pods, usage),
            _ => None,
        }
    }
}

fn idle_with(bencher: Bencher<'_, '_>, rules: Rules, pods: usize) {
    let mut daemon = Daemon::new(rules, pods, 10 << 30);
    bencher.bench_local(|| assert!(daemon.cycle().is_none()));
}

fn evicting_with(bencher: Bencher<'_, '_>, rules: Rules, pods: usize) {
    let mut daemon = Daemon::new(rules, pods, 50 << 20);
    bencher.bench_local(|| daemon.cycle().expect("an eviction"));
}

#[divan::bench(args = PODS)]
fn idle(bencher: Bencher<'_, '_>, pods: usize) {
    idle_with(bencher, kubelet_rules(), pods);
}

#[divan::bench(args = PODS)]
fn idle_by_our_rules(bencher: Bencher<'_, '_>, pods: usize) {
    idle_with(bencher, evictd_rules(), pods);
}

#[divan::bench(args = PODS)]
fn evicting(bencher: Bencher<'_, '_>, pods: usize) {
    evicting_with(bencher, kubelet_rules(), pods);
}

#[divan::bench(args = PODS)]
fn evicting_by_our_rules(bencher: Bencher<'_, '_>, pods: usize) {
    evicting_with(bencher, evictd_rules(), pods);
}
