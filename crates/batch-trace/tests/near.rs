//! Traces with HyperNodes and with actions for whole gangs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch::conf::Conf;
use evictd_batch_objects::Compat;
use evictd_batch_trace::{Report, Seconds, SimulatorOptions, Trace, play};
use serde_json::{Value, json};

fn trace(value: Value) -> Trace {
    let trace: Trace = serde_json::from_value(value).unwrap();
    assert_eq!(trace.mistakes(), []);
    trace
}

fn played(trace: &Trace, conf: &str, compat: Compat) -> Report {
    let options = SimulatorOptions {
        conf: Conf::read(conf).unwrap(),
        compat,
        period: Seconds::from_millis(1000),
    };
    play(trace, &options, &mut |_, _| ())
}

/// A job: its arrival and duration, and of its pods how many, how many start together, and cores of each.
fn job(name: &str, [at, lasts]: [u32; 2], [pods, least, cores]: [u32; 3]) -> Value {
    json!({"name": name, "arrival": at, "duration": lasts,
        "tasks": [{"replicas": pods, "minAvailable": least, "requests": {"cpu": cores}}]})
}

const NEAR: &str = "\
actions: \"enqueue, allocate, backfill\"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: network-topology-aware
";

/// Two racks of two nodes, of four cores each, in one row.
fn racks(jobs: &[Value]) -> Value {
    json!({
        "nodes": [{"name": "a", "count": 2, "allocatable": {"cpu": 4}}, {"name": "b", "count": 2, "allocatable": {"cpu": 4}}],
        "hyperNodes": [
            {"name": "rack-a", "tier": 1, "tierName": "rack", "nodes": ["a"]},
            {"name": "rack-b", "tier": 1, "tierName": "rack", "nodes": ["b-0", "b-1"]},
            {"name": "row", "tier": 2, "hyperNodes": ["rack-a", "rack-b"]},
        ],
        "jobs": jobs,
    })
}

#[test]
fn a_job_with_a_hard_topology_waits_for_room_in_one_rack() {
    let near = |name: &str, at: u32| {
        let mut near = job(name, [at, 60], [2, 2, 3]);
        near["networkTopology"] = json!({"highestTierAllowed": 1});
        near
    };
    // The third one would find a core in each rack, and has to wait for a whole one.
    let jobs = [near("one", 0), near("two", 0), near("three", 10)];
    let report = played(&trace(racks(&jobs)), NEAR, Compat::EVICTD);
    assert_eq!(report.finished, 3);
    assert!(
        report.wait_seconds.as_ref().unwrap().max >= 49.0,
        "{report:?}"
    );
    // Four pods need both racks.
    let four = |topology: Value| {
        let mut wide = job("wide", [0, 20], [4, 4, 4]);
        wide["networkTopology"] = topology;
        played(&trace(racks(&[wide])), NEAR, Compat::EVICTD).finished
    };
    assert_eq!(four(json!({"highestTierAllowed": 2})), 1);
    assert_eq!(four(json!({"highestTierName": "rack"})), 0);
    assert_eq!(four(json!({"mode": "soft", "highestTierAllowed": 1})), 1);
}

/// Changes a trace.
type Change<'c> = &'c dyn Fn(&mut Value);

#[test]
fn mistakes_in_hyper_nodes_are_reported_with_their_fields() {
    let mistakes = |change: &dyn Fn(&mut Value)| {
        let mut value = racks(&[job("j", [0, 1], [1, 1, 1])]);
        change(&mut value);
        let trace: Trace = serde_json::from_value(value).unwrap();
        let found = trace.mistakes().into_iter();
        found
            .map(|(field, what)| format!("{field}: {what}"))
            .collect::<Vec<_>>()
    };
    let cases: [(Change<'_>, &str); 6] = [
        (
            &|trace| trace["hyperNodes"][1]["nodes"][0] = json!("c-0"),
            "hyperNodes[1].nodes[0]: there is no node c-0",
        ),
        (
            &|trace| trace["hyperNodes"][2]["hyperNodes"][0] = json!("rack-c"),
            "hyperNodes[2].hyperNodes[0]: there is no HyperNode rack-c",
        ),
        (
            &|trace| trace["hyperNodes"][0]["tier"] = json!(-1),
            "hyperNodes[0].tier: must be 0 or more",
        ),
        (
            &|trace| trace["hyperNodes"][0]["hyperNodes"] = json!(["row"]),
            "hyperNodes: cyclic dependency detected",
        ),
        (
            &|trace| trace["jobs"][0]["networkTopology"] = json!({"highestTierName": "rackk"}),
            "jobs[0].networkTopology.highestTierName: there is no tier rackk; the nearest is rack",
        ),
        (
            &|trace| trace["jobs"][0]["networkTopology"] = json!({"mode": "firm"}),
            "jobs[0].networkTopology.mode: firm is not hard or soft",
        ),
    ];
    for (change, wanted) in cases {
        let found = mistakes(change);
        assert!(
            found.len() == 1 && found[0].starts_with(wanted),
            "{wanted}: {found:?}"
        );
    }
    assert_eq!(mistakes(&|_| ()).len(), 0);
}

#[test]
fn s6_201_a_gang_is_let_in_and_starts_on_the_nodes_that_were_freed_for_it() {
    let conf = |actions: &str| {
        format!(
            "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n\
             - plugins:\n  - name: overcommit\n  - name: predicates\n  - name: capacity\n"
        )
    };
    // Volcano lets no job into a full cluster, and evicts all that the other job can spare (S6-198).
    for (actions, compat, evicted) in [
        ("enqueue, allocate, gangpreempt", Compat::EVICTD, 4),
        ("allocate, gangpreempt", Compat::VOLCANO, 7),
    ] {
        let low = job("low", [0, 500], [8, 1, 1]);
        let mut high = job("high", [50, 20], [2, 2, 2]);
        high["priority"] = json!(100);
        // It comes right after, and would take the room.
        let other = job("other", [51, 20], [4, 4, 1]);
        let trace = trace(json!({
            "nodes": [{"name": "node", "count": 2, "allocatable": {"cpu": 4}}],
            "jobs": [low, high, other],
        }));
        let report = played(&trace, &conf(actions), compat);
        let found = (report.finished, report.preempted_pods);
        assert_eq!(found, (3, evicted), "{actions}");
    }
}

/// Allocate did not try an elastic job for which preempt had freed nodes, so that the victims came back and were evicted again.
#[test]
fn an_elastic_job_larger_than_the_cluster_evicts_once() {
    let low = job("low", [0, 100], [4, 4, 4]);
    let mut elastic = job("elastic", [10, 50], [6, 1, 3]);
    elastic["priority"] = json!(10);
    elastic["networkTopology"] = json!({"mode": "soft", "highestTierAllowed": 1});
    let conf = NEAR.replace("enqueue, allocate", "allocate, preempt");
    let report = played(&trace(racks(&[low, elastic])), &conf, Compat::EVICTD);
    assert_eq!((report.finished, report.preempted_pods), (2, 4));
}
