//! Groups that grow: a driver runs, and its executors, which were made later, wait for room.

use crate::scenario::{Scenario, bound, conf, events_of, evicted};
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

const DRIVER_AND_EXECUTORS: &str = "spark";

/// A driver on node `a`, of which so many executors of one core each wait.
fn grown(conf: &str, cores: &str, executors: usize) -> Scenario {
    let spec = json!({"minTaskMember": {"driver": 1, "executor": 2}});
    let role = |role: &str| json!({"volcano.sh/task-spec": role});
    let driver = json!({
        "metadata": {"annotations": role("driver")},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"},
    });
    let own = Scenario::new(conf)
        .class("high", 10)
        .node("a", cores)
        .job_with(DRIVER_AND_EXECUTORS, 3, "Running", &spec)
        .group_with(&json!({"metadata": {"annotations": {"batch.evictd.dev/in-stages": "true"}}}))
        .pod("spark-driver-0", DRIVER_AND_EXECUTORS, "1", &driver);
    (0..executors).fold(own, |own, index| {
        let with = json!({"metadata": {"annotations": role("executor")}});
        own.pod(
            &format!("spark-executor-{index}"),
            DRIVER_AND_EXECUTORS,
            "1",
            &with,
        )
    })
}

fn gangs() -> String {
    conf("allocate", &[&["priority", "gang"], &["predicates"]])
}

fn phase(scenario: &Scenario, compat: Compat) -> String {
    scenario.run_as(compat).phases["default/spark"].clone()
}

fn only() -> Compat {
    Compat::VOLCANO.with(Difference::StagedGroupRuns)
}

#[test]
fn a_group_that_grew_runs_while_its_next_tasks_wait() {
    // No room for both executors, or they are not even made yet.
    for executors in [2, 0] {
        let scenario = grown(&gangs(), "2", executors);
        assert_eq!(phase(&scenario, Compat::VOLCANO), "Unknown");
        assert_eq!(phase(&scenario, only()), "Running");
        let outcome = scenario.run_as(Compat::EVICTD);
        assert!(outcome.bound.is_empty(), "both or none");
        let condition = &outcome.pod_groups["default/spark"].conditions[0];
        assert_eq!(condition.kind.as_str(), "Unschedulable");
        assert!(events_of(&outcome, "spark")[0].contains("Unschedulable"));
    }
    let scenario = grown(&gangs(), "3", 2);
    let outcome = scenario.run_as(Compat::EVICTD);
    assert_eq!(bound(&outcome, "spark-executor-1"), Some("a"));
}

#[test]
fn a_group_that_lost_pods_of_a_task_is_unknown() {
    let runs = json!({
        "metadata": {"annotations": {"volcano.sh/task-spec": "executor"}},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"},
    });
    let scenario =
        grown(&gangs(), "2", 1).pod("spark-executor-1", DRIVER_AND_EXECUTORS, "1", &runs);
    assert_eq!(phase(&scenario, Compat::EVICTD), "Unknown");
}

#[test]
fn the_rest_of_a_group_that_grew_comes_before_newcomers() {
    let scenario = grown(&gangs(), "3", 2)
        .job("alone", 1, "Inqueue")
        .waiting("alone", 1, "2");
    let outcome = scenario.run_as(Compat::EVICTD);
    assert_eq!(outcome.bound.len(), 2);
    assert!(bound(&outcome, "alone-work-0").is_none());
}

#[test]
fn no_driver_is_evicted_for_its_own_executors_or_for_an_equal_job() {
    let preempt = |first: &str| {
        let tiers: [&[&str]; 3] = [&[first], &["conformance", "gang"], &["predicates"]];
        conf("allocate, preempt", &tiers)
    };
    for first in ["priority", "drf"] {
        let alone = grown(&preempt(first), "2", 2);
        assert_eq!(evicted(&alone.run_as(Compat::EVICTD)), [""; 0]);
        let equal = grown(&preempt(first), "2", 2)
            .job("equal", 1, "Inqueue")
            .waiting("equal", 1, "2");
        assert_eq!(evicted(&equal.run_as(Compat::EVICTD)), [""; 0]);
    }
    // What is more important may take its place.
    let high: Value = json!({"priorityClassName": "high"});
    let higher = grown(&preempt("priority"), "2", 2)
        .job_with("high", 1, "Inqueue", &high)
        .waiting("high", 1, "2");
    let outcome = higher.run_as(Compat::EVICTD);
    assert_eq!(evicted(&outcome), ["spark-driver-0"]);
}

/// A group as Spark's operator makes it: one pod is enough, and the resources are those of the whole application.
fn application(phase: &str, cpu: &str) -> Scenario {
    let conf = conf(
        "enqueue, allocate",
        &[&["gang"], &["predicates", "proportion"]],
    );
    let resources = json!({ "minResources": { "cpu": cpu } });
    let cluster = Scenario::new(&conf).node("a", "5");
    cluster.job_with("spark", 1, phase, &resources)
}

#[test]
fn b11_an_application_of_spark_is_let_in_and_keeps_its_room_for_the_executors() {
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        let new = application("Pending", "4").waiting("spark", 1, "1");
        let outcome = new.run_as(compat);
        assert_eq!(bound(&outcome, "spark-work-0"), Some("a"));
        // The driver runs, and has not created its executors yet.
        for (cpu, phase) in [("4", "Pending"), ("1", "Inqueue")] {
            let runs = application("Running", cpu).running("spark", 0, &["a"], "1");
            let three = json!({ "minResources": { "cpu": "3" } });
            let both = runs.job_with("other", 3, "Pending", &three);
            let outcome = both.waiting("other", 3, "1").run_as(compat);
            let found = &outcome.phases["default/other"];
            assert_eq!(found == "Pending", phase == "Pending", "{cpu}: {found}");
        }
    }
}
