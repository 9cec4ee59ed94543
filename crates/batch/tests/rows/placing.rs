//! Jobs are let in once they could be placed.

use crate::scenario::{Scenario, conf, events_of, evicted, short};
use evictd_batch::session::Outcome;
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

fn only() -> Compat {
    Compat::VOLCANO.with(Difference::EnqueueWhatFits)
}

fn enqueue() -> String {
    conf(
        "enqueue, allocate",
        &[&["priority", "gang"], &["overcommit", "predicates"]],
    )
}

/// However much is promised already.
fn anything() -> String {
    conf("enqueue", &[&["gang"], &["predicates"]])
}

fn phase<'o>(outcome: &'o Outcome, job: &str) -> &'o str {
    &outcome.phases[&format!("default/{job}")]
}

/// A gang of which no pod is made yet.
fn unmade(pods: i32, cpu: u32) -> Value {
    let all = u32::try_from(pods).unwrap() * cpu;
    json!({"minTaskMember": {"work": pods}, "minResources": {"cpu": all.to_string()}})
}

/// Two nodes of four cores, of which three are free on each.
fn two_nodes(conf: &str) -> Scenario {
    Scenario::new(conf)
        .class("high", 10)
        .node("a", "4")
        .node("b", "4")
        .job("old", 0, "Running")
        .running("old", 0, &["a", "b"], "1")
}

#[test]
fn a_job_that_does_not_fit_on_any_node_is_not_let_in() {
    let with = |pods: usize| {
        let need = json!({"minResources": {"cpu": "4"}});
        two_nodes(&enqueue())
            .job_with("new", 1, "Pending", &need)
            .waiting("new", pods, "4")
    };
    // Six cores are free, and four of them on no node.
    for pods in [0, 1] {
        assert_eq!(phase(&with(pods).run(), "new"), "Inqueue");
        let ours = with(pods).run_as(only());
        assert_eq!(phase(&ours, "new"), "Pending");
        let group = &ours.pod_groups["default/new"];
        assert!(group.written);
        assert_eq!(group.conditions[0].kind.as_str(), "Unschedulable");
        let task = if pods == 0 { "" } else { " of task work" };
        let words = format!("there is no room now for 1 pod{task} that asks for cpu 4");
        let message = &group.conditions[0].message;
        assert!(message.contains(&words), "{message}");
        assert!(events_of(&ours, "new")[0].contains(&words));
    }
}

#[test]
fn a_job_that_was_enqueued_before_has_its_room() {
    let gang = |own: Scenario, name: &str, phase: &str, pods: i32, cpu: u32| {
        own.job_with(name, pods, phase, &unmade(pods, cpu))
    };
    // Two pods of three cores have their place, and one of one core beside neither of them.
    let both = gang(two_nodes(&enqueue()), "first", "Inqueue", 2, 3);
    let both = gang(both, "second", "Pending", 1, 1);
    assert_eq!(phase(&both.run(), "second"), "Inqueue");
    assert_eq!(phase(&both.run_as(only()), "second"), "Pending");
    // One that cannot be placed itself holds nothing.
    let large = gang(two_nodes(&anything()), "first", "Inqueue", 3, 3);
    let large = gang(large, "second", "Pending", 1, 1);
    assert_eq!(phase(&large.run_as(only()), "second"), "Inqueue");
    // Of several that ask in the same session each counts those before it.
    let three = ["one", "two", "three"].into_iter();
    let three = three.fold(two_nodes(&enqueue()), |own, name| {
        gang(own, name, "Pending", 1, 3)
    });
    let ours = three.run_as(only());
    let phases = ["one", "two", "three"].map(|name| phase(&ours, name));
    assert_eq!(phases, ["Inqueue", "Inqueue", "Pending"]);
}

#[test]
fn a_job_that_does_not_fit_keeps_nobody_out_behind_it() {
    let scenario = two_nodes(&enqueue())
        .job_with("large", 3, "Pending", &unmade(3, 2))
        .job_with("small", 2, "Pending", &unmade(2, 2));
    let ours = scenario.run_as(only());
    assert_eq!(phase(&ours, "large"), "Pending");
    assert_eq!(phase(&ours, "small"), "Inqueue");
}

#[test]
fn pods_of_several_tasks_are_placed_together() {
    let role = |role: &str| json!({"metadata": {"annotations": {"volcano.sh/task-spec": role}}});
    let with = |cpu: &str| {
        let need = json!({"minTaskMember": {"driver": 1, "worker": 2}});
        two_nodes(&enqueue())
            .job_with("new", 3, "Pending", &need)
            .pod("new-driver-0", "new", cpu, &role("driver"))
            .pod("new-worker-0", "new", "2", &role("worker"))
            .pod("new-worker-1", "new", "2", &role("worker"))
    };
    assert_eq!(phase(&with("1").run_as(only()), "new"), "Inqueue");
    assert_eq!(phase(&with("2").run_as(only()), "new"), "Pending");
    // Nothing is said of what tasks ask for that are not made: all of it has to be there somewhere.
    let spec = |cpu: &str| {
        let mut spec = json!({"minTaskMember": {"driver": 1, "worker": 2}});
        spec["minResources"] = json!({"cpu": cpu});
        two_nodes(&enqueue()).job_with("new", 3, "Pending", &spec)
    };
    assert_eq!(phase(&spec("6").run_as(only()), "new"), "Inqueue");
    assert_eq!(phase(&spec("7").run_as(only()), "new"), "Pending");
}

