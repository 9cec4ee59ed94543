//! Who has to go for others.

use crate::scenario::{Scenario, conf, events_of, evicted, short};
use evictd_batch::session::EvictionKind;
use evictd_batch_objects::Compat;
use serde_json::{Value, json};

const HIGH: &str = "high";

fn high(queue: &str) -> Value {
    json!({"priorityClassName": HIGH, "queue": queue})
}

/// One node, full of two pods of a job that could spare both.
fn full(conf_of: &str) -> Scenario {
    Scenario::new(conf_of)
        .class(HIGH, 10)
        .node("a", "2")
        .job("old", 0, "Running")
        .running("old", 0, &["a", "a"], "1")
}

fn preempt() -> String {
    conf(
        "allocate, preempt",
        &[
            &["priority", "gang", "conformance"],
            &["predicates", "nodeorder"],
        ],
    )
}

/// Reclaim by shares alone.
fn reclaim() -> String {
    let first = ["conformance", "{name: proportion, enablePreemptive: false}"];
    conf(
        "allocate, reclaim",
        &[
            &first,
            &["{name: gang, enableReclaimable: false}", "predicates"],
        ],
    )
}

#[test]
fn s6_099_a_tier_without_victims_leaves_the_choice_to_the_next() {
    let granted = |tiers: &[&[&str]]| {
        let mut all = tiers.to_vec();
        all.push(&["predicates"]);
        let outcome = Scenario::new(&conf("allocate, preempt", &all))
            .class(HIGH, 10)
            .node("a", "2")
            // Of lower priority, and its gang can spare nobody.
            .job("low", 1, "Running")
            .running("low", 0, &["a"], "1")
            // Of equal priority, and its gang can spare all.
            .job_with("equal", 0, "Running", &high("q"))
            .running("equal", 0, &["a"], "1")
            .job_with("new", 1, "Inqueue", &high("q"))
            .waiting("new", 1, "2")
            .run();
        evicted(&outcome).len()
    };
    // Each grants one of them, and nobody is granted by both.
    assert_eq!(granted(&[&["priority", "gang"]]), 0);
    // So the third starts anew with its own answer, and both go.
    assert_eq!(granted(&[&["priority", "gang", "conformance"]]), 2);
    // Or the next tier does.
    assert_eq!(granted(&[&["priority", "gang"], &["conformance"]]), 2);
    assert_eq!(granted(&[&["priority"], &["conformance"]]), 0);
}

#[test]
fn s6_112_only_jobs_that_were_let_in_and_lack_something_take_room() {
    let outcome = |phase: &str, min: i32| {
        full(&preempt())
            .job_with("new", min, phase, &high("q"))
            .waiting("new", 1, "1")
            .run()
    };
    assert_eq!(evicted(&outcome("Inqueue", 1)).len(), 1);
    assert!(
        evicted(&outcome("Inqueue", 2)).is_empty(),
        "it is not valid"
    );
    let mut near = high("q");
    near["networkTopology"] = json!({"mode": "soft"});
    let near = full(&preempt())
        .job_with("new", 1, "Inqueue", &near)
        .waiting("new", 1, "1");
    assert!(
        evicted(&near.run()).is_empty(),
        "its pods have to be near to each other"
    );
    // Of one that has enough the plugin priority says that it lacks something, but gang does not.
    let both = full(&preempt())
        .job_with("new", 0, "Inqueue", &high("q"))
        .waiting("new", 1, "1");
    assert!(evicted(&both.run()).is_empty());
    let priority = conf("preempt", &[&["priority"], &["gang", "predicates"]]);
    let one = full(&priority)
        .job_with("new", 0, "Inqueue", &high("q"))
        .waiting("new", 1, "1");
    assert_eq!(evicted(&one.run()).len(), 1);
}

