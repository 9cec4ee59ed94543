//! Where ours decides otherwise than Volcano: each switch with both sides.

use crate::scenario::{Scenario, bound, conf, evicted};
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

fn only(difference: Difference) -> Compat {
    Compat::VOLCANO.with(difference)
}

/// Jobs that lack something reclaim, and gangs do not protect theirs.
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

/// Two gangs of two fill the cluster on two nodes; the queue `r` wants room for one pod of three cores on one node.
fn two_gangs() -> Scenario {
    Scenario::new(&reclaim())
        .queue("r", &json!({}))
        .node("a", "4")
        .node("b", "4")
        .job("one", 2, "Running")
        .running("one", 0, &["a", "b"], "2")
        .job("two", 2, "Running")
        .running("two", 0, &["a", "b"], "2")
        .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("new", 1, "2")
}

#[test]
fn a_gang_is_evicted_whole_or_not_at_all() {
    let scenario = two_gangs();
    // Volcano breaks a gang: of its two pods one goes, and the other runs in vain.
    assert_eq!(evicted(&scenario.run()).len(), 1);
    let ours = scenario.run_as(only(Difference::WholeGangs));
    let gone = evicted(&ours);
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert_eq!(gone[0].split('-').next(), gone[1].split('-').next());
}

#[test]
fn s6_116_a_promise_of_a_node_that_gets_no_room_is_not_waited_for() {
    let conf = conf("allocate, preempt", &[&["priority", "gang", "predicates"]]);
    let victims = |nominated: &str, compat: Compat| {
        let new = json!({"spec": {"priority": 5}, "status": {"nominatedNodeName": nominated}});
        let outcome = Scenario::new(&conf)
            .class("high", 10)
            .node("a", "2")
            .job("old", 0, "Running")
            .running("old", 0, &["a", "a"], "1")
            .job_with("new", 1, "Inqueue", &json!({"priorityClassName": "high"}))
            .pod("new-work-0", "new", "1", &new)
            .run_as(compat);
        evicted(&outcome).len()
    };
    for nominated in ["a", "gone"] {
        assert_eq!(victims(nominated, Compat::VOLCANO), 0);
        let ours = only(Difference::RecheckPlacement);
        assert_eq!(victims(nominated, ours), 1);
    }
}

#[test]
fn s6_088_a_group_has_no_higher_priority_than_its_pods() {
    let conf = conf("allocate, preempt", &[&["priority", "gang", "predicates"]]);
    let with = |priority: i32| json!({"spec": {"priority": priority}});
    let run = |pods: i32, compat: Compat| {
        let runs = json!({"spec": {"nodeName": "a", "priority": 1_000_000}, "status": {"phase": "Running"}});
        Scenario::new(&conf)
            .class("system-node-critical", 2_000_001_000)
            .class("production", 1_000_000)
            .node("a", "1")
            .job_with(
                "old",
                0,
                "Running",
                &json!({"priorityClassName": "production"}),
            )
            .pod("old-work-0", "old", "1", &runs)
            .job_with(
                "new",
                1,
                "Inqueue",
                &json!({"priorityClassName": "system-node-critical"}),
            )
            .pod("new-work-0", "new", "1", &with(pods))
            .run_as(compat)
    };
    let ours = only(Difference::LowestPodPriority);
    assert_eq!(evicted(&run(0, Compat::VOLCANO)), ["old-work-0"]);
    let outcome = run(0, ours);
    assert!(evicted(&outcome).is_empty());
    let mut conditions = outcome.pod_groups["default/new"].conditions.iter();
    let condition = conditions
        .find(|own| own.kind.as_str() == "Unschedulable")
        .unwrap();
    let words = "Its priority counts as 0, the lowest of its pods, not as 2000001000";
    assert!(condition.message.contains(words), "{}", condition.message);
    assert_eq!(evicted(&run(2_000_001_000, ours)), ["old-work-0"]);
}

