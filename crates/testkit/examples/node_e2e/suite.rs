//! The tests: upstream's names, pods, conditions and orders. What is scaled for an emulated processor is named so.

use crate::pods::{self, Storage};
use serde_json::{Value, json};
use std::time::Duration;

/// Upstream: 4Gi.
const DISK_SCALED: u64 = 256 << 20;
/// Upstream: 300Mi, of which 297 are written.
const GUARANTEED_DISK_SCALED: u32 = 24;
/// Upstream: 200000.
const INODES_SCALED: u64 = 2000;
/// Upstream: 100000, of 110000 that a pod takes.
const IMAGE_INODES_SCALED: u64 = 1000;
/// Upstream: 4000, and 5000 by each pod.
const PROCESSES_SCALED: u64 = 400;
const PROCESSES_OF_A_POD_SCALED: u64 = 500;
/// Upstream: 600Mi.
const MEMORY_SCALED: u64 = 300 << 20;
/// Upstream: 300Mi.
const GUARANTEED_MEMORY_SCALED: u32 = 150;
/// Upstream: 10 s between two pieces of memory.
const PAUSE_SCALED: u32 = 1;
/// Upstream: 1m, and in the second of them 30s.
const SOFT_GRACE_SCALED: u64 = 20;
/// Upstream: 30 s.
const LONGEST_POD_GRACE_SCALED: u64 = 10;
/// More than any of them needs before it is evicted.
const ENDLESS: u64 = 1_000_000_000;

/// How much of a signal the pods may take until its threshold is crossed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Threshold {
    Hard(&'static str, u64),
    Soft(&'static str, u64),
    /// Only what the pods' cgroup may use, in MiB; the node's threshold is the one upstream's kubelets have.
    Allocatable(u64),
    /// None acts.
    None,
}

/// A pod, and when it may be evicted: never for priority 0, and one of priority 1 not while one of priority 2 runs.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) priority: u32,
    pub(crate) pod: Value,
}

/// What a test of upstream's is made of.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// The condition that must appear; none for the limits of single pods.
    pub(crate) condition: Option<&'static str>,
    /// The annotation `starved_resource` of each event; not looked at where upstream does not.
    pub(crate) starved: Option<&'static str>,
    pub(crate) threshold: Threshold,
    /// Images of so many files that nobody uses.
    pub(crate) images: &'static [u64],
    pub(crate) pods: Vec<Spec>,
    /// A soft victim ends within this long after the condition.
    pub(crate) at_most: Option<Duration>,
    /// The condition that a victim's status must have.
    pub(crate) disruption_target: bool,
}

impl Test {
    /// What upstream's test adds to the kubelet's configuration, where these much is left of a signal now.
    pub(crate) fn configuration(&self, left: impl Fn(&str) -> u64) -> Value {
        let at = |signal: &str, taken: u64| json!({signal: left(signal).saturating_sub(taken).to_string()});
        let no_minimum = json!({});
        match self.threshold {
            Threshold::Hard(signal, taken) => {
                json!({"evictionHard": at(signal, taken), "evictionMinimumReclaim": no_minimum})
            }
            Threshold::Soft(signal, taken) => json!({
                "evictionHard": {"memory.available": "0%"},
                "evictionSoft": at(signal, taken),
                "evictionSoftGracePeriod": {signal: format!("{SOFT_GRACE_SCALED}s")},
                "evictionMaxPodGracePeriod": LONGEST_POD_GRACE_SCALED,
                "evictionMinimumReclaim": no_minimum,
            }),
            Threshold::Allocatable(_) => {
                json!({"enforceNodeAllocatable": ["pods"], "cgroupsPerQOS": true})
            }
            Threshold::None => json!({"evictionHard": {"memory.available": "0%"}}),
        }
    }
}

fn spec(priority: u32, pod: Value) -> Spec {
    Spec { priority, pod }
}

fn test(name: &'static str, threshold: Threshold, pods: Vec<Spec>) -> Test {
    Test {
        name,
        condition: Some("DiskPressure"),
        starved: Some("ephemeral-storage"),
        threshold,
        images: &[],
        pods,
        at_most: None,
        disruption_target: false,
    }
}

/// Every test of the suite.
pub(crate) fn all() -> Vec<Test> {
    let mut all = disks();
    all.extend(memory());
    all.extend(processes());
    all
}