#[test]
fn s6_113_jobs_take_room_from_others_of_their_queue_if_they_have_enough_then() {
    let other_queue = full(&preempt())
        .queue("r", &json!({}))
        .job_with("new", 1, "Inqueue", &high("r"))
        .waiting("new", 1, "1")
        .run();
    assert!(evicted(&other_queue).is_empty());
    let too_many = full(&preempt())
        .job_with("new", 3, "Inqueue", &high("q"))
        .waiting("new", 3, "1")
        .run();
    assert!(evicted(&too_many).is_empty() && too_many.pipelined.is_empty());
    let enough = full(&preempt())
        .job_with("new", 2, "Inqueue", &high("q"))
        .waiting("new", 2, "1")
        .run();
    assert_eq!(evicted(&enough).len(), 2);
    assert_eq!(short(enough.pipelined.keys()), ["new-work-0", "new-work-1"]);
}

#[test]
fn s6_114_tasks_take_room_from_others_of_their_job() {
    let priority = |value: i32| json!({"spec": {"priority": value}});
    let running = |value: i32| json!({"spec": {"priority": value, "nodeName": "a"}, "status": {"phase": "Running"}});
    let outcome = Scenario::new(&conf(
        "allocate, preempt",
        &[&["priority"], &["predicates"]],
    ))
    .node("a", "2")
    .job("j", 0, "Running")
    .pod("j-work-0", "j", "1", &running(1))
    .pod("j-work-1", "j", "1", &running(9))
    .pod("j-work-2", "j", "1", &priority(5))
    .pod("j-work-3", "j", "1", &priority(4))
    .run();
    assert_eq!(evicted(&outcome), ["j-work-0"]);
    assert_eq!(short(outcome.pipelined.keys()), ["j-work-2"]);
}

#[test]
fn s6_115_the_last_of_the_order_go_first_and_no_more_than_needed() {
    let scenario = |cpu: &str| {
        Scenario::new(&preempt())
            .class(HIGH, 10)
            .class("mid", 5)
            .node("a", "4")
            .job("low", 0, "Running")
            .running("low", 0, &["a", "a"], "1")
            .job_with("mid", 0, "Running", &json!({"priorityClassName": "mid"}))
            .running("mid", 0, &["a", "a"], "1")
            .job_with("new", 1, "Inqueue", &high("q"))
            .waiting("new", 1, cpu)
            .run()
    };
    assert_eq!(evicted(&scenario("1")), ["low-work-1"]);
    assert_eq!(
        evicted(&scenario("3")),
        ["low-work-0", "low-work-1", "mid-work-1"]
    );
    // Where room is being freed already nobody has to go.
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    let freed = Scenario::new(&conf("preempt", &[&["priority", "gang"], &["predicates"]]))
        .class(HIGH, 10)
        .node("a", "1")
        .job("old", 0, "Running")
        .pod("old-work-0", "old", "1", &going)
        .job_with("new", 1, "Inqueue", &high("q"))
        .waiting("new", 1, "1")
        .run();
    assert!(evicted(&freed).is_empty());
    assert_eq!(short(freed.pipelined.keys()), ["new-work-0"]);
}

#[test]
fn s6_116_pods_that_say_so_stay_and_pods_that_never_preempt_wait() {
    let victims = |old: Value, new: Value| {
        let mut old = old;
        old["spec"] = json!({"nodeName": "a"});
        old["status"] = json!({"phase": "Running"});
        let outcome = Scenario::new(&preempt())
            .class(HIGH, 10)
            .node("a", "1")
            .job("old", 0, "Running")
            .pod("old-work-0", "old", "1", &old)
            .job_with("new", 1, "Inqueue", &high("q"))
            .pod("new-work-0", "new", "1", &new)
            .run();
        evicted(&outcome).len()
    };
    let preemptable =
        |place: &str, value: &str| json!({"metadata": {place: {"volcano.sh/preemptable": value}}});
    assert_eq!(victims(json!({}), json!({})), 1);
    assert_eq!(victims(preemptable("annotations", "false"), json!({})), 0);
    assert_eq!(victims(preemptable("annotations", "rubbish"), json!({})), 0);
    assert_eq!(victims(preemptable("labels", "false"), json!({})), 0);
    let mut both = preemptable("labels", "false");
    both["metadata"]["annotations"] = json!({"volcano.sh/preemptable": "true"});
    assert_eq!(victims(both, json!({})), 1, "the annotation comes first");
    assert_eq!(
        victims(json!({}), json!({"spec": {"preemptionPolicy": "Never"}})),
        0
    );
}