#[test]
fn releasing_room_is_used_before_another_pod_is_evicted() {
    let conf = conf("allocate, preempt", &[&["priority", "gang", "predicates"]]);
    let goes = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "b"}, "status": {"phase": "Running"}});
    let scenario = Scenario::new(&conf)
        .class("high", 10)
        .node("a", "2")
        .node("b", "2")
        .job("old", 0, "Running")
        .running("old", 0, &["a", "a", "b"], "1")
        .pod("old-work-3", "old", "1", &goes)
        .job_with("new", 2, "Inqueue", &json!({"priorityClassName": "high"}))
        .waiting("new", 2, "1");
    // One goes already: for a gang of two one more has to, and Volcano takes two.
    assert_eq!(evicted(&scenario.run()).len(), 2);
    let ours = scenario.run_as(only(Difference::FewestVictims));
    assert_eq!(evicted(&ours).len(), 1);
}

#[test]
fn gangs_that_can_spare_a_pod_come_first() {
    let spare = Scenario::new(&reclaim())
        .queue("r", &json!({}))
        .node("a", "6")
        .job("one", 2, "Running")
        .running("one", 0, &["a", "a"], "2")
        .job("rich", 0, "Running")
        .running("rich", 0, &["a"], "2")
        .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("new", 1, "2");
    let ours = spare.run_as(only(Difference::WholeGangs));
    assert_eq!(evicted(&ours), ["rich-work-0"]);
}

#[test]
fn a_queue_keeps_its_deserved_share_even_if_a_tier_permits_more_victims() {
    let conf_of = conf(
        "reclaim",
        &[&["gang", "conformance"], &["proportion", "predicates"]],
    );
    let scenario = Scenario::new(&conf_of)
        .queue("r", &json!({}))
        .node("a", "3")
        .node("b", "3")
        .job("old", 0, "Running")
        .running("old", 0, &["a", "a"], "1")
        .job_with("own", 1, "Running", &json!({"queue": "r"}))
        .running("own", 0, &["b", "b"], "1")
        .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("new", 1, "2");
    // On each node one core is free. The gang of the other queue can spare all, which is enough for Volcano.
    assert_eq!(evicted(&scenario.run()), ["old-work-1"]);
    let ours = scenario.run_as(only(Difference::ReclaimOnlyAboveDeserved));
    assert!(evicted(&ours).is_empty());
}

#[test]
fn no_pod_is_evicted_unless_its_room_is_needed() {
    // The last of the order is small and goes first; then the large one has to go, which alone would have been enough.
    let scenario = Scenario::new(&reclaim())
        .queue("r", &json!({}))
        .node("a", "5")
        .job("old", 0, "Running")
        .running("old", 10, &["a"], "1")
        .running("old", 9, &["a"], "4")
        .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("new", 1, "2");
    assert_eq!(evicted(&scenario.run()), ["old-work-10", "old-work-9"]);
    let ours = scenario.run_as(only(Difference::FewestVictims));
    assert_eq!(evicted(&ours), ["old-work-9"]);
}

#[test]
fn reclaim_evicts_the_gang_with_the_least_lost_work() {
    let scenario = |times: [&str; 2]| {
        let runs = |node: &str, since: &str| json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "startTime": since}});
        Scenario::new(&reclaim())
            .queue("r", &json!({}))
            .node("a", "4")
            .node("b", "4")
            .job("first", 1, "Running")
            .pod("first-work-0", "first", "4", &runs("a", times[0]))
            .job("second", 1, "Running")
            .pod("second-work-0", "second", "4", &runs("b", times[1]))
            .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
            .waiting("new", 1, "4")
    };
    let ours = only(Difference::LeastLostWork).with(Difference::WholeGangs);
    let gone = |scenario: &Scenario, compat: Compat| {
        let outcome = scenario.run_at("2026-01-01T12:00:00Z", compat);
        evicted(&outcome).join(" ")
    };
    let (early, late) = ("2026-01-01T01:00:00Z", "2026-01-01T11:00:00Z");
    for times in [[early, late], [late, early]] {
        assert_eq!(gone(&scenario(times), Compat::VOLCANO), "first-work-0");
    }
    assert_eq!(gone(&scenario([late, early]), ours), "first-work-0");
    assert_eq!(gone(&scenario([early, late]), ours), "second-work-0");
    // On one node, too: the pod of a gang that holds twice as much and has run a tenth of the time.
    let gangs = |since: &str| {
        let runs = |since: &str| json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running", "startTime": since}});
        Scenario::new(&reclaim())
            .queue("r", &json!({}))
            .node("a", "6")
            .job("long", 1, "Running")
            .pod("long-work-0", "long", "2", &runs(early))
            .job("short", 2, "Running")
            .pod("short-work-0", "short", "2", &runs(since))
            .pod("short-work-1", "short", "2", &runs(since))
            .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
            .waiting("new", 1, "2")
    };
    assert_eq!(gone(&gangs(early), ours), "long-work-0");
    assert_eq!(gone(&gangs(late), ours), "short-work-0 short-work-1");
}

