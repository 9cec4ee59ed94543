//! Plugin capacity along a tree of queues, and where ours decides otherwise.

use crate::scenario::{Scenario, bound, conf, events_of, evicted, short};
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

/// One node of 8 cores, and the tree root > a > (a1, a2), root > b > b1.
fn tree(actions: &str, arguments: &str) -> Scenario {
    let capacity = format!("{{name: capacity, enableHierarchy: true, arguments: {{{arguments}}}}}");
    let conf = conf(
        actions,
        &[
            &["priority", "gang", "conformance"],
            &["predicates", &capacity, "nodeorder"],
        ],
    );
    Scenario::new(&conf)
        .node("n", "8")
        .queue("root", &json!({}))
        .queue("a", &json!({"parent": "root"}))
        .queue("b", &json!({"parent": "root"}))
        .queue("a1", &json!({"parent": "a"}))
        .queue("a2", &json!({"parent": "a"}))
        .queue("b1", &json!({"parent": "b"}))
}

fn of(queue: &str) -> Value {
    json!({"queue": queue})
}

fn cpu(queue: &str, cpu: &str) -> Value {
    json!({"queue": queue, "minResources": {"cpu": cpu}})
}

/// Both forms, by name.
const FORMS: [(&str, Compat); 2] = [("evictd", Compat::EVICTD), ("volcano", Compat::VOLCANO)];

#[test]
fn s6_162_no_queue_gets_more_than_the_queues_above_it_may_have() {
    for (form, compat) in FORMS {
        let outcome = tree("enqueue, allocate", "")
            .queue("a", &json!({"parent": "root", "capability": {"cpu": "4"}}))
            .job_with("one", 1, "Inqueue", &of("a1"))
            .waiting("one", 3, "1")
            .job_with("two", 1, "Inqueue", &of("a2"))
            .waiting("two", 3, "1")
            .job_with("three", 1, "Pending", &cpu("a1", "5"))
            .waiting("three", 1, "5")
            .run_as(compat);
        assert_eq!(outcome.binds.len(), 4, "{form}");
        assert_eq!(outcome.phases["default/three"], "Pending", "{form}");
    }
}

#[test]
fn s6_153_a_branch_that_cannot_be_used_stops_no_other_queue() {
    // A lost parent, a cycle, and a job in an inner queue.
    let faults: [(&str, Value, &str); 3] = [
        (
            "lost",
            json!({"parent": "nowhere"}),
            "spec.parent of queue lost: there is no queue nowhere",
        ),
        (
            "own",
            json!({"parent": "own"}),
            "spec.parent of queue own: the parents form a cycle",
        ),
        (
            "a",
            json!({"parent": "root"}),
            "queue a has queues below it (a1, a2), and takes no jobs itself",
        ),
    ];
    for (name, spec, words) in &faults {
        let (name, words) = (*name, *words);
        let scenario = tree("enqueue, allocate", "")
            .queue(name, spec)
            .job_with("good", 1, "Pending", &cpu("b1", "1"))
            .waiting("good", 1, "1")
            .job_with("bad", 1, "Pending", &cpu(name, "1"))
            .waiting("bad", 1, "1");
        let ours = scenario.run_as(Compat::EVICTD);
        assert_eq!(short(&ours.bound), ["good-work-0"], "{name}");
        let told = events_of(&ours, "bad");
        assert!(told[0].contains(words), "{name}: {told:?}");
        // A group without minResources, and one that was enqueued before, are told as well.
        for (phase, group) in [
            ("Pending", of(name)),
            ("Inqueue", of(name)),
            ("Inqueue", cpu(name, "1")),
        ] {
            let scenario = tree("enqueue, allocate", "").queue(name, spec);
            let scenario = scenario
                .job_with("bad", 1, phase, &group)
                .waiting("bad", 1, "1");
            let ours = scenario.run_as(Compat::EVICTD);
            assert_eq!(ours.phases["default/bad"], phase, "{name}");
            let conditions = serde_json::to_string(&ours.pod_groups).unwrap();
            assert!(conditions.contains(words), "{name} {phase}: {conditions}");
        }
        let volcano = scenario.run();
        assert!(volcano.bound.is_empty(), "{name}");
        let whole = scenario.run_as(Compat::EVICTD.without(Difference::UsableBranches));
        assert!(whole.bound.is_empty(), "{name}");
    }
}

