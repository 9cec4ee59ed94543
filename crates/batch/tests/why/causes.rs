//! What a job waits for: the first line, and what would start it.

use crate::scenario::{Scenario, conf};
use crate::{ALL, why, words};
use evictd_batch::why::{Answer, State};
use serde_json::json;

fn asked(scenario: Scenario) -> Answer {
    let objects = scenario.objects();
    let answer = why(&objects, &[]);
    crate::proof::check(&objects, &answer);
    answer
}

#[test]
fn too_little_room_names_the_nodes_and_the_jobs_whose_end_suffices() {
    let tainted =
        json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
    let cordoned = json!({"spec": {"unschedulable": true}});
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "8")
            .node("b", "8")
            .node_with("c", "8", &tainted)
            .node_with("d", "8", &cordoned)
            .job("small", 1, "Running")
            .running("small", 0, &["a"], "3")
            .job("large", 2, "Running")
            .running("large", 0, &["a", "b"], "3")
            .job("train", 2, "Inqueue")
            .waiting("train", 2, "5"),
    );
    assert_eq!(answer.state, State::Waits);
    assert_eq!(
        answer.headline,
        "train waits: 1 of its 2 pods fits on no node (too little cpu on 2 of 4 nodes)"
    );
    let diagnosis = answer.diagnosis.as_ref().unwrap();
    assert_eq!(
        (diagnosis.feasibility.now, diagnosis.feasibility.waiting),
        (1, 2)
    );
    let refused = &diagnosis.feasibility.roles[0].refused;
    assert_eq!(refused["Insufficient cpu"], 2);
    assert_eq!(refused["node(s) were unschedulable"], 1);
    assert_eq!(refused.values().sum::<usize>(), 4);
    let near = &diagnosis.feasibility.nearest[0];
    assert_eq!(
        (near.node.as_str(), near.one[0].amount.to_string()),
        ("a", "3".to_owned())
    );
    assert_eq!(
        words(&answer),
        [
            "default/small ends (1 pod)",
            "default/large ends (2 pods)",
            "node d is uncordoned",
            "node a has 3 more cpu",
            "1 more node like a added",
            "its minAvailable is lowered to 1 (from 2), and those of its tasks",
        ]
    );
}

#[test]
fn a_queue_that_has_its_share_is_named_with_the_amounts() {
    let nodes = ["a", "b"];
    let scenario = nodes
        .iter()
        .fold(Scenario::new(ALL), |own, node| own.node(node, "20"));
    let answer = asked(
        scenario
            .queue("other", &json!({}))
            .job("own", 1, "Running")
            .running("own", 0, &["a", "b"], "10")
            .job_with("theirs", 1, "Running", &json!({"queue": "other"}))
            .running("theirs", 0, &["a", "b"], "5")
            .job_with("more", 1, "Inqueue", &json!({"queue": "other"}))
            .waiting("more", 4, "5")
            .job("train", 1, "Inqueue")
            .waiting("train", 2, "2"),
    );
    assert_eq!(
        answer.headline,
        "train waits: queue q holds all that it deserves (cpu 20 of 20)"
    );
    let words = words(&answer);
    assert_eq!(words[0], "default/own ends (2 pods)");
    assert!(
        words.contains(&"queue q's weight is raised to 2 (from 1)"),
        "{words:?}"
    );
    let queue = &answer.diagnosis.as_ref().unwrap().queue;
    assert_eq!(
        (queue.plugin, queue.resources[0].request.to_string()),
        (Some("proportion"), "24".to_owned())
    );
}

#[test]
fn a_capability_is_raised_by_no_more_than_needed() {
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "40")
            .queue("gold", &json!({"capability": {"cpu": "10"}}))
            .job_with("own", 1, "Running", &json!({"queue": "gold"}))
            .running("own", 0, &["a"], "7")
            .job_with("train", 2, "Inqueue", &json!({"queue": "gold"}))
            .waiting("train", 2, "2"),
    );
    assert_eq!(
        answer.headline,
        "train waits: queue gold may not have so much (cpu 11 of 10 with it)"
    );
    assert!(words(&answer).contains(&"queue gold's capability is raised to cpu 11 (from 10)"));
}

#[test]
fn the_answer_for_a_job_that_is_not_enqueued_names_the_amounts_that_are_left() {
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "10")
            .job("own", 3, "Running")
            .running("own", 0, &["a", "a", "a"], "3")
            .job_with(
                "train",
                2,
                "Pending",
                &json!({"minResources": {"cpu": "4"}}),
            )
            .waiting("train", 2, "2"),
    );
    assert_eq!(answer.state, State::NotEnqueued);
    assert_eq!(
        answer.headline,
        "train is not let in: it needs more than is left in the cluster (cpu 4 of 3)"
    );
    assert_eq!(
        words(&answer)[..2],
        ["default/own ends (3 pods)", "pod default/own-work-0 ends"]
    );
}

