//! A queue gets its deserved share back, in any order of actions, and the condition of a refused job has the reason.

use crate::scenario::{Scenario, conf, evicted, short};
use evictd_batch::session::Outcome;
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

fn with_shares(actions: &str, shares: &str) -> String {
    conf(
        actions,
        &[
            &["priority", "gang", "conformance"],
            &["drf", "predicates", shares, "nodeorder"],
        ],
    )
}

fn capacity(actions: &str) -> String {
    conf(
        actions,
        &[
            &["priority", "gang", "conformance"],
            &["predicates", "capacity", "nodeorder"],
        ],
    )
}

/// A pod's containers with these requests.
fn asks(requests: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
}

/// The message of a group's condition Unschedulable.
fn why(outcome: &Outcome, job: &str) -> String {
    let conditions = &outcome.pod_groups[&format!("default/{job}")].conditions;
    let mut conditions = conditions
        .iter()
        .filter(|condition| condition.kind.as_str() == "Unschedulable");
    let condition = conditions.next().unwrap();
    assert!(!condition.reason.is_empty());
    condition.message.clone()
}

#[test]
fn no_order_of_actions_stalls_a_job_that_fits() {
    let orders = [
        "enqueue, preempt, allocate, backfill",
        "enqueue, reclaim, allocate, backfill",
        "reclaim, preempt, allocate",
        "preempt, reclaim, allocate, backfill",
    ];
    let mut stalled = 0;
    for (actions, shares) in orders
        .into_iter()
        .flat_map(|actions| ["proportion", "capacity"].map(|shares| (actions, shares)))
    {
        let scenario = Scenario::new(&with_shares(actions, shares))
            .node("n", "8")
            .queue("other", &json!({}))
            .job_with("runs", 1, "Running", &json!({"queue": "other"}))
            .running("runs", 0, &["n"], "1")
            .job("hello", 2, "Pending")
            .waiting("hello", 2, "1");
        let outcome = scenario.run_as(Compat::EVICTD);
        let bound = short(&outcome.bound);
        assert_eq!(
            bound,
            ["hello-work-0", "hello-work-1"],
            "{actions} {shares}"
        );
        let holds = scenario.run_as(Compat::EVICTD.without(Difference::LeaveToAllocate));
        stalled += usize::from(holds.bound.is_empty());
    }
    assert!(stalled > 0);
}

/// Some pods may be evicted for it, and none has to.
#[test]
fn no_action_for_gangs_stalls_a_job_that_fits() {
    for actions in ["gangreclaim, allocate", "gangpreempt, allocate"] {
        let of =
            |queue: &str, priority: &str| json!({"queue": queue, "priorityClassName": priority});
        let scenario = Scenario::new(&capacity(actions))
            .node("n", "8")
            .class("high", 10)
            .queue("owner", &json!({"deserved": {"cpu": "4"}}))
            .queue("other", &json!({"deserved": {"cpu": "1"}}))
            .job_with("runs", 1, "Running", &of("other", ""))
            .running("runs", 0, &["n", "n"], "1")
            .job_with("low", 1, "Running", &of("owner", ""))
            .running("low", 0, &["n"], "1")
            .job_with("hello", 2, "Inqueue", &of("owner", "high"))
            .waiting("hello", 2, "1");
        let outcome = scenario.run_as(Compat::EVICTD);
        let bound = short(&outcome.bound);
        assert_eq!(bound, ["hello-work-0", "hello-work-1"], "{actions}");
        assert!(evicted(&outcome).is_empty(), "{actions}");
        let holds = scenario.run_as(Compat::EVICTD.without(Difference::LeaveToAllocate));
        assert!(holds.bound.is_empty(), "{actions}");
    }
}

/// A node of 10 GPUs, of which a queue holds 8 and deserves 4. Another one deserves 6 and asks for as many as it has
/// pods of one.
fn gpus(deserved: [Value; 2]) -> Scenario {
    let [lender, owner] = deserved;
    let gpu = json!({"cpu": "5", "memory": "1Gi", "nvidia.com/gpu": "1"});
    let node = json!({"status": {"allocatable": {"nvidia.com/gpu": "10"}}});
    let mut scenario = Scenario::new(&capacity("enqueue, allocate, preempt, reclaim, backfill"))
        .node_with("n", "50", &node)
        .queue("lender", &json!({"deserved": lender}))
        .queue("owner", &json!({"deserved": owner}))
        .job_with("runs", 1, "Running", &json!({"queue": "lender"}));
    for index in 0..10 {
        let mut with = asks(&gpu);
        with["spec"]["nodeName"] = json!("n");
        with["status"] = json!({"phase": "Running"});
        scenario = scenario.pod(&format!("runs-work-{index}"), "runs", "0", &with);
    }
    let need = json!({"queue": "owner", "minResources": {"cpu": "20", "memory": "4Gi", "nvidia.com/gpu": "4"}});
    scenario = scenario.job_with("wants", 4, "Pending", &need);
    (0..4).fold(scenario, |scenario, index| {
        scenario.pod(&format!("wants-work-{index}"), "wants", "0", &asks(&gpu))
    })
}

