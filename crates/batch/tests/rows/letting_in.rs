//! What is looked at, and who is let in.

use crate::scenario::{Scenario, bound, conf, events_of, short};
use evictd_batch::session::{Objects, Setting, simulate};
use evictd_batch_objects::Compat;
use serde_json::json;

const GANG: &[&str] = &["priority", "gang"];

#[test]
fn s6_087_actions_are_taken_in_their_order() {
    let with = |actions: &str| {
        Scenario::new(&conf(actions, &[GANG]))
            .node("a", "1")
            .job("j", 1, "Pending")
            .waiting("j", 1, "1")
            .run()
    };
    assert_eq!(with("enqueue, allocate").bound.len(), 1);
    // Whoever is let in after room was given out waits for the next session.
    let late = with("allocate, enqueue");
    assert!(late.bound.is_empty());
    assert_eq!(late.phases["default/j"], "Inqueue");
}

#[test]
fn s6_088_jobs_without_a_group_or_a_queue_are_left_out_and_unready_nodes_are_not() {
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let outcome = Scenario::new(&conf("allocate", &[GANG]))
        .class("high", 10)
        .node_with("a", "4", &not_ready)
        .job_with("lost", 1, "Inqueue", &json!({"queue": "nowhere"}))
        .waiting("lost", 1, "1")
        .waiting("groupless", 1, "1")
        .job_with(
            "low",
            1,
            "Inqueue",
            &json!({"priorityClassName": "unknown"}),
        )
        .waiting("low", 1, "1")
        .job_with("high", 1, "Inqueue", &json!({"priorityClassName": "high"}))
        .waiting("high", 1, "1")
        .run();
    assert_eq!(outcome.session_nodes, ["a"]);
    assert_eq!(short(&outcome.session_jobs), ["high", "low"]);
    assert_eq!(short(&outcome.job_order_at_open["q"]), ["high", "low"]);
    assert_eq!(short(&outcome.bound), ["high-work-0", "low-work-0"]);
}

#[test]
fn s6_089_others_only_take_room_and_gated_pods_only_wait() {
    let other = json!({"spec": {"schedulerName": "default-scheduler", "nodeName": "a"}, "status": {"phase": "Running"}});
    let gated = json!({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}});
    let need = json!({"minResources": {"cpu": "2"}});
    let outcome = Scenario::new(&conf("allocate, backfill", &[GANG, &["proportion"]]))
        .node("a", "4")
        .job_with("j", 1, "Inqueue", &need)
        .pod("other", "j", "3", &other)
        .pod("j-work-0", "j", "1", &gated)
        .waiting("free", 1, "1")
        .pod("j-work-1", "j", "1", &json!({}))
        .pod("j-work-2", "j", "1", &json!({}))
        .run();
    // Of four cores three are taken by somebody else, who is no task.
    assert_eq!(short(&outcome.bound), ["j-work-1"]);
    assert!(!outcome.pod_conditions.contains_key("default/j-work-0"));
    // What the gated pod asks for is not reserved.
    let at_open = outcome.queues_at_open.unwrap();
    assert_eq!(
        at_open["q"].inqueue["cpu"].0.to_bits(),
        1000.0_f64.to_bits()
    );
}

#[test]
fn s6_100_one_objection_is_enough_and_the_first_tier_with_an_opinion_decides() {
    // overcommit would let it in; proportion, in the same tier, does not.
    let need = json!({"minResources": {"cpu": "3"}});
    let job = |plugins: &[&[&str]]| {
        let scenario = Scenario::new(&conf("enqueue", plugins))
            .queue("r", &json!({"capability": {"cpu": "2"}}))
            .node("a", "4");
        let mut spec = need.clone();
        spec["queue"] = json!("r");
        scenario.job_with("j", 1, "Pending", &spec).run().phases["default/j"].clone()
    };
    assert_eq!(job(&[&["overcommit", "proportion"]]), "Pending");
    assert_eq!(job(&[&["proportion", "overcommit"]]), "Pending");
    // A permission ends with its tier.
    assert_eq!(job(&[&["overcommit"], &["proportion"]]), "Inqueue");
    // Only plugins that say when a job lacks something make it take room from others.
    let starving = |tiers: &[&[&str]]| {
        Scenario::new(&conf("preempt", tiers))
            .class("high", 10)
            .node("a", "1")
            .job("old", 0, "Running")
            .running("old", 0, &["a"], "1")
            .job_with("new", 1, "Inqueue", &json!({"priorityClassName": "high"}))
            .waiting("new", 1, "1")
            .run()
            .evicted
            .len()
    };
    assert_eq!(starving(&[&["conformance"]]), 0);
    assert_eq!(starving(&[&["conformance"], &["gang"]]), 1);
    assert_eq!(starving(&[&["{name: gang, enableJobStarving: false}"]]), 0);
}

