//! One cycle on a node that is short of memory, without any node or cluster: who goes, and in which order the others would.
//! `cargo run -p evictd-eviction --example cycle`
#![allow(clippy::print_stdout, reason = "an example")]

use evictd_eviction::{Housekeeper, Rules, simulation};
use evictd_pod::Pod;
use evictd_signals::ThresholdMaps;
use evictd_usage::Summary;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::error::Error;

const MI: u64 = 1 << 20;

/// Name, priority, memory request and memory usage, in MiB.
const PODS: [(&str, i32, u64, u64); 4] = [
    ("database", 1000, 500, 480),
    ("web", 100, 200, 210),
    ("batch", 0, 100, 700),
    ("report", 0, 300, 250),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut maps = ThresholdMaps::default();
    let (signal, value) = ("memory.available".to_owned(), "500Mi".to_owned());
    maps.hard.insert(signal, value);
    let thresholds = maps.parse().map_err(|mistakes| mistakes[0].to_string())?;
    let mut housekeeper = Housekeeper::new(Rules {
        thresholds,
        ..Rules::evictd()
    });

    let pods = PODS.map(|(name, priority, request, _)| {
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"priority": priority, "containers": [
                {"name": "main", "resources": {"requests": {"memory": format!("{request}Mi")}}}
            ]}
        })
    });
    let read = |pod: Value| serde_json::from_value(pod).map(Pod::from_wire);
    let pods = pods.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;

    let now = Timestamp::UNIX_EPOCH;
    // What a kubelet says at /stats/summary.
    let used = PODS.map(|(name, _, _, usage)| {
        let memory = json!({"time": now, "workingSetBytes": usage * MI});
        json!({"podRef": {"name": name, "namespace": "shop", "uid": name}, "memory": memory})
    });
    let memory = json!({"time": now, "availableBytes": 360 * MI, "workingSetBytes": 1640 * MI});
    let summary = json!({"node": {"nodeName": "one", "memory": memory}, "pods": used});
    let summary: Summary = serde_json::from_value(summary)?;

    let outcome = simulation::cycle(&mut housekeeper, now, &pods, &summary, None);
    let decision = outcome.decision.ok_or("no victim is needed")?;
    println!("{}\n", decision.why);
    println!(
        "{:14} {:>8} {:>8} {:>8}",
        "POD", "PRIORITY", "USES", "ASKED"
    );
    for pod in &decision.ranked {
        let figure = pod
            .usage
            .map_or("?".to_owned(), |figure| figure.to_string());
        println!(
            "{:14} {:>8} {figure:>8} {:>8}",
            pod.pod,
            pod.priority,
            pod.request.to_string()
        );
    }
    Ok(())
}
