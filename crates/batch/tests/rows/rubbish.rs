//! Whatever stands in the objects, a session ends, and says what is wrong where somebody looks.

use crate::scenario::{Scenario, conf};
use evictd_batch::session::{Objects, Setting, simulate};
use evictd_batch_objects::Compat;
use serde_json::json;

const ALL: &str = "enqueue, allocate, preempt, reclaim, backfill";

fn everything() -> String {
    conf(
        ALL,
        &[
            &["priority", "gang", "conformance"],
            &[
                "overcommit",
                "drf",
                "predicates",
                "proportion",
                "nodeorder",
                "binpack",
            ],
        ],
    )
}

#[test]
fn a_pod_that_cannot_be_read_has_a_condition_with_the_reason() {
    let bad = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Rubbish"}]}}]}}}});
    let outcome = Scenario::new(&everything())
        .node("a", "4")
        .job("j", 1, "Inqueue")
        .pod("j-work-0", "j", "1", &bad)
        .run();
    let told = &outcome.pod_conditions["default/j-work-0"].message;
    assert!(told.contains("Rubbish"), "{told}");
}

#[test]
fn a_session_ends_with_extreme_values_in_its_objects() {
    let huge = "9223372036854775807";
    let mut scenario = Scenario::new(&everything());
    for (index, weight) in [i32::MIN, -1, 0, i32::MAX].into_iter().enumerate() {
        let queue = format!("q{index}");
        let parent = format!("q{}", (index + 1) % 4);
        let spec = json!({"weight": weight, "parent": parent, "priority": weight, "capability": {"cpu": huge, "memory": "-1"},
            "guarantee": {"resource": {"cpu": "-5"}}, "deserved": {"memory": huge}});
        scenario = scenario.queue(&queue, &spec);
    }
    scenario = scenario.queue("root", &json!({}));
    for (index, min) in [i32::MIN, -1, 0, i32::MAX].into_iter().enumerate() {
        let spec = json!({"queue": format!("q{index}"), "minResources": {"cpu": huge, "x/y": "-1", "count/pods": "1"},
            "minTaskMember": {"work": i32::MAX, "other": i32::MAX}});
        let job = format!("j{index}");
        scenario = scenario
            .job_with(&job, min, "Inqueue", &spec)
            .pod(
                &format!("{job}-work-99999999999999999999"),
                &job,
                huge,
                &json!({}),
            )
            .pod(&format!("{job}-0"), &job, "-1", &json!({}))
            .pod(
                &format!("{job}-nowhere"),
                &job,
                "1",
                &json!({"spec": {"nodeName": "gone"}, "status": {"phase": "Running"}}),
            )
            .pod(
                &format!("{job}-odd"),
                &job,
                "1",
                &json!({"status": {"phase": "Odd"}}),
            );
    }
    let scenario = scenario.node("a", huge).node("b", "-3").node_with(
        "c",
        "1",
        &json!({"status": {"allocatable": {"pods": "-1"}}}),
    );
    for compat in [Compat::VOLCANO, Compat::EVICTD] {
        let outcome = scenario.run_as(compat);
        assert_eq!(outcome.session_jobs.len(), 4);
    }
}

#[test]
fn a_session_without_objects_ends() {
    let objects = Objects::default();
    let (outcome, warnings) = simulate(&objects, &Setting::default(), Compat::EVICTD).unwrap();
    assert!(outcome.session_jobs.is_empty() && outcome.events.is_empty() && warnings.is_empty());
}

#[test]
fn a_configuration_may_name_a_plugin_twice_or_none() {
    for tiers in [
        &[][..],
        &[&[][..]][..],
        &[
            &["gang", "gang", "drf", "proportion"][..],
            &["drf", "proportion", "capacity"][..],
        ][..],
    ] {
        let outcome = Scenario::new(&conf(ALL, tiers))
            .node("a", "4")
            .job("j", 1, "Inqueue")
            .waiting("j", 1, "1")
            .run();
        assert_eq!(outcome.bound.len(), 1, "{tiers:?}");
    }
}
