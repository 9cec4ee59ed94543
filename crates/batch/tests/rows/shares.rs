//! What queues hold and deserve.

use crate::scenario::{Scenario, conf, events_of, evicted, short};
use evictd_batch::session::{Outcome, QueueOutcome};
use serde_json::{Value, json};

fn proportion() -> String {
    conf(
        "enqueue, allocate",
        &[&["gang"], &["proportion", "predicates"]],
    )
}

fn at_open<'o>(outcome: &'o Outcome, queue: &str) -> &'o QueueOutcome {
    &outcome.queues_at_open.as_ref().unwrap()[queue]
}

/// Whole cores that a queue deserves.
fn deserved(outcome: &Outcome, queue: &str) -> f64 {
    at_open(outcome, queue).deserved.as_ref().unwrap()["cpu"].0 / 1000.0
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn s6_128_queues_are_compared_along_their_paths() {
    let path = |path: &str, weights: &str| json!({"metadata": {"annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}}});
    let order = |weights: &str| {
        let outcome = Scenario::new(&conf(
            "allocate",
            &[&["{name: drf, enableHierarchy: true}"], &["gang"]],
        ))
        .queue("one", &json!({}))
        .queue_with(&path("root/sci/one", &format!("1/{weights}/1")))
        .queue("two", &json!({}))
        .queue_with(&path("root/eng/two", "1/1/1"))
        .node("a", "10")
        .job_with("a", 0, "Running", &json!({"queue": "one"}))
        .running("a", 0, &["a", "a", "a"], "1")
        .waiting("a-more", 0, "1")
        .pod("a-work-9", "a", "1", &json!({}))
        .job_with("b", 0, "Running", &json!({"queue": "two"}))
        .running("b", 0, &["a", "a"], "1")
        .pod("b-work-9", "b", "1", &json!({}))
        .run();
        outcome.queue_order_at_open.join(" ")
    };
    // Three cores against two; with twice the weight one and a half against two.
    assert_eq!(order("1"), "two one");
    assert_eq!(order("2"), "one two");
}

#[test]
fn s6_129_an_unwanted_share_is_divided_among_other_queues() {
    let outcome = Scenario::new(&proportion())
        .queue("r", &json!({"weight": 2}))
        .queue("empty", &json!({"weight": 9}))
        .node("a", "9")
        .job("j", 0, "Inqueue")
        .waiting("j", 9, "1")
        .job_with("k", 0, "Inqueue", &json!({"queue": "r"}))
        .waiting("k", 4, "1")
        .run();
    assert!(near(deserved(&outcome, "q"), 5.0));
    assert!(near(deserved(&outcome, "r"), 4.0));
    assert!(!outcome.queues_at_open.unwrap().contains_key("empty"));
}

#[test]
fn s6_130_guarantees_of_others_and_the_own_capability_bound_a_queue() {
    let guarantee = json!({"guarantee": {"resource": {"cpu": "3"}}});
    let outcome = Scenario::new(&proportion())
        .queue("r", &guarantee)
        .queue("s", &json!({"capability": {"cpu": "2"}}))
        .node("a", "8")
        .job("j", 0, "Inqueue")
        .job_with("k", 0, "Inqueue", &json!({"queue": "r"}))
        .job_with("l", 0, "Inqueue", &json!({"queue": "s"}))
        .run();
    let most = |queue: &str| at_open(&outcome, queue).real_capability.as_ref().unwrap()["cpu"].0;
    assert!(near(most("q"), 5000.0) && near(most("r"), 8000.0) && near(most("s"), 2000.0));
    assert!(
        near(deserved(&outcome, "r"), 3.0),
        "what is guaranteed is deserved"
    );
}

#[test]
fn s6_131_the_queue_with_the_smaller_share_comes_first_but_priority_before_it() {
    let outcome = |spec: &Value| {
        Scenario::new(&proportion())
            .queue("r", spec)
            .node("a", "4")
            .job("j", 0, "Running")
            .waiting("j", 3, "1")
            .job_with("k", 0, "Running", &json!({"queue": "r"}))
            .running("k", 0, &["a"], "1")
            .pod("k-work-9", "k", "3", &json!({}))
            .run()
    };
    let plain = outcome(&json!({}));
    // Of two cores one is held, of four pods one; the larger part counts.
    assert!(near(at_open(&plain, "r").share, 0.5));
    assert_eq!(plain.queue_order_at_open, ["q", "r"]);
    assert_eq!(
        outcome(&json!({"priority": 1})).queue_order_at_open,
        ["r", "q"]
    );
}

#[test]
fn s6_132_a_queue_that_has_all_it_deserves_gets_nothing_more() {
    let outcome = Scenario::new(&proportion())
        .queue("r", &json!({}))
        .node("a", "4")
        .node("b", "4")
        .job("j", 0, "Running")
        .running("j", 0, &["a", "a", "a", "a"], "1")
        .pod("j-work-9", "j", "1", &json!({}))
        .job_with("k", 4, "Inqueue", &json!({"queue": "r"}))
        .waiting("k", 4, "1")
        .run();
    assert_eq!(short(&outcome.bound).len(), 4);
    assert!(short(&outcome.bound).iter().all(|pod| pod.starts_with('k')));
}

#[test]
fn s6_133_only_queues_above_their_share_give() {
    let first = ["{name: proportion, enablePreemptive: false}"];
    let conf_of = conf(
        "reclaim",
        &[
            &first,
            &["{name: gang, enableReclaimable: false}", "predicates"],
        ],
    );
    let outcome = |held: usize, wanted: &str| {
        let nodes = vec!["a"; held];
        Scenario::new(&conf_of)
            .queue("r", &json!({}))
            .node("a", "4")
            .job("old", 0, "Running")
            .running("old", 0, &nodes, "1")
            .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
            .waiting("new", 1, wanted)
            .run()
    };
    // Two of four cores are not more than the share.
    assert!(evicted(&outcome(2, "3")).is_empty());
    // Who holds four gives two, and no more than that.
    assert!(near(deserved(&outcome(4, "2"), "q"), 2.0));
    assert_eq!(evicted(&outcome(4, "2")).len(), 2);
    assert!(evicted(&outcome(4, "3")).is_empty());
}

#[test]
fn s6_134_a_job_is_let_in_while_its_queue_has_room_for_its_need() {
    let outcome = |cpu: &str| {
        Scenario::new(&proportion())
            .queue("r", &json!({"capability": {"cpu": "4"}}))
            .node("a", "9")
            // One core is needed of the two that are held.
            .job_with(
                "old",
                0,
                "Running",
                &json!({"queue": "r", "minResources": {"cpu": "1"}}),
            )
            .running("old", 0, &["a", "a"], "1")
            .job_with(
                "in",
                9,
                "Inqueue",
                &json!({"queue": "r", "minResources": {"cpu": "1"}}),
            )
            .job_with(
                "new",
                9,
                "Pending",
                &json!({"queue": "r", "minResources": {"cpu": cpu}}),
            )
            .run()
    };
    assert_eq!(outcome("2").phases["default/new"], "Inqueue");
    let refused = outcome("2001m");
    assert_eq!(refused.phases["default/new"], "Pending");
    assert_eq!(
        events_of(&refused, "new")[0],
        "Normal Unschedulable queue resource quota insufficient: insufficient cpu"
    );
}

fn capacity() -> String {
    let gang = "{name: gang, enableReclaimable: false}";
    conf(
        "enqueue, allocate, reclaim",
        &[&["priority", gang], &["capacity", "predicates"]],
    )
}

#[test]
fn s6_150_with_capacity_queues_deserve_what_they_say() {
    let outcome = Scenario::new(&capacity())
        .queue(
            "r",
            &json!({"deserved": {"cpu": "2"}, "capability": {"cpu": "3"}}),
        )
        .node("a", "8")
        .job("j", 0, "Inqueue")
        .waiting("j", 2, "1")
        .job_with("k", 0, "Running", &json!({"queue": "r"}))
        .running("k", 0, &["a", "a"], "1")
        .waiting("k-more", 0, "1")
        .pod("k-work-8", "k", "1", &json!({}))
        .pod("k-work-9", "k", "1", &json!({}))
        .run();
    // Both have a share of one; the queue that deserves something comes first.
    assert!(near(at_open(&outcome, "q").share, 1.0) && near(at_open(&outcome, "r").share, 1.0));
    assert_eq!(outcome.queue_order_at_open, ["r", "q"]);
    // More than it deserves is given out, but not more than it may have.
    assert_eq!(short(&outcome.bound), ["j-work-0", "j-work-1", "k-work-8"]);
}

#[test]
fn s6_151_with_capacity_a_queue_below_what_it_deserves_takes_from_one_above() {
    let outcome = |theirs: &Value, cpu: &str| {
        Scenario::new(&capacity())
            .queue("r", &json!({"deserved": {"cpu": "2"}}))
            .queue("s", theirs)
            .node("a", "4")
            .job_with("old", 0, "Running", &json!({"queue": "s"}))
            .running("old", 0, &["a", "a", "a", "a"], "1")
            .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
            .waiting("new", 1, cpu)
            .run()
    };
    let two = json!({"deserved": {"cpu": "2"}});
    assert_eq!(evicted(&outcome(&two, "2")).len(), 2);
    assert!(
        evicted(&outcome(&two, "3")).is_empty(),
        "more than the queue deserves"
    );
    assert!(evicted(&outcome(&json!({"deserved": {"cpu": "4"}}), "1")).is_empty());
    // Who deserves nothing of what is asked gives all.
    assert_eq!(
        evicted(&outcome(&json!({"deserved": {"memory": "1Gi"}}), "2")).len(),
        2
    );
    // What is guaranteed stays.
    let kept = json!({"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "3"}}});
    assert!(evicted(&outcome(&kept, "2")).is_empty());
}