#[test]
fn s6_101_the_order_of_jobs_is_that_of_the_first_plugin_that_tells_them_apart() {
    let order = |tiers: &[&[&str]]| {
        let outcome = Scenario::new(&conf("allocate", tiers))
            .class("high", 10)
            .node("a", "9")
            .job_with("ready", 1, "Running", &json!({"priorityClassName": "high"}))
            .running("ready", 0, &["a"], "1")
            .job("unready", 1, "Inqueue")
            .waiting("unready", 1, "1")
            .run();
        short(&outcome.job_order_at_open["q"]).join(" ")
    };
    assert_eq!(order(&[&["priority", "gang"]]), "ready unready");
    assert_eq!(order(&[&["gang", "priority"]]), "unready ready");
    assert_eq!(order(&[&["drf"]]), "unready ready");
    assert_eq!(order(&[&["nodeorder"]]), "ready unready");
}

#[test]
fn s6_102_a_switch_takes_a_plugin_out_at_one_point_only() {
    let phase = |plugin: &str| {
        let spec = json!({"queue": "r", "minResources": {"cpu": "3"}});
        let outcome = Scenario::new(&conf("enqueue", &[&[plugin]]))
            .queue("r", &json!({"capability": {"cpu": "2"}}))
            .node("a", "4")
            .job_with("j", 1, "Pending", &spec)
            .run();
        assert!(outcome.queues_at_open.is_some());
        outcome.phases["default/j"].clone()
    };
    assert_eq!(phase("proportion"), "Pending");
    assert_eq!(phase("capacity"), "Pending");
    assert_eq!(
        phase("{name: proportion, enableJobEnqueued: false}"),
        "Inqueue"
    );
    assert_eq!(
        phase("{name: proportion, enableQueueOrder: false}"),
        "Pending"
    );
}

#[test]
fn s6_104_jobs_without_a_need_are_let_in_also_where_the_queue_is_closed() {
    let outcome = Scenario::new(&conf("enqueue", &[GANG, &["proportion"]]))
        .queue_with(&json!({"status": {"state": "Closed"}}))
        .node("a", "4")
        .job("free", 1, "Pending")
        .job_with(
            "needy",
            1,
            "Pending",
            &json!({"minResources": {"cpu": "1"}}),
        )
        .job("new", 1, "")
        .run();
    assert_eq!(outcome.phases["default/free"], "Inqueue");
    assert_eq!(outcome.phases["default/needy"], "Pending");
    assert_eq!(outcome.phases["default/new"], "Inqueue");
}

#[test]
fn s6_105_a_little_more_is_let_in_than_there_is_room_for() {
    let phases = |plugin: &str, cpu: &str| {
        let outcome = Scenario::new(&conf("enqueue", &[&[plugin]]))
            .node("a", "10")
            .job("old", 0, "Running")
            .running("old", 0, &["a"], "1")
            .job_with("in", 1, "Inqueue", &json!({"minResources": {"cpu": "5"}}))
            .job_with("new", 1, "Pending", &json!({"minResources": {"cpu": cpu}}))
            .run();
        (
            outcome.phases["default/new"].clone(),
            events_of(&outcome, "new"),
        )
    };
    // Ten cores times 1.2, less one in use, less five promised: six are left.
    assert_eq!(phases("overcommit", "6").0, "Inqueue");
    let (phase, words) = phases("overcommit", "6001m");
    assert_eq!(phase, "Pending");
    assert_eq!(
        words[0],
        "Normal Unschedulable resource in cluster is overused: overused cpu"
    );
    let one = "{name: overcommit, arguments: {overcommit-factor: 1.0}}";
    assert_eq!(phases(one, "5").0, "Pending");
    assert_eq!(phases(one, "4").0, "Inqueue");
    // Less than one counts as the default.
    let half = "{name: overcommit, arguments: {overcommit-factor: 0.5}}";
    assert_eq!(phases(half, "6").0, "Inqueue");
}

#[test]
fn s6_106_without_action_enqueue_every_valid_job_is_considered() {
    let outcome = Scenario::new(&conf("allocate", &[GANG]))
        .node("a", "4")
        .job("j", 1, "Pending")
        .waiting("j", 1, "1")
        .job("few", 2, "Pending")
        .waiting("few", 1, "1")
        .run();
    assert_eq!(short(&outcome.bound), ["j-work-0"]);
    assert_eq!(outcome.phases["default/few"], "Inqueue");
}