/// The workers are more important, so that all of the room would be theirs.
#[test]
fn tasks_that_a_gang_needs_by_their_role_are_placed_first() {
    let role = |role: &str, priority: i32| json!({"metadata": {"annotations": {"volcano.sh/task-spec": role}}, "spec": {"priority": priority}});
    let need = json!({"minTaskMember": {"driver": 1, "worker": 1}});
    let tiers: [&[&str]; 2] = [&["priority", "gang"], &["predicates"]];
    let scenario = Scenario::new(&conf("allocate", &tiers))
        .node("a", "2")
        .job_with("new", 2, "Inqueue", &need)
        .pod("new-worker-0", "new", "1", &role("worker", 10))
        .pod("new-worker-1", "new", "1", &role("worker", 10))
        .pod("new-driver-0", "new", "1", &role("driver", 1));
    let difference = Difference::NeededRolesFirst;
    let ours = scenario.run_as(Compat::VOLCANO.with(difference));
    assert_eq!(short(&ours.bound), ["new-driver-0", "new-worker-0"]);
    assert!(scenario.run_as(Compat::VOLCANO).bound.is_empty());
    let without = scenario.run_as(Compat::EVICTD.without(difference));
    assert!(without.bound.is_empty());
}

/// Without plugin gang a job is ready from the beginning, so that its turns only end with its tasks.
#[test]
fn a_session_ends_if_no_plugin_counts_a_gang_whose_needed_task_fits_nowhere() {
    let role = |role: &str| json!({"metadata": {"annotations": {"volcano.sh/task-spec": role}}});
    let need = json!({"minTaskMember": {"driver": 1, "worker": 1}});
    let ours = Scenario::new(&conf("allocate", &[&["predicates"]]))
        .node("a", "2")
        .job_with("new", 2, "Inqueue", &need)
        .pod("new-driver-0", "new", "3", &role("driver"))
        .pod("new-worker-0", "new", "1", &role("worker"))
        .pod("new-worker-1", "new", "1", &role("worker"))
        .run_as(Compat::VOLCANO.with(Difference::NeededRolesFirst));
    assert_eq!(short(&ours.bound), ["new-worker-0", "new-worker-1"]);
}

/// The small task comes first, and the best node for it is the only one for the large one.
#[test]
fn a_gang_is_tried_again_with_its_largest_tasks_first() {
    let tiers: [&[&str]; 2] = [&["priority", "gang"], &["predicates", "nodeorder"]];
    let with = |large: &str| {
        Scenario::new(&conf("allocate", &tiers))
            .node("a", "4")
            .node("b", "8")
            .job("new", 2, "Inqueue")
            .pod("new-work-0", "new", "4", &json!({}))
            .pod("new-work-1", "new", large, &json!({}))
    };
    let difference = Difference::HardestFirst;
    let only = Compat::VOLCANO.with(difference);
    for (large, compat, pods) in [
        ("5", Compat::VOLCANO, 0),
        ("5", Compat::EVICTD.without(difference), 0),
        ("5", only, 2),
        ("5", Compat::EVICTD, 2),
        ("9", only, 0),
    ] {
        assert_eq!(with(large).run_as(compat).binds.len(), pods, "{large}");
    }
    // After a second attempt that fails, the first one says why.
    let message = |compat: Compat| {
        let outcome = with("9").run_as(compat);
        let conditions = outcome.pod_conditions.values();
        conditions
            .map(|own| own.message.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(message(only), message(Compat::VOLCANO));
}

/// The free pod comes first, and the best node for it is the only one for the other.
#[test]
fn a_gang_is_tried_again_with_the_tasks_that_few_nodes_take_first() {
    let tiers: [&[&str]; 2] = [&["priority", "gang"], &["predicates", "nodeorder"]];
    let selects = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let labelled = json!({"metadata": {"labels": {"disk": "ssd"}}});
    let scenario = Scenario::new(&conf("allocate", &tiers))
        .node_with("a", "4", &labelled)
        .node("b", "4")
        .job("new", 2, "Inqueue")
        .pod("new-work-0", "new", "4", &json!({}))
        .pod("new-work-1", "new", "4", &selects);
    let difference = Difference::HardestFirst;
    for (compat, pods) in [
        (Compat::VOLCANO, 0),
        (Compat::EVICTD.without(difference), 0),
        (Compat::VOLCANO.with(difference), 2),
        (Compat::EVICTD, 2),
    ] {
        assert_eq!(scenario.run_as(compat).binds.len(), pods);
    }
}

/// Both jobs have pods of one kind, and plugin nodegroup refuses those of queue `r` everywhere.
#[test]
fn a_job_is_let_in_whatever_is_refused_to_equal_pods_of_another_queue() {
    let affinity =
        json!({"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}});
    let group = "{name: nodegroup, arguments: {strict: false}}";
    let conf = conf("enqueue, allocate", &[&["gang"], &["predicates", group]]);
    let ours = Scenario::new(&conf)
        .node("a", "4")
        .queue("r", &json!({"affinity": affinity, "priority": 5}))
        .job_with("refused", 1, "Pending", &json!({"queue": "r"}))
        .waiting("refused", 1, "2")
        .job("new", 1, "Pending")
        .waiting("new", 1, "2")
        .run_as(Compat::VOLCANO.with(Difference::EnqueueWhatFits));
    assert_eq!(phase(&ours, "refused"), "Pending");
    assert_eq!(phase(&ours, "new"), "Inqueue");
}

#[test]
fn nodes_that_do_not_take_a_pod_have_no_room_for_it() {
    let elsewhere = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "c"}}});
    let scenario =
        two_nodes(&enqueue())
            .job("new", 1, "Pending")
            .pod("new-work-0", "new", "1", &elsewhere);
    assert_eq!(phase(&scenario.run(), "new"), "Inqueue");
    assert_eq!(phase(&scenario.run_as(only()), "new"), "Pending");
    let open = scenario.node("c", "1");
    assert_eq!(phase(&open.run_as(only()), "new"), "Inqueue");
}