#[test]
fn s6_151_a_queue_that_deserves_some_resources_only_gets_its_own_of_these() {
    for (lender, owner) in [
        (
            json!({"nvidia.com/gpu": "4"}),
            json!({"nvidia.com/gpu": "6"}),
        ),
        (json!({"cpu": "20"}), json!({"cpu": "30"})),
        (
            json!({"cpu": "20", "memory": "80Gi"}),
            json!({"cpu": "30", "memory": "120Gi"}),
        ),
    ] {
        let outcome = gpus([lender.clone(), owner]).run_as(Compat::EVICTD);
        assert_eq!(evicted(&outcome).len(), 4, "{lender}");
        assert_eq!(outcome.pipelined.len(), 4, "{lender}");
    }
}

#[test]
fn a_queue_above_its_share_of_what_is_scarce_waits() {
    // Four pods are within the deserved memory, and not within the deserved cpu.
    let deserved = json!({"cpu": "15", "memory": "80Gi"});
    let scenario = gpus([json!({"cpu": "20", "memory": "80Gi"}), deserved]);
    assert!(scenario.run_as(Compat::EVICTD).evicted.is_empty());
    let any = Compat::EVICTD.without(Difference::ReclaimOnlyOwed);
    assert_eq!(scenario.run_as(any).evicted.len(), 4);
}

#[test]
fn a_kind_of_gpu_that_a_queue_does_not_name_is_given_back_to_its_owner() {
    let kind = json!({"cpu": "4", "memory": "1Gi", "nvidia.com/h100": "4"});
    let mut running = asks(&kind);
    running["spec"]["nodeName"] = json!("h");
    running["status"] = json!({"phase": "Running"});
    let scenario = Scenario::new(&capacity("enqueue, allocate, preempt, reclaim, backfill"))
        .node_with(
            "h",
            "64",
            &json!({"status": {"allocatable": {"nvidia.com/h100": "8"}}}),
        )
        .queue(
            "lender",
            &json!({"deserved": {"nvidia.com/a100": "8", "cpu": "32", "memory": "256Gi"}}),
        )
        .queue(
            "owner",
            &json!({"deserved": {"nvidia.com/h100": "8", "cpu": "32", "memory": "256Gi"}}),
        )
        .job_with("runs", 1, "Running", &json!({"queue": "lender"}))
        .pod("runs-work-0", "runs", "0", &running)
        .pod("runs-work-1", "runs", "0", &running)
        .job_with(
            "wants",
            1,
            "Pending",
            &json!({"queue": "owner", "minResources": {"cpu": "4", "nvidia.com/h100": "4"}}),
        )
        .pod("wants-work-0", "wants", "0", &asks(&kind));
    assert_eq!(evicted(&scenario.run_as(Compat::EVICTD)), ["runs-work-1"]);
    let named = Compat::EVICTD.without(Difference::ReclaimOnlyOwed);
    assert!(scenario.run_as(named).evicted.is_empty());
}

#[test]
fn a_job_preempts_while_its_queue_or_the_cluster_is_full() {
    for (shares, capability) in [
        ("proportion", json!({})),
        ("proportion", json!({"capability": {"cpu": "4"}})),
        ("capacity", json!({"capability": {"cpu": "4"}})),
    ] {
        let conf = conf(
            "enqueue, allocate, preempt, backfill",
            &[
                &["priority", "gang", "conformance"],
                &["overcommit", "predicates", shares, "nodeorder"],
            ],
        );
        let high = json!({"priorityClassName": "high", "minResources": {"cpu": "2"}});
        let scenario = Scenario::new(&conf)
            .queue("q", &capability)
            .class("high", 1000)
            .node("n", "4")
            .job("low", 1, "Running")
            .running("low", 0, &["n"; 4], "1")
            .job_with("high", 2, "Pending", &high)
            .waiting("high", 2, "1")
            .job_with(
                "equal",
                2,
                "Pending",
                &json!({"minResources": {"cpu": "2"}}),
            )
            .waiting("equal", 2, "1");
        let ours = scenario.run_as(Compat::EVICTD);
        assert_eq!(evicted(&ours).len(), 2, "{shares} {capability}");
        assert_eq!(
            ours.phases["default/equal"], "Pending",
            "{shares} {capability}"
        );
        let waits = scenario.run_as(Compat::EVICTD.without(Difference::EnqueuePreemptors));
        assert_eq!(
            waits.phases["default/high"], "Pending",
            "{shares} {capability}"
        );
    }
}

