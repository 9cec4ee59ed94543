//! What wakes the loop before its time, with the kernel's own files.

use crate::cgroup_support::{TestCgroup, left_out};
use evictd_eviction::{Housekeeper, Rules};
use evictd_kernel::{
    cgroup::{DEFAULT_ROOT, Hierarchies},
    wake::{MemcgNotification, WakeListeners, WakeSources, WokenBy},
};
use evictd_signals::{Observation, Observations, Signal, ThresholdMaps, threshold};
use jiff::Timestamp;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

const LIMIT: i64 = 64 << 20;

fn housekeeper() -> Housekeeper {
    let mut maps = ThresholdMaps::default();
    maps.hard.insert("memory.available".into(), "48Mi".into());
    Housekeeper::new(Rules {
        thresholds: threshold::with_allocatable(&maps.parse().unwrap()),
        ..Rules::kubelet()
    })
}

#[tokio::test(flavor = "current_thread")]
async fn s1_074_s1_075_the_kernel_calls_when_a_group_crosses_its_threshold() {
    let test = "s1_074_s1_075_the_kernel_calls_when_a_group_crosses_its_threshold";
    let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
        return;
    };
    let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
    let pods = group.make("pods");
    let node = group.relative.clone();
    let Some(memcg) = MemcgNotification::new(&hierarchies, Some(&node), &[pods]) else {
        left_out(test, "cgroup v2 knows no such notification");
        return;
    };
    let mut wake_listeners = WakeListeners::new(WakeSources::default(), Some(memcg));
    let now = Timestamp::UNIX_EPOCH;
    let seen = Observation {
        available: LIMIT,
        capacity: LIMIT,
        time: Some(now),
    };
    let signals = [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable];
    let seen: Observations = signals.map(|signal| (signal, seen)).into_iter().collect();
    wake_listeners.notify_at(now, &housekeeper(), &seen);
    let early = timeout(Duration::from_millis(200), wake_listeners.notified()).await;
    assert!(early.is_err(), "nothing is crossed yet");
    // Thirty-two MiB of anonymous memory, where the level is sixteen.
    group.script(
        "pods",
        "held=$(head -c 33554432 /dev/zero | tr '\\0' x); echo ready; read -r _ < /dev/zero",
    );
    let heard = timeout(Duration::from_secs(10), wake_listeners.notified()).await;
    assert_eq!(heard, Ok(WokenBy::MemoryThreshold));
}