#[test]
fn s6_141_a_job_that_names_no_queue_goes_to_the_default_one() {
    let mut scenario = Scenario::new(&conf("allocate", &[GANG]));
    scenario = scenario
        .queue("default", &json!({}))
        .node("a", "4")
        .job_with("j", 1, "Inqueue", &json!({"queue": ""}))
        .waiting("j", 1, "1");
    let outcome = scenario.run();
    assert_eq!(outcome.queue_order_at_open, ["default"]);
    assert_eq!(bound(&outcome, "j-work-0"), Some("a"));
    let setting = Setting {
        default_queue: "q".to_owned(),
        ..Setting::default()
    };
    let (other, _) = simulate(&scenario.objects(), &setting, Compat::VOLCANO).unwrap();
    assert_eq!(other.queue_order_at_open, ["q"]);
}

#[test]
fn a_wrong_configuration_is_an_error_and_an_ignored_part_is_a_warning() {
    let wrong = Objects {
        conf: "actions: dance".to_owned(),
        ..Objects::default()
    };
    assert!(simulate(&wrong, &Setting::default(), Compat::EVICTD).is_err());
    let mut twice = Scenario::new(&conf("allocate", &[&["gnag", "gang"]]))
        .node("a", "1")
        .objects();
    twice.nodes.push(twice.nodes[0].clone());
    let (_, warnings) = simulate(&twice, &Setting::default(), Compat::EVICTD).unwrap();
    assert_eq!(
        warnings,
        [
            "conf:4:12: tiers[0].plugins[0].name: gnag: unknown plugin; it is skipped; the nearest is gang",
            "nodes[1]: a second node a; it is left out"
        ]
    );
}

#[test]
fn inqueue_amounts_count_when_jobs_are_enqueued() {
    let mut scenario = Scenario::new(&conf(
        "enqueue",
        &[&["gang"], &["predicates", "proportion"]],
    ))
    .node("n", "8")
    .queue("one", &json!({}))
    .queue("two", &json!({"weight": 3}));
    for index in 0..6 {
        for queue in ["one", "two"] {
            let spec = json!({"queue": queue, "minResources": {"cpu": "2"}});
            scenario = scenario.job_with(&format!("{queue}-{index}"), 1, "Pending", &spec);
        }
    }
    let outcome = scenario.run_as(Compat::EVICTD);
    let let_in = |queue: &str| {
        let jobs = outcome.phases.iter();
        let jobs = jobs.filter(|(name, phase)| name.contains(queue) && *phase == "Inqueue");
        jobs.count()
    };
    assert_eq!((let_in("one"), let_in("two")), (1, 3));
}

#[test]
fn a_group_or_pod_with_too_many_resources_is_reported_and_others_are_placed() {
    let names = |count: usize| -> serde_json::Map<_, _> {
        let names = (0..count).map(|number| (format!("example.com/r{number}"), json!("1")));
        names.collect()
    };
    let plugins: &[&[&str]] = &[&["gang"], &["overcommit", "proportion"]];
    let many =
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": names(300)}}]}});
    for compat in [Compat::VOLCANO, Compat::EVICTD] {
        let outcome = Scenario::new(&conf("enqueue, allocate, backfill", plugins))
            .node("a", "4")
            .job_with(
                "group",
                1,
                "Pending",
                &json!({"minResources": names(60_000)}),
            )
            .job("pods", 1, "Inqueue")
            .pod("pods-work-0", "pods", "0", &many)
            .job_with("good", 1, "Pending", &json!({"minResources": {"cpu": "1"}}))
            .waiting("good", 1, "1")
            .job("late", 1, "Inqueue")
            .waiting("late", 1, "1")
            .run_as(compat);
        assert_eq!(outcome.phases["default/group"], "Pending");
        let conditions = &outcome.pod_groups["default/group"].conditions;
        let words =
            "spec.minResources: names 60000 different resources; more than 256 are not looked at";
        assert!(
            conditions.iter().any(|own| own.message.contains(words)),
            "{conditions:?}"
        );
        assert_eq!(short(&outcome.bound), ["good-work-0", "late-work-0"]);
        let pods = &outcome.pod_conditions["default/pods-work-0"];
        let words = "spec.containers: names 300 different resources";
        assert!(format!("{pods:?}").contains(words), "{pods:?}");
    }
}