#[test]
fn a_limit_of_the_queue_is_reported_before_the_amounts_of_other_jobs() {
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "10")
            .queue("gold", &json!({"capability": {"cpu": "6"}}))
            .job("own", 1, "Running")
            .running("own", 0, &["a", "a", "a"], "3")
            .job_with(
                "train",
                2,
                "Pending",
                &json!({"queue": "gold", "minResources": {"cpu": "8"}}),
            )
            .waiting("train", 2, "4"),
    );
    assert_eq!(answer.state, State::NotEnqueued);
    assert_eq!(
        answer.headline,
        "train is not let in: queue gold may not have so much (cpu 8 of 6 with it)"
    );
}

#[test]
fn a_gang_that_cannot_be_placed_is_reported_as_not_enqueued() {
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "10")
            .job("own", 1, "Running")
            .running("own", 0, &["a", "a", "a"], "3")
            .job("train", 2, "Pending")
            .waiting("train", 2, "1"),
    );
    assert_eq!(answer.state, State::NotEnqueued);
    assert_eq!(
        answer.headline,
        "train is not let in: there is no room now for 2 pods of task work that ask for cpu 1 each"
    );
}

#[test]
fn a_closed_or_missing_queue_is_the_only_reason() {
    let job = |scenario: Scenario| {
        asked(
            scenario
                .node("a", "10")
                .job_with(
                    "train",
                    1,
                    "Pending",
                    &json!({"queue": "gold", "minResources": {"cpu": "1"}}),
                )
                .waiting("train", 1, "1"),
        )
    };
    let closed = Scenario::new(ALL).queue("gold", &json!({}));
    let closed = job(closed.queue_with(&json!({"status": {"state": "Closed"}})));
    assert_eq!(closed.headline, "train waits: queue gold is closed");
    assert_eq!(
        words(&closed),
        ["queue gold is opened: evictd-batch queue operate -n gold -a open"]
    );
    let missing = job(Scenario::new(ALL).queue("golden", &json!({})));
    assert_eq!(
        missing.headline,
        "train waits: its queue gold does not exist"
    );
    assert_eq!(missing.more, ["The queue whose name is nearest is golden."]);
    assert_eq!(
        words(&missing),
        ["queue gold is made: evictd-batch queue create -n gold -w 1"]
    );
}

#[test]
fn scheduling_gates_are_reported_and_their_removal_is_proposed() {
    let gated = json!({"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}});
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "10")
            .job("train", 2, "Inqueue")
            .waiting("train", 1, "1")
            .pod("train-work-1", "train", "1", &gated),
    );
    assert_eq!(
        answer.headline,
        "train waits: 1 pod of it has scheduling gates"
    );
    assert_eq!(
        words(&answer),
        ["the pods' scheduling gates are removed: kueue.x-k8s.io/admission"]
    );
}

#[test]
fn labels_are_proposed_where_only_they_are_missing() {
    let wants = json!({"spec": {"nodeSelector": {"pool": "batch"}}});
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "10")
            .node("b", "10")
            .job("train", 2, "Inqueue")
            .pod("train-work-0", "train", "6", &wants)
            .pod("train-work-1", "train", "6", &wants),
    );
    assert_eq!(
        answer.headline,
        "train waits: none of its 2 pods fits on a node (all 2 nodes didn't match Pod's node affinity/selector)"
    );
    assert_eq!(
        words(&answer)[0],
        "node a gets the label pool=batch, and node b gets the label pool=batch"
    );
}

#[test]
fn jobs_ahead_are_reported_with_the_rule_and_a_higher_priority_is_proposed() {
    let answer = asked(
        Scenario::new(ALL)
            .class("high", 10)
            .node("a", "4")
            .job_with("first", 1, "Inqueue", &json!({"priorityClassName": "high"}))
            .waiting("first", 1, "3")
            .job("older", 1, "Inqueue")
            .waiting("older", 1, "3")
            .job("train", 1, "Inqueue")
            .waiting("train", 1, "3"),
    );
    let diagnosis = answer.diagnosis.as_ref().unwrap();
    let ahead: Vec<_> = diagnosis
        .ahead
        .iter()
        .map(|own| (own.pod_group.as_str(), own.plugin, own.why.as_str()))
        .collect();
    assert_eq!(
        ahead,
        [
            ("default/first", Some("priority"), "priority 10 against 0"),
            ("default/older", None, "made earlier"),
        ]
    );
    assert!(
        words(&answer).contains(&"its priority is 11 (in place of 0)"),
        "{:?}",
        words(&answer)
    );
}