#[test]
fn a_job_is_let_in_that_its_queue_may_make_room_for() {
    let tiers: [&[&str]; 2] = [&["priority", "gang"], &["predicates", "proportion"]];
    let with = |actions: &str, class: &str| {
        let mut need = unmade(2, 4);
        need["priorityClassName"] = json!(class);
        two_nodes(&conf(actions, &tiers)).job_with("new", 2, "Pending", &need)
    };
    let let_in = |actions: &str, class: &str| {
        phase(&with(actions, class).run_as(only()), "new") == "Inqueue"
    };
    assert!(let_in("enqueue, preempt", "high"));
    assert!(!let_in("enqueue, preempt", ""));
    assert!(!let_in("enqueue, reclaim", "high"));
    // The queue is below its share, and then above it.
    let reclaims = |cpu: u32| {
        let mut need = unmade(1, cpu);
        need["queue"] = json!("r");
        let conf = conf("enqueue, allocate, reclaim", &tiers);
        let scenario = Scenario::new(&conf)
            .queue("r", &json!({}))
            .node("a", "4")
            .job("old", 0, "Running")
            .running("old", 0, &["a", "a", "a", "a"], "1")
            .job_with("new", 1, "Pending", &need)
            .waiting("new", 1, &cpu.to_string());
        scenario.run_as(Compat::EVICTD)
    };
    assert_eq!(evicted(&reclaims(2)).len(), 2);
    assert_eq!(phase(&reclaims(3), "new"), "Pending");
}

#[test]
fn a_job_whose_pods_are_not_made_is_let_in_to_reclaim_and_reclaims_in_the_next_session() {
    let tiers: [&[&str]; 2] = [
        &["priority", "gang"],
        &["overcommit", "predicates", "proportion"],
    ];
    let with = |cpu: u32, phase: &str, made: usize| {
        let mut need = unmade(1, cpu);
        need["queue"] = json!("r");
        let scenario = Scenario::new(&conf("enqueue, allocate, reclaim", &tiers))
            .queue("r", &json!({}))
            .node("a", "4")
            .job("old", 0, "Running")
            .running("old", 0, &["a", "a", "a", "a"], "1")
            .job_with("new", 1, phase, &need)
            .waiting("new", made, &cpu.to_string());
        scenario.run_as(Compat::EVICTD)
    };
    // Half of the cluster is its queue's.
    assert_eq!(phase(&with(2, "Pending", 0), "new"), "Inqueue");
    assert_eq!(evicted(&with(2, "Inqueue", 1)).len(), 2);
    assert_eq!(phase(&with(3, "Pending", 0), "new"), "Pending");
}

#[test]
fn releasing_pods_count_as_ended_and_an_argument_disables_the_placement_check() {
    let going = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"},
    });
    let full = |conf: &str| {
        Scenario::new(conf)
            .node("a", "4")
            .job_with("new", 1, "Pending", &unmade(1, 4))
    };
    let leaving = full(&anything())
        .job("old", 0, "Running")
        .pod("old-work-0", "old", "3", &going);
    assert_eq!(phase(&leaving.run_as(only()), "new"), "Inqueue");
    let taken = |conf: &str| {
        let own = full(conf)
            .job("old", 0, "Running")
            .running("old", 0, &["a"], "1");
        phase(&own.run_as(only()), "new").to_owned()
    };
    let argument = format!(
        "{}configurations:\n- name: enqueue\n  arguments:\n    placementEnable: false\n",
        anything()
    );
    assert_eq!(taken(&anything()), "Pending");
    assert_eq!(taken(&argument), "Inqueue");
}