#[test]
fn filters_run_without_the_victims_before_any_pod_is_evicted() {
    // A pod of another scheduler has the port; whoever else goes, the node does not take the new one.
    let port = |port: i32| {
        json!({"containers": [{"name": "c", "ports": [{"containerPort": port, "hostPort": port}],
        "resources": {"requests": {"cpu": "2"}}}]})
    };
    let mut other = port(80);
    other["nodeName"] = json!("a");
    other["schedulerName"] = json!("default-scheduler");
    let scenario = Scenario::new(&reclaim())
        .queue("r", &json!({}))
        .node("a", "4")
        .node("b", "4")
        .pod(
            "other",
            "",
            "2",
            &json!({"spec": other, "status": {"phase": "Running"}}),
        )
        .job("old", 0, "Running")
        .running("old", 0, &["a"], "2")
        .running("old", 1, &["b"], "4")
        .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
        .pod("new-work-0", "new", "2", &json!({"spec": port(80)}))
        .pod("new-work-1", "new", "2", &json!({"spec": port(80)}));
    assert_eq!(evicted(&scenario.run()), ["old-work-0"]);
    let ours = scenario.run_as(only(Difference::RecheckPlacement));
    assert_eq!(evicted(&ours), ["old-work-1"]);
}

#[test]
fn a_gang_that_lost_a_pod_is_ordered_first() {
    let scenario = Scenario::new(&conf("allocate", &[&["gang"], &["predicates"]]))
        .node("a", "3")
        .job("new", 2, "Inqueue")
        .waiting("new", 2, "1")
        .job("broken", 2, "Running")
        .running("broken", 0, &["a"], "1")
        .pod("broken-work-1", "broken", "1", &json!({}));
    let theirs = scenario.run();
    assert!(bound(&theirs, "new-work-0").is_some() && bound(&theirs, "broken-work-1").is_none());
    let ours = scenario.run_as(only(Difference::BrokenGangsFirst));
    assert!(bound(&ours, "new-work-0").is_none() && bound(&ours, "broken-work-1").is_some());
}

#[test]
fn an_undone_eviction_restores_the_status_of_the_task() {
    // Somebody was to go for a gang of two, of which only one fits: all of it is undone.
    let conf = conf(
        "allocate, preempt",
        &[&["priority", "gang"], &["predicates"]],
    );
    let with = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Pending"}});
    let scenario = Scenario::new(&conf)
        .class("high", 10)
        .node("a", "2")
        .job("old", 0, "Running")
        .pod("old-work-0", "old", "2", &with)
        .job_with("new", 2, "Inqueue", &json!({"priorityClassName": "high"}))
        .waiting("new", 2, "2");
    let tasks = |compat: Compat| {
        scenario.run_as(compat).pod_groups["default/old"]
            .tasks
            .clone()
    };
    assert_eq!(
        tasks(Compat::VOLCANO).into_keys().collect::<Vec<_>>(),
        ["Running"]
    );
    let ours = tasks(only(Difference::ExactUndo));
    assert_eq!(ours.into_keys().collect::<Vec<_>>(), ["Bound"]);
}