#[test]
fn s6_116_no_pod_is_evicted_for_a_task_whose_nominated_node_is_being_freed() {
    let victims = |nominated: &str| {
        let new = json!({"spec": {"priority": 5}, "status": {"nominatedNodeName": nominated}});
        let outcome = full(&preempt())
            .job_with("new", 1, "Inqueue", &high("q"))
            .pod("new-work-0", "new", "1", &new)
            .run();
        evicted(&outcome).len()
    };
    assert_eq!(victims(""), 1);
    // As far as filters know, its node would take it; and a node that is gone says nothing at all.
    assert_eq!(victims("a"), 0);
    assert_eq!(victims("gone"), 0);
}

#[test]
fn s6_117_a_queue_takes_back_from_others_that_may_be_asked() {
    let outcome = |reclaimable: bool| {
        let scenario = Scenario::new(&reclaim()).queue("r", &json!({}));
        let scenario = scenario.queue("s", &json!({"reclaimable": reclaimable}));
        scenario
            .node("a", "2")
            .job_with("old", 0, "Running", &json!({"queue": "s"}))
            .running("old", 0, &["a", "a"], "1")
            .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
            .waiting("new", 1, "1")
            .run()
    };
    assert_eq!(evicted(&outcome(true)).len(), 1);
    assert!(evicted(&outcome(false)).is_empty());
}

#[test]
fn s6_118_reclaim_takes_what_is_free_into_account_and_is_all_or_nothing() {
    let scenario = |min: i32, count: usize| {
        Scenario::new(&reclaim())
            .queue("r", &json!({}))
            .node("a", "5")
            .job("old", 0, "Running")
            .running("old", 0, &["a", "a", "a", "a"], "1")
            .job_with("new", min, "Inqueue", &json!({"queue": "r"}))
            .waiting("new", count, "2")
            .run()
    };
    // One core is free, so that one has to go and not two.
    let one = scenario(1, 1);
    assert_eq!(evicted(&one).len(), 1);
    assert_eq!(short(one.pipelined.keys()), ["new-work-0"]);
    // Three do not fit into what the queue deserves.
    let three = scenario(3, 3);
    assert!(evicted(&three).is_empty() && three.pipelined.is_empty());
}

#[test]
fn s6_119_the_group_has_an_event_for_each_evicted_pod() {
    let outcome = full(&preempt())
        .job_with("new", 2, "Inqueue", &high("q"))
        .waiting("new", 2, "1")
        .run();
    assert_eq!(
        events_of(&outcome, "old"),
        [
            "Normal Evict preempt",
            "Normal Evict preempt",
            "Normal Scheduled pod group is ready"
        ]
    );
    assert!(
        outcome
            .evicted
            .iter()
            .all(|own| own.reason == EvictionKind::Preempt)
    );
    assert_eq!(outcome.pod_groups["default/old"].tasks["Releasing"], 2);
}

#[test]
fn s6_122_a_gang_gives_only_what_it_can_spare() {
    let conf_of = conf("allocate, preempt", &[&["gang"], &["predicates"]]);
    let outcome = |min: i32| {
        Scenario::new(&conf_of)
            .node("a", "3")
            .job("old", min, "Running")
            .running("old", 0, &["a", "a", "a"], "1")
            .job("new", 2, "Inqueue")
            .waiting("new", 2, "1")
            .run()
    };
    assert_eq!(evicted(&outcome(1)).len(), 2);
    assert!(evicted(&outcome(2)).is_empty());
}

#[test]
fn s6_124_priorities_of_jobs_and_of_tasks() {
    let outcome = Scenario::new(&conf("allocate", &[&["priority"]]))
        .class("one", 1)
        .node("a", "1")
        .job_with("j", 0, "Inqueue", &json!({"priorityClassName": "one"}))
        .pod("j-work-0", "j", "1", &json!({}))
        .pod("j-work-1", "j", "1", &json!({"spec": {"priority": 5}}))
        .pod(
            "j-work-2",
            "j",
            "1",
            &json!({"metadata": {"annotations": {"volcano.sh/task-priority": "7"}}}),
        )
        .job("none", 0, "Inqueue")
        .run();
    assert_eq!(short(&outcome.bound), ["j-work-2"]);
    assert_eq!(short(&outcome.job_order_at_open["q"]), ["j", "none"]);
}