fn disks() -> Vec<Test> {
    let volume = Storage::EmptyDir(None);
    let disk_hog = |storage| pods::disk("container-disk-hog", ENDLESS, storage, None);
    let hard = Threshold::Hard("nodefs.available", DISK_SCALED);
    let soft = Threshold::Soft("nodefs.available", DISK_SCALED);
    let inodes = |taken| Threshold::Hard("nodefs.inodesFree", taken);
    // The shorter of both grace periods, and upstream's 15 s.
    let own_grace = 1;
    let at_most = Duration::from_secs(SOFT_GRACE_SCALED + own_grace + 15);
    vec![
        Test {
            starved: Some("inodes"),
            ..test(
                "InodeEviction",
                inodes(INODES_SCALED),
                vec![
                    spec(1, pods::inodes("volume-inode-hog", ENDLESS, volume)),
                    spec(0, pods::innocent()),
                ],
            )
        },
        Test {
            starved: Some("inodes"),
            images: &[400, 400, 400],
            ..test(
                "ImageGCNoEviction",
                inodes(IMAGE_INODES_SCALED),
                vec![spec(
                    0,
                    pods::inodes(
                        "container-inode",
                        IMAGE_INODES_SCALED / 10 * 11,
                        Storage::Layer,
                    ),
                )],
            )
        },
        test(
            "LocalStorageEviction",
            hard,
            vec![spec(1, disk_hog(volume)), spec(0, pods::innocent())],
        ),
        test(
            "LocalStorageSoftEviction",
            soft,
            vec![spec(1, disk_hog(volume)), spec(0, pods::innocent())],
        ),
        Test {
            at_most: Some(at_most),
            ..test(
                "LocalStorageSoftEvictionNotOverwriteTerminationGracePeriodSeconds",
                soft,
                vec![spec(1, disk_hog(Storage::Layer))],
            )
        },
        capacity_isolation(),
        test(
            "PriorityLocalStorageEvictionOrdering",
            hard,
            vec![
                spec(2, pods::disk("best-effort-disk", ENDLESS, volume, None)),
                spec(
                    1,
                    pods::important(pods::disk("high-priority-disk", ENDLESS, volume, None)),
                ),
                spec(
                    0,
                    pods::disk(
                        "guaranteed-disk",
                        u64::from(GUARANTEED_DISK_SCALED) - 1,
                        volume,
                        Some(GUARANTEED_DISK_SCALED),
                    ),
                ),
            ],
        ),
    ]
}

/// Not scaled.
fn capacity_isolation() -> Test {
    let limited = |name, files, storage| pods::disk(name, files, storage, Some(100));
    let unlimited = |name, files, storage| pods::disk(name, files, storage, None);
    let within_100 = Storage::EmptyDir(Some(100));
    Test {
        condition: None,
        starved: None,
        ..test(
            "LocalStorageCapacityIsolationEviction",
            Threshold::None,
            vec![
                spec(1, unlimited("emptydir-disk-sizelimit", 101, within_100)),
                spec(1, limited("container-disk-limit", 101, Storage::Layer)),
                spec(
                    1,
                    limited(
                        "container-emptydir-disk-limit",
                        101,
                        Storage::EmptyDir(None),
                    ),
                ),
                spec(
                    0,
                    unlimited("emptydir-memory-sizelimit", 101, Storage::Memory(100)),
                ),
                spec(
                    0,
                    unlimited("emptydir-disk-below-sizelimit", 99, within_100),
                ),
                spec(
                    0,
                    limited("container-disk-below-sizelimit", 99, Storage::Layer),
                ),
            ],
        )
    }
}

fn memory() -> Vec<Test> {
    let hog = |name, container| pods::memory(name, container, PAUSE_SCALED, None);
    let of_memory = |name, threshold, pods| Test {
        condition: Some("MemoryPressure"),
        starved: Some("memory"),
        ..test(name, threshold, pods)
    };
    vec![
        of_memory(
            "MemoryAllocatableEviction",
            Threshold::Allocatable(300),
            vec![
                spec(1, hog("memory-hog-pod", "memory-hog")),
                spec(0, pods::innocent()),
            ],
        ),
        of_memory(
            "PriorityMemoryEvictionOrdering",
            Threshold::Hard("memory.available", MEMORY_SCALED),
            vec![
                spec(2, hog("memory-hog-pod", "memory-hog")),
                spec(
                    1,
                    pods::important(hog(
                        "high-priority-memory-hog-pod",
                        "high-priority-memory-hog",
                    )),
                ),
                spec(
                    0,
                    pods::memory(
                        "guaranteed-pod",
                        "guaranteed-pod",
                        PAUSE_SCALED,
                        Some(GUARANTEED_MEMORY_SCALED),
                    ),
                ),
            ],
        ),
    ]
}

fn processes() -> Vec<Test> {
    let bomb = |name| pods::processes(name, PROCESSES_OF_A_POD_SCALED);
    let of_processes = |name, pods| Test {
        condition: Some("PIDPressure"),
        starved: None,
        ..test(
            name,
            Threshold::Hard("pid.available", PROCESSES_SCALED),
            pods,
        )
    };
    vec![
        of_processes(
            "PriorityPidEvictionOrdering",
            vec![
                spec(2, bomb("fork-bomb-container-with-low-priority")),
                spec(0, pods::important(pods::innocent())),
                spec(
                    1,
                    pods::important(bomb("fork-bomb-container-with-high-priority")),
                ),
            ],
        ),
        Test {
            disruption_target: true,
            ..of_processes(
                "PriorityPidEvictionOrdering-DisruptionTarget",
                vec![spec(1, bomb("fork-bomb-container"))],
            )
        },
    ]
}
