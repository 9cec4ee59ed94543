//! What a summary says of the node (S1-018 to S1-021).
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use evictd_signals::{Observation, Signal};
use evictd_usage::Summary;
use serde_json::{Value, json};

fn observed(node: &Value, signal: Signal) -> Option<(i64, i64)> {
    let summary: Summary = serde_json::from_value(json!({ "node": node })).unwrap();
    let seen = |seen: &Observation| (seen.available, seen.capacity);
    summary.observations().get(signal).map(seen)
}

#[test]
fn s1_018_the_capacity_of_memory_is_the_available_amount_and_the_working_set() {
    let memory =
        json!({ "memory": { "availableBytes": 70, "workingSetBytes": 30, "usageBytes": 90 } });
    assert_eq!(observed(&memory, Signal::MemoryAvailable), Some((70, 100)));
    for missing in [
        json!({ "availableBytes": 70 }),
        json!({ "workingSetBytes": 30 }),
        json!(null),
    ] {
        assert_eq!(
            observed(&json!({ "memory": missing }), Signal::MemoryAvailable),
            None
        );
    }
}

#[test]
fn s1_019_allocatable_memory_is_that_of_the_system_container_pods() {
    let containers = |name| {
        json!({ "systemContainers": [
            { "name": "kubelet", "memory": { "availableBytes": 1, "workingSetBytes": 1 } },
            { "name": name, "memory": { "availableBytes": 7, "workingSetBytes": 3 } },
        ] })
    };
    let signal = Signal::AllocatableMemoryAvailable;
    assert_eq!(observed(&containers("pods"), signal), Some((7, 10)));
    assert_eq!(observed(&containers("runtime"), signal), None);
}

#[test]
fn s1_020_each_half_of_a_filesystem_needs_both_its_values() {
    let bytes = json!({ "availableBytes": 1, "capacityBytes": 2, "inodesFree": 3 });
    let inodes = json!({ "availableBytes": 1, "inodesFree": 3, "inodes": 4 });
    let filesystems = [
        (Signal::NodefsAvailable, Signal::NodefsInodesFree, "/fs"),
        (
            Signal::ImagefsAvailable,
            Signal::ImagefsInodesFree,
            "/runtime/imageFs",
        ),
        (
            Signal::ContainerfsAvailable,
            Signal::ContainerfsInodesFree,
            "/runtime/containerFs",
        ),
    ];
    for (space, files, place) in filesystems {
        let node = |stats: &Value| {
            let mut node =
                json!({ "fs": null, "runtime": { "imageFs": null, "containerFs": null } });
            *node.pointer_mut(place).unwrap() = stats.clone();
            node
        };
        assert_eq!(observed(&node(&bytes), space), Some((1, 2)), "{place}");
        assert_eq!(observed(&node(&bytes), files), None, "{place}");
        assert_eq!(observed(&node(&inodes), space), None, "{place}");
        assert_eq!(observed(&node(&inodes), files), Some((3, 4)), "{place}");
    }
}

#[test]
fn s1_021_process_ids_left_are_the_most_less_the_running() {
    let rlimit = |stats: Value| observed(&json!({ "rlimit": stats }), Signal::PidAvailable);
    assert_eq!(
        rlimit(json!({ "maxpid": 100, "curproc": 30 })),
        Some((70, 100))
    );
    assert_eq!(
        rlimit(json!({ "maxpid": 100, "curproc": 130 })),
        Some((-30, 100))
    );
    assert_eq!(rlimit(json!({ "maxpid": 100 })), None);
}