#[test]
fn s6_125_critical_pods_are_not_evicted() {
    let outcome = Scenario::new(&conf(
        "allocate, preempt",
        &[&["gang", "conformance"], &["predicates"]],
    ))
    .node("a", "2")
    .job("old", 0, "Running")
    .pod(
        "old-work-0",
        "old",
        "1",
        &json!({"spec": {"nodeName": "a", "priorityClassName": "system-node-critical"},
            "status": {"phase": "Running"}}),
    )
    .pod(
        "old-work-1",
        "old",
        "1",
        &json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}}),
    )
    .job("new", 1, "Inqueue")
    .waiting("new", 1, "1")
    .run();
    assert_eq!(evicted(&outcome), ["old-work-1"]);
}

#[test]
fn s6_126_jobs_take_from_those_that_hold_more() {
    let conf_of = conf(
        "allocate, preempt",
        &[
            &["drf"],
            &["{name: gang, enablePreemptable: false}", "predicates"],
        ],
    );
    let scenario = |nodes: &[&str]| {
        Scenario::new(&conf_of)
            .node("a", "4")
            .job("old", 0, "Running")
            .running("old", 0, nodes, "1")
            .job("new", 1, "Inqueue")
            .waiting("new", 1, "2")
            .run()
    };
    let all = scenario(&["a", "a", "a", "a"]);
    let shares = all.job_shares_at_open.as_ref().unwrap();
    let old = &shares["default/old"];
    assert_eq!(
        (old.dominant_resource.as_str(), old.share.to_bits()),
        ("cpu", 1.0_f64.to_bits())
    );
    // With two cores the new one holds as much as the old one would keep.
    assert_eq!(evicted(&all).len(), 2);
    let equal = Scenario::new(&conf_of)
        .node("a", "3")
        .job("old", 0, "Running")
        .running("old", 0, &["a", "a", "a"], "1")
        .job("new", 1, "Inqueue")
        .waiting("new", 1, "2")
        .run();
    assert!(
        evicted(&equal).is_empty(),
        "it would hold more than the old one"
    );
}

#[test]
fn s6_127_namespaces_can_be_compared_before_jobs() {
    let order = |drf: &str| {
        let outcome = Scenario::new(&conf("allocate", &[&[drf]]))
            .node("a", "9")
            .job("large", 0, "Running")
            .running("large", 0, &["a", "a"], "1")
            .job("small", 0, "Inqueue")
            .in_namespace("other")
            .job("middle", 0, "Running")
            .running("middle", 0, &["a"], "1")
            .run();
        outcome.job_order_at_open["q"].join(" ")
    };
    assert_eq!(order("drf"), "default/small other/middle default/large");
    let namespaces = "{name: drf, enableNamespaceOrder: true}";
    assert_eq!(
        order(namespaces),
        "other/middle default/small default/large"
    );
}

/// After a crash only some of the victims of a gang may be going.
#[test]
fn a_gang_with_nominated_nodes_for_a_part_preempts_for_the_rest_at_once() {
    let nominated = json!({"status": {"nominatedNodeName": "a"}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    let scenario = Scenario::new(&preempt())
        .node("a", "1")
        .node("b", "1")
        .class("high", 10)
        .job("low", 0, "Running")
        .pod("low-work-0", "low", "1", &going)
        .running("low", 1, &["b"], "1")
        .job_with("high", 2, "Inqueue", &json!({"priorityClassName": "high"}))
        .pod("high-work-0", "high", "1", &nominated)
        .pod("high-work-1", "high", "1", &json!({}));
    assert_eq!(evicted(&scenario.run_as(Compat::EVICTD)), ["low-work-1"]);
    // With Volcano nobody goes until the first has gone, and its place may be another one's then.
    assert!(evicted(&scenario.run_as(Compat::VOLCANO)).is_empty());
}