#[test]
fn a_queue_below_its_share_reclaims_in_a_full_cluster() {
    // All that there is, and a fifth more, is not enough for the new job before somebody has gone.
    let conf = conf(
        "enqueue, allocate, reclaim",
        &[
            &["priority", "gang"],
            &["overcommit", "predicates", "proportion"],
        ],
    );
    let new = json!({"queue": "r", "minResources": {"cpu": "1"}});
    let scenario = Scenario::new(&conf)
        .queue("r", &json!({}))
        .node("a", "4")
        .job("old", 1, "Running")
        .running("old", 0, &["a", "a", "a", "a"], "1")
        .job_with("new", 1, "Pending", &new)
        .waiting("new", 1, "1");
    let volcano = scenario.run();
    assert_eq!(volcano.phases["default/new"], "Pending");
    assert!(evicted(&volcano).is_empty());
    let ours = scenario.run_as(only(Difference::EnqueueReclaimers));
    assert_eq!(evicted(&ours).len(), 1);
}

#[test]
fn a_job_that_could_not_be_placed_is_promised_nothing() {
    let in_vain = json!({"spec": {"minResources": {"cpu": "8"}}, "status": {"conditions": [
        {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": ""}]}});
    let need = json!({"minResources": {"cpu": "1"}});
    let conf = conf("enqueue", &[&["gang"], &["overcommit", "predicates"]]);
    let nominated = json!({"status": {"nominatedNodeName": "a"}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let scenario = |pod: &Value, old: &Value| {
        let on_a = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
        let mut old = old.clone();
        old["spec"] = on_a["spec"].clone();
        old["status"] = on_a["status"].clone();
        Scenario::new(&conf)
            .node("a", "8")
            .job("old", 0, "Running")
            .pod("old-work-0", "old", "4", &old)
            .job("large", 2, "Inqueue")
            .group_with(&in_vain)
            .pod("large-work-0", "large", "4", pod)
            .pod("large-work-1", "large", "4", pod)
            .job_with("small", 1, "Pending", &need)
            .waiting("small", 1, "1")
    };
    // Eight cores times 1.2, less four in use, less eight promised to a gang that does not fit.
    let phase = |pod: &Value, old: &Value, compat: Compat| {
        let outcome = scenario(pod, old).run_as(compat);
        outcome.phases["default/small"].clone()
    };
    let (nothing, ours) = (json!({}), only(Difference::EnqueueWhatFits));
    assert_eq!(phase(&nothing, &nothing, Compat::VOLCANO), "Pending");
    assert_eq!(phase(&nothing, &nothing, ours), "Inqueue");
    // Nor is it promised anything for a node that was freed for it and that others are on now; while they go it is.
    assert_eq!(phase(&nominated, &nothing, ours), "Inqueue");
    assert_eq!(phase(&nominated, &going, ours), "Pending");
}

#[test]
fn a_gang_is_not_enqueued_if_only_gangs_that_precede_it_could_be_evicted() {
    let scenario = |class: &str| {
        Scenario::new(&conf(
            "enqueue, preempt",
            &[&["priority", "gang"], &["drf", "predicates"]],
        ))
        .class("high", 10)
        .node("a", "4")
        .job("old", 2, "Running")
        .running("old", 0, &["a", "a"], "2")
        .job_with("new", 1, "Pending", &json!({"priorityClassName": class}))
        .waiting("new", 1, "2")
    };
    let phase = |class: &str| {
        let outcome = scenario(class).run_as(Compat::EVICTD);
        outcome.phases["default/new"].clone()
    };
    // Nothing would be left of the old one, so that by its share it would come first again.
    assert_eq!(phase(""), "Pending");
    assert_eq!(phase("high"), "Inqueue");
}

#[test]
fn room_of_pods_without_a_job_is_not_divided_among_queues() {
    let other = json!({"spec": {"schedulerName": "default-scheduler", "nodeName": "a"}, "status": {"phase": "Running"}});
    let scenario = Scenario::new(&reclaim())
        .queue("r", &json!({}))
        .node("a", "10")
        .pod("other", "", "6", &other)
        .job("old", 0, "Running")
        .running("old", 0, &["a", "a", "a", "a"], "1")
        .job_with("new", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("new", 1, "2");
    // Four cores of ten are less than half of the cluster, and all that there is for two queues.
    assert!(evicted(&scenario.run()).is_empty());
    let ours = scenario.run_as(only(Difference::ExcludeForeignPods));
    assert_eq!(evicted(&ours).len(), 2);
}