#[test]
fn the_answer_for_a_job_that_runs_in_part_counts_its_running_pods() {
    let answer = asked(
        Scenario::new(ALL)
            .node("a", "8")
            .job("train", 2, "Running")
            .running("train", 0, &["a", "a"], "3")
            .pod("train-work-2", "train", "3", &json!({}))
            .pod("train-work-3", "train", "3", &json!({})),
    );
    assert_eq!(answer.state, State::RunsInPart);
    assert_eq!(
        answer.headline,
        "train runs with 2 of its 4 pods; the others wait: none of its 2 pods fits on a node (too little cpu on the only node)"
    );
    assert_eq!(
        words(&answer),
        ["node a has 1 more cpu", "1 more node like a added"]
    );
}

#[test]
fn a_job_that_starts_by_itself_needs_nothing() {
    let free = Scenario::new(ALL)
        .node("a", "8")
        .job("train", 1, "Pending")
        .waiting("train", 2, "1");
    let free = asked(free);
    assert_eq!(free.state, State::Starts);
    assert_eq!(
        free.headline,
        "train starts: the next session binds 2 pods of it"
    );
    assert!(free.soonest.is_empty());
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    let going = asked(
        Scenario::new(ALL)
            .node("a", "4")
            .job("other", 1, "Running")
            .pod("other-work-0", "other", "3", &going)
            .job("train", 1, "Inqueue")
            .waiting("train", 1, "3"),
    );
    assert_eq!(
        going.headline,
        "train starts once the pod that is ending has gone: default/other-work-0"
    );
}

#[test]
fn the_answer_names_the_victims_of_a_job() {
    let conf = conf(
        "enqueue, allocate, preempt",
        &[&["priority", "gang"], &["drf", "predicates", "proportion"]],
    );
    let answer = asked(
        Scenario::new(&conf)
            .class("high", 10)
            .node("a", "4")
            .job("other", 1, "Running")
            .running("other", 0, &["a", "a"], "2")
            .job_with("train", 1, "Inqueue", &json!({"priorityClassName": "high"}))
            .waiting("train", 1, "2"),
    );
    assert_eq!(answer.state, State::Starts);
    assert_eq!(
        answer.headline,
        "train starts once default/other-work-1 has made room: the next session evicts for it"
    );
}

#[test]
fn a_cluster_without_nodes_is_reported() {
    let answer = asked(
        Scenario::new(ALL)
            .job("train", 1, "Inqueue")
            .waiting("train", 1, "1"),
    );
    assert_eq!(
        answer.headline,
        "train waits: its pod fits on no node (there is no node)"
    );
    assert!(answer.soonest.is_empty());
}

#[test]
fn fewer_pods_have_to_end_for_a_job_that_comes_first() {
    let behind = |waiting: usize| {
        let answer = asked(
            Scenario::new(ALL)
                .node("a", "8")
                .job("own", 1, "Running")
                .running("own", 0, &["a", "a"], "4")
                .job("older", i32::try_from(waiting).unwrap(), "Inqueue")
                .waiting("older", waiting, "4")
                .job("train", 1, "Inqueue")
                .waiting("train", 1, "4"),
        );
        words(&answer).join("; ")
    };
    let first = "its priority is 1 (in place of 0), and pod default/own-work-0 ends";
    let told = behind(1);
    assert!(told.contains(first), "{told}");
    // A gang that comes first and cannot use what one pod leaves is no hindrance.
    let told = behind(2);
    assert!(told.starts_with("pod default/own-work-0 ends"), "{told}");
}

#[test]
fn a_gang_above_its_queues_share_sees_the_share_even_while_it_is_lent() {
    let answer = asked(
        Scenario::new(&conf(
            "allocate, backfill",
            &[&["priority", "gang"], &["predicates", "proportion"]],
        ))
        .queue("r", &json!({}))
        .node("a", "8")
        .job("small", 0, "Inqueue")
        .waiting("small", 9, "1")
        .job_with("train", 2, "Inqueue", &json!({"queue": "r"}))
        .waiting("train", 2, "3"),
    );
    assert_eq!(
        answer.headline,
        "train waits: queue r does not deserve so much (cpu 6 of 4 with it)"
    );
    let diagnosis = answer.diagnosis.unwrap();
    let cpu = diagnosis
        .queue
        .resources
        .iter()
        .find(|own| own.resource == "cpu");
    assert_eq!(cpu.unwrap().deserved, Some("4".parse().unwrap()));
}

const TREE: &str = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: capacity\n    enableHierarchy: true\n";

/// Plugin capacity on the tree of queues: `org`, with this specification, above `a`.
fn below_org(org: &serde_json::Value, job: &str) -> Scenario {
    let needs = json!({"queue": "a", "minResources": {"cpu": "5"}});
    with_org(org, job, &needs)
}

