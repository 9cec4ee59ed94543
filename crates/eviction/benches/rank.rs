//! Who goes first, for each starved resource. The real kubelet needs, at 110, 1000 and 10 000 pods: memory 2.1, 32 and
//! 593 ms; disk 5.6, 88 and 1575 ms; inodes 5.3, 87 and 1559 ms; pid 0.04, 0.7 and 16 ms.
#![allow(clippy::expect_used, reason = "a bench")]

mod node;

use divan::{Bencher, black_box};
use evictd_decision::RankedPod;
use evictd_departures::Departures;
use evictd_eviction::{Rules, rank::Ranking};
use evictd_signals::Signal;
use node::Node;
use std::collections::BTreeSet;

const PODS: [usize; 3] = [110, 1000, 10_000];

fn main() {
    divan::main();
}

fn rank(bencher: Bencher<'_, '_>, pods: usize, signal: Signal, rules: &Rules) {
    let node = Node::new(pods);
    let (departures, without_cgroup) = (Departures::default(), BTreeSet::new());
    let ranking = Ranking {
        now: jiff::Timestamp::UNIX_EPOCH,
        signal,
        capacity: 32_768,
        rules,
        departures: &departures,
        without_cgroup: &without_cgroup,
    };
    bencher.bench_local(|| -> Vec<RankedPod> {
        black_box(ranking).of(black_box(&node.pods), black_box(&node.usage))
    });
}

#[divan::bench(args = PODS)]
fn memory(bencher: Bencher<'_, '_>, pods: usize) {
    rank(bencher, pods, Signal::MemoryAvailable, &Rules::kubelet());
}

#[divan::bench(args = PODS)]
fn disk(bencher: Bencher<'_, '_>, pods: usize) {
    rank(bencher, pods, Signal::NodefsAvailable, &Rules::kubelet());
}

#[divan::bench(args = PODS)]
fn inodes(bencher: Bencher<'_, '_>, pods: usize) {
    rank(bencher, pods, Signal::NodefsInodesFree, &Rules::kubelet());
}

#[divan::bench(args = PODS)]
fn pid(bencher: Bencher<'_, '_>, pods: usize) {
    rank(bencher, pods, Signal::PidAvailable, &Rules::kubelet());
}

#[divan::bench(args = PODS)]
fn memory_by_our_rules(bencher: Bencher<'_, '_>, pods: usize) {
    rank(bencher, pods, Signal::MemoryAvailable, &Rules::evictd());
}

#[divan::bench(args = PODS)]
fn pid_by_our_rules(bencher: Bencher<'_, '_>, pods: usize) {
    rank(bencher, pods, Signal::PidAvailable, &Rules::evictd());
}
