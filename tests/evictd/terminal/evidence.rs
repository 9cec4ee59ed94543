//! What a daemon answers about an eviction that is over, and about thresholds that were nearly met.

use super::{namespace, pod_name};
use serde_json::{Value, json};

/// An eviction that is over, of a pod that has chosen the names of its processes.
pub(super) fn ended_well() -> Value {
    let process = |pid: u32, name: &str, container: &str| {
        json!({
            "pid": pid, "name": name, "containerName": container, "residentBytes": 3_113_851_289_u64 / u64::from(pid), "threads": 40,
            "ageSeconds": 7500, "commandLine": "/usr/lib/jvm/bin/java -Xmx3g -jar /srv/an-application-with-a-long-name.jar --serve",
        })
    };
    let contents = json!({
        "processes": [
            process(1, "java", "app"),
            process(7, "a\n\u{1b}[2Jb", &"long-name-of-a-container-".repeat(2)),
        ],
        "unread": 3,
        "memory": { "usage": 3_328_599_654_u64, "anon": 3_113_851_289_u64, "file": 12_582_912, "shmem": 0, "kernel": 9_000_000, "swap": 0 },
    });
    json!({
        "id": "1a1f58c3f80-1", "time": "2026-11-19T08:00:00Z", "kind": "hard", "signal": "memory.available",
        "pod": format!("{}/{}", namespace(2), pod_name(2)), "uid": "u", "dryRun": false,
        "message": "The node was low on resource: memory. Threshold quantity: 1Gi, available: 1000Mi. ",
        "parts": [
            { "name": "container app", "usage": "2969Mi", "directory": { "path": "models/\u{1b}large", "usage": "2800Mi" } },
            { "name": format!("container {}", "long-name-of-a-container-".repeat(2)), "usage": "424Mi" },
        ],
        "outcome": { "method": "cgroup-kill", "processes": 2, "reactionSeconds": 0.01, "lastProcessGoneSeconds": 0.01, "contents": contents },
    })
}

/// What a daemon keeps of thresholds that were nearly met.
pub(super) fn near_misses() -> Value {
    let holders = [1, 2, 3].map(|index| {
        json!({ "pod": format!("{}/{}", namespace(index), pod_name(index)), "usage": format!("{index}Gi") })
    });
    let miss = |signal: &str, hard: bool, [capacity, threshold, least]: [i64; 3]| {
        json!({
            "signal": signal, "hard": hard, "began": "2026-11-20T10:00:00Z", "lastSeen": "2026-11-20T10:04:30Z",
            "leastAt": "2026-11-20T10:02:00Z", "capacity": capacity, "threshold": threshold, "leastAvailable": least,
            "holders": holders,
        })
    };
    let gib = 1_i64 << 30;
    json!({
        "version": 1,
        "days": [{
            "begins": "2026-11-20T00:00:00Z", "observedSeconds": 86_400.0,
            "raisedSeconds": { "MemoryPressure": 864.0, "DiskPressure": 12.5 }, "nearMisses": { "memory.available": 12 },
        }],
        "nearMisses": [
            miss("memory.available", true, [31 * gib, gib, gib + (100 << 20)]),
            miss("allocatableMemory.available", false, [30 * gib, 2 * gib, gib]),
        ],
        "ongoing": [miss("nodefs.inodesFree", true, [16_777_216, 838_860, 900_000])],
    })
}