#[test]
fn room_that_was_made_for_a_job_goes_to_that_job() {
    let nominated = json!({"status": {"nominatedNodeName": "n"}});
    let scenario = Scenario::new(&capacity("allocate, reclaim"))
        .node("n", "4")
        // The other queue comes first, and would take the whole node.
        .queue("first", &json!({"deserved": {"cpu": "4"}, "priority": 10}))
        .queue("owner", &json!({"deserved": {"cpu": "2"}}))
        .job_with("gang", 4, "Inqueue", &json!({"queue": "first"}))
        .waiting("gang", 4, "1")
        .job_with("small", 1, "Inqueue", &json!({"queue": "owner"}))
        .pod("small-work-0", "small", "2", &nominated);
    assert_eq!(
        short(&scenario.run_as(Compat::EVICTD).bound),
        ["small-work-0"]
    );
    let any = scenario.run_as(Compat::EVICTD.without(Difference::NominatedFirst));
    assert_eq!(any.bound.len(), 4);
}

/// With a victim, the room that was made for the small job would be enough for a gang of another queue.
#[test]
fn an_action_before_allocate_counts_on_no_room_that_was_made_for_another_job() {
    let nominated = json!({"status": {"nominatedNodeName": "n"}});
    for actions in ["reclaim, allocate", "gangreclaim, allocate"] {
        let scenario = Scenario::new(&capacity(actions))
            .node("n", "4")
            .queue("first", &json!({"deserved": {"cpu": "4"}, "priority": 10}))
            .queue("owner", &json!({"deserved": {"cpu": "2"}}))
            .queue("over", &json!({"deserved": {"cpu": "1"}}))
            .job_with("runs", 1, "Running", &json!({"queue": "over"}))
            .running("runs", 0, &["n", "n"], "1")
            .job_with("gang", 3, "Inqueue", &json!({"queue": "first"}))
            .waiting("gang", 3, "1")
            .job_with("small", 1, "Inqueue", &json!({"queue": "owner"}))
            .pod("small-work-0", "small", "2", &nominated);
        let outcome = scenario.run_as(Compat::EVICTD);
        assert_eq!(short(&outcome.bound), ["small-work-0"], "{actions}");
        assert!(evicted(&outcome).is_empty(), "{actions}");
        let any = scenario.run_as(Compat::EVICTD.without(Difference::NominatedFirst));
        assert_eq!(evicted(&any).len(), 1, "{actions}");
    }
}

#[test]
fn the_condition_of_a_job_that_is_not_let_in_names_the_queue_and_the_key() {
    let overcommit = &["overcommit", "predicates", "proportion"];
    let conf = conf("enqueue, allocate", &[&["gang"], overcommit]);
    let guarantee = json!({"guarantee": {"resource": {"cpu": "100"}}});
    let scenario = Scenario::new(&conf)
        .node("n", "16")
        .queue("team", &json!({"capability": {"cpu": "4"}}))
        .queue("shut", &json!({}))
        .queue_with(&json!({"status": {"state": "Closed"}}))
        .job_with(
            "large",
            7,
            "Pending",
            &json!({"queue": "team", "minResources": {"cpu": "7"}}),
        )
        .job_with(
            "closed",
            1,
            "Pending",
            &json!({"queue": "shut", "minResources": {"cpu": "1"}}),
        )
        .job_with(
            "huge",
            1,
            "Pending",
            &json!({"queue": "q", "minResources": {"cpu": "40"}}),
        )
        .job_with(
            "waits",
            7,
            "Pending",
            &json!({"queue": "team", "minResources": {"cpu": "7"}}),
        )
        .waiting("waits", 7, "1");
    let outcome = scenario.run_as(Compat::EVICTD);
    let capability = "spec.capability of queue team is cpu 4";
    assert!(
        why(&outcome, "large").contains(capability),
        "{}",
        why(&outcome, "large")
    );
    assert!(why(&outcome, "waits").contains(capability));
    assert_eq!(why(&outcome, "closed"), "queue shut is not open");
    let huge = why(&outcome, "huge");
    assert!(huge.contains("overused cpu"), "{huge}");
    let beyond = scenario.queue("vip", &guarantee).run_as(Compat::EVICTD);
    let huge = why(&beyond, "huge");
    let keeps = "queue q may have cpu 0, since spec.guarantee of queue vip keeps cpu 100";
    assert!(huge.contains(keeps) || huge.contains("overused"), "{huge}");
    let quiet = Compat::EVICTD.without(Difference::ConditionSaysWhy);
    let conditions = &scenario_conditions(&conf, quiet);
    assert!(conditions.is_empty());
}

/// The conditions of a group without pods whose queue is too small.
fn scenario_conditions(conf: &str, compat: Compat) -> Vec<String> {
    let outcome = Scenario::new(conf)
        .node("n", "16")
        .queue("team", &json!({"capability": {"cpu": "4"}}))
        .job_with(
            "large",
            7,
            "Pending",
            &json!({"queue": "team", "minResources": {"cpu": "7"}}),
        )
        .run_as(compat);
    let conditions = &outcome.pod_groups["default/large"].conditions;
    conditions.iter().map(|own| own.message.clone()).collect()
}