#[test]
fn s6_154_a_cycle_of_parents_ends_no_session() {
    for (form, compat) in FORMS {
        let outcome = tree("enqueue, allocate, preempt, reclaim, backfill", "")
            .queue("c", &json!({"parent": "d"}))
            .queue("d", &json!({"parent": "c"}))
            .queue("e", &json!({"parent": "c"}))
            .job_with("running", 1, "Running", &of("e"))
            .running("running", 0, &["n"], "1")
            .job_with("waiting", 1, "Inqueue", &of("e"))
            .waiting("waiting", 2, "1")
            .run_as(compat);
        assert!(outcome.bound.is_empty(), "{form}");
        assert_eq!(outcome.queue_allocated["e"]["cpu"], "1", "{form}");
    }
}

#[test]
fn s6_157_a_capability_of_the_root_limits_only_what_it_names() {
    let memory = |compat: Compat| {
        tree("allocate", "")
            .queue("root", &json!({"capability": {"cpu": "2"}}))
            .job_with("one", 1, "Inqueue", &of("a1"))
            .pod(
                "one-work-0",
                "one",
                "0",
                &json!({"spec": {"containers": [{"name": "c",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}),
            )
            .run_as(compat)
            .bound
            .len()
    };
    assert_eq!(memory(Compat::EVICTD), 1);
    assert_eq!(memory(Compat::VOLCANO), 0);
    assert_eq!(
        memory(Compat::EVICTD.without(Difference::UnnamedRootIsUnlimited)),
        0
    );
}

#[test]
fn s6_161_jobs_below_a_closed_queue_are_not_let_in_and_those_let_in_go_on() {
    let scenario = tree("enqueue, allocate", "")
        .queue("a", &json!({"parent": "root"}))
        .queue_with(&json!({"status": {"state": "Closed"}}))
        .job_with("new", 1, "Pending", &cpu("a1", "1"))
        .waiting("new", 1, "1")
        .job_with("old", 1, "Inqueue", &cpu("a1", "1"))
        .waiting("old", 1, "1");
    let ours = scenario.run_as(Compat::EVICTD);
    assert_eq!(short(&ours.bound), ["old-work-0"]);
    assert!(events_of(&ours, "new")[0].contains("queue a above its queue is not open"));
    assert_eq!(short(&scenario.run().bound), ["new-work-0", "old-work-0"]);
}

/// A queue `b1` below `b` with 8 pods, of which `a1` wants its deserved part.
fn borrowed(arguments: &str, of_b: &Value) -> Scenario {
    tree("allocate, reclaim", arguments)
        .queue("b", of_b)
        .queue("b1", &json!({"parent": "b", "deserved": {"cpu": "2"}}))
        .queue("a1", &json!({"parent": "a", "deserved": {"cpu": "6"}}))
        .job_with("old", 1, "Running", &of("b1"))
        .running("old", 0, &["n"; 8], "1")
        .job_with("new", 1, "Inqueue", &of("a1"))
        .waiting("new", 1, "2")
}

#[test]
fn s6_166_the_guarantees_of_the_queues_above_a_victim_are_kept() {
    let evicts = |guarantee: &str, compat: Compat| {
        let of_b = json!({"parent": "root", "guarantee": {"resource": {"cpu": guarantee}}});
        borrowed("", &of_b).run_as(compat).evicted.len()
    };
    assert_eq!(evicts("6", Compat::EVICTD), 2);
    assert_eq!(evicts("7", Compat::EVICTD), 0);
    let leaf = Compat::EVICTD.without(Difference::AncestorGuarantees);
    assert_eq!(evicts("7", leaf), 2);
}

#[test]
fn s6_167_the_victim_rules_hold_whatever_the_tiers() {
    let evicts = |arguments: &str, deserved: &str, compat: Compat| {
        let of_b = json!({"parent": "root", "deserved": {"cpu": deserved}});
        borrowed(arguments, &of_b).run_as(compat).evicted.len()
    };
    // The queue above the victims holds no more than it deserves.
    assert_eq!(evicts("ancestorReclaimLevel: 1", "9", Compat::EVICTD), 0);
    assert_eq!(evicts("ancestorReclaimLevel: 1", "6", Compat::EVICTD), 2);
    assert_eq!(evicts("", "9", Compat::EVICTD), 2);
    // In Volcano gang and conformance decide in the first tier.
    assert_eq!(evicts("ancestorReclaimLevel: 1", "9", Compat::VOLCANO), 2);
}

#[test]
fn s6_168_siblings_give_room_back_before_cousins() {
    for (form, compat) in FORMS {
        let outcome = tree("allocate, reclaim", "")
            .queue("a1", &json!({"parent": "a", "deserved": {"cpu": "4"}}))
            .queue("a2", &json!({"parent": "a", "deserved": {"cpu": "1"}}))
            .queue("b1", &json!({"parent": "b", "deserved": {"cpu": "1"}}))
            .job_with("cousin", 1, "Running", &of("b1"))
            .running("cousin", 0, &["n"; 5], "1")
            .job_with("sibling", 1, "Running", &of("a2"))
            .running("sibling", 0, &["n"; 3], "1")
            .job_with("new", 1, "Inqueue", &of("a1"))
            .waiting("new", 1, "1")
            .run_as(compat);
        let evicted = evicted(&outcome);
        assert_eq!(evicted.len(), 1, "{form}");
        assert!(evicted[0].starts_with("sibling"), "{form}: {evicted:?}");
    }
}

#[test]
fn s6_155_branches_take_turns_within_a_session() {
    let scenario = tree("allocate", "")
        .queue("a", &json!({"parent": "root", "deserved": {"cpu": "4"}}))
        .queue("b", &json!({"parent": "root", "deserved": {"cpu": "4"}}));
    let scenario = ["a1", "a2", "b1"]
        .into_iter()
        .fold(scenario, |scenario, queue| {
            (0..4).fold(scenario, |scenario, index| {
                let job = format!("{queue}-{index}");
                scenario
                    .job_with(&job, 1, "Inqueue", &of(queue))
                    .waiting(&job, 1, "2")
            })
        });
    let of_b = |compat: Compat| {
        let outcome = scenario.run_as(compat);
        (0..4)
            .filter(|index| bound(&outcome, &format!("b1-{index}-work-0")).is_some())
            .count()
    };
    assert_eq!(of_b(Compat::EVICTD), 2);
    assert_eq!(
        of_b(Compat::EVICTD.without(Difference::InnerSharesFollow)),
        0
    );
}

#[test]
fn a_queue_with_strategy_fifo_lets_no_job_pass_one_that_cannot_start() {
    let scenario = |strategy: &str| {
        tree("enqueue, allocate", "")
            .queue("b1", &json!({"parent": "b", "dequeueStrategy": strategy}))
            .job_with("large", 1, "Inqueue", &cpu("b1", "9"))
            .waiting("large", 1, "9")
            .job_with("small", 1, "Inqueue", &cpu("b1", "1"))
            .waiting("small", 1, "1")
            .job_with("other", 1, "Inqueue", &cpu("a1", "1"))
            .waiting("other", 1, "1")
    };
    let bound = |strategy: &str, compat: Compat| {
        let outcome = scenario(strategy).run_as(compat);
        short(&outcome.bound).join(" ")
    };
    assert_eq!(bound("fifo", Compat::EVICTD), "other-work-0");
    assert_eq!(
        bound("traverse", Compat::EVICTD),
        "other-work-0 small-work-0"
    );
    assert_eq!(bound("fifo", Compat::VOLCANO), "other-work-0 small-work-0");
}