/// The same with a job of this specification.
fn with_org(org: &serde_json::Value, job: &str, needs: &serde_json::Value) -> Scenario {
    Scenario::new(TREE)
        .node("n", "40")
        .queue("root", &json!({}))
        .queue("org", org)
        .queue("a", &json!({"parent": "org"}))
        .job_with("train", 1, job, needs)
        .waiting("train", 1, "5")
}

#[test]
fn a5_the_ancestor_queue_and_the_key_that_is_wrong_are_named() {
    let capped = json!({"parent": "root", "capability": {"cpu": "4"}});
    for phase in ["Pending", "Inqueue"] {
        let answer = asked(below_org(&capped, phase));
        let verb = if phase == "Pending" {
            "is not let in"
        } else {
            "waits"
        };
        assert_eq!(
            answer.headline,
            format!(
                "train {verb}: queue org above queue a may not have so much: spec.capability of queue org is cpu 4 (cpu 5 of 4 \
                 with it)"
            )
        );
        assert!(
            words(&answer).contains(&"queue org's capability is raised to cpu 5 (from 4)"),
            "{:?}",
            words(&answer)
        );
        assert_eq!(answer.more, [""; 0]);
    }
}

#[test]
fn a5_a_job_beside_the_queues_below_its_queue_is_told_so() {
    for spec in [
        json!({"queue": "org"}),
        json!({"queue": "org", "minResources": {"cpu": "1"}}),
    ] {
        for phase in ["Pending", "Inqueue"] {
            let answer = asked(with_org(&json!({"parent": "root"}), phase, &spec));
            assert_eq!(
                answer.headline,
                "train is not let in: queue org has queues below it (a), and takes no jobs itself"
            );
        }
    }
}

#[test]
fn a5_a_guarantee_beyond_the_cluster_is_named_with_its_queue() {
    let hungry = json!({"guarantee": {"resource": {"cpu": "1000"}}});
    let scenario = Scenario::new(ALL)
        .node("n", "40")
        .queue("a", &json!({}))
        .queue("hungry", &hungry)
        .job_with(
            "other",
            1,
            "Pending",
            &json!({"queue": "hungry", "minResources": {"cpu": "1"}}),
        )
        .waiting("other", 1, "1")
        .job_with(
            "train",
            1,
            "Pending",
            &json!({"queue": "a", "minResources": {"cpu": "5"}}),
        )
        .waiting("train", 1, "5");
    let answer = why(&scenario.objects(), &[]);
    let diagnosis = serde_json::to_value(answer.diagnosis.as_ref().unwrap()).unwrap();
    let limit = &diagnosis["holds"][0]["limitedBy"];
    assert_eq!(limit["queue"], "hungry", "{} {diagnosis}", answer.headline);
    assert_eq!(limit["key"], "spec.guarantee");
    assert!(
        answer.more.join(" ").contains("hungry"),
        "{:?}",
        answer.more
    );
}

#[test]
fn a5_a_closed_queue_above_the_jobs_queue_is_named_and_opened() {
    let org = json!({"parent": "root"});
    let mut objects = below_org(&org, "Pending").objects();
    let mut queues = objects.queues.iter_mut();
    let closed = queues.find(|queue| queue.metadata.name == "org").unwrap();
    closed.status.state =
        evictd_batch_objects::OpenEnum::Known(evictd_batch_objects::QueueState::Closed);
    let answer = why(&objects, &[]);
    assert_eq!(
        answer.headline,
        "train is not let in: queue org above queue a is not open"
    );
    assert!(
        words(&answer)[0].contains("queue org is opened"),
        "{:?}",
        words(&answer)
    );
}

#[test]
fn a6_the_room_of_evicted_pods_goes_to_the_job_that_they_were_evicted_for() {
    // The gang came first, so that its pods would take their room again.
    let tiers: [&[&str]; 2] = [
        &["priority", "gang", "conformance"],
        &["predicates", "capacity", "nodeorder"],
    ];
    let deserved = json!({"deserved": {"cpu": "5", "memory": "42Gi"}});
    let of = |queue: &str, cpu: &str| json!({"queue": queue, "minResources": {"cpu": cpu}});
    let scenario = Scenario::new(&conf("enqueue, allocate, reclaim, backfill", &tiers))
        .node("a", "8")
        .node("b", "8")
        .queue("q0", &deserved)
        .queue("q2", &deserved)
        .job_with("big", 4, "Running", &of("q0", "16"))
        .running("big", 0, &["a", "a", "b", "b"], "4")
        .job_with("train", 1, "Pending", &of("q2", "4"))
        .waiting("train", 1, "4");
    let answer = asked(scenario);
    assert_eq!(answer.state, State::Starts, "{}", answer.headline);
    assert!(
        answer.headline.contains("have made room"),
        "{}",
        answer.headline
    );
}
