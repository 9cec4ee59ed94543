//! What is said at the end.

use crate::scenario::{Scenario, conf, events_of};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Setting};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use evictd_pod::wire;
use serde_json::json;

const GANG: &[&str] = &["priority", "gang"];

fn gangs() -> Scenario {
    Scenario::new(&conf("allocate", &[GANG, &["predicates"]])).node("a", "2")
}

#[test]
fn s6_120_jobs_with_too_few_pods_are_not_taken_up() {
    let roles = json!({"minTaskMember": {"work": 1, "ps": 1}});
    let outcome = gangs()
        .job("few", 3, "Inqueue")
        .waiting("few", 2, "1")
        .job_with("roles", 2, "Inqueue", &roles)
        .waiting("roles", 2, "1")
        .job_with("loose", 1, "Inqueue", &roles)
        .waiting("loose", 2, "1")
        .run();
    let invalid = |job: &str| {
        let own = &outcome.invalid_jobs[&format!("default/{job}")];
        (own.reason.clone(), own.message.clone())
    };
    assert_eq!(
        invalid("few"),
        (
            "NotEnoughTasks".to_owned(),
            "Not enough valid tasks for gang-scheduling, valid: 2, min: 3".to_owned()
        )
    );
    assert_eq!(
        invalid("roles"),
        (
            "NotEnoughPodsOfTask".to_owned(),
            "Not enough valid pods of each task for gang-scheduling".to_owned()
        )
    );
    assert_eq!(
        outcome.invalid_jobs.len(),
        2,
        "fewer than the roles add up to: they do not count"
    );
    assert!(
        outcome
            .bound
            .iter()
            .all(|pod| pod.starts_with("default/loose"))
    );
}

#[test]
fn s6_121_pods_that_ask_for_nothing_count_for_the_gang() {
    let outcome = gangs()
        .job("j", 2, "Inqueue")
        .pod("j-work-0", "j", "1", &json!({}))
        .pod("j-work-1", "j", "0", &json!({}))
        .run();
    assert_eq!(outcome.bound, ["default/j-work-0"]);
    // By role, too, if the roles add up to no more than the gang.
    let roles = json!({"minTaskMember": {"work": 1, "ps": 1}});
    let ps = |cpu: &str| {
        gangs()
            .job_with("j", 2, "Inqueue", &roles)
            .pod("j-work-0", "j", "1", &json!({}))
            .pod("j-work-1", "j", "1", &json!({}))
            .pod(
                "j-ps-2",
                "j",
                cpu,
                &json!({"metadata": {"annotations": {"volcano.sh/task-spec": "ps"}}}),
            )
            .run()
            .bound
            .len()
    };
    assert_eq!(
        ps("5"),
        0,
        "two of its pods fit, but not the one that it needs"
    );
    assert_eq!(ps("0"), 2);
}

#[test]
fn s6_123_a_gang_has_a_condition_that_says_whether_it_starts() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    let outcome = gangs()
        .job("good", 1, "Inqueue")
        .waiting("good", 1, "1")
        .job("bad", 2, "Inqueue")
        .waiting("bad", 2, "1")
        .job("going", 1, "Running")
        .pod("going-work-0", "going", "0", &going)
        .job("none", 1, "Running")
        .run();
    let conditions = |job: &str| {
        let own = &outcome.pod_groups[&format!("default/{job}")].conditions;
        let own = own
            .iter()
            .map(|own| format!("{} {} {}", own.kind, own.status, own.reason));
        own.collect::<Vec<_>>()
    };
    assert_eq!(
        conditions("good"),
        ["Scheduled True tasks in gang are ready to be scheduled"]
    );
    assert_eq!(conditions("bad"), ["Unschedulable True NotEnoughResources"]);
    let message = &outcome.pod_groups["default/bad"].conditions[0].message;
    let wanted = "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; \
                  Pending: 1 Schedulable, 1 Unschedulable. Origin reason is bad-work-1: \
                  0/1 nodes are unavailable: 1 Insufficient cpu.";
    assert_eq!(message, wanted);
    assert!(conditions("going").is_empty() && conditions("none").is_empty());
}

#[test]
fn s6_138_phases() {
    let there =
        |phase: &str, node: &str| json!({"spec": {"nodeName": node}, "status": {"phase": phase}});
    let outcome = gangs()
        .job("runs", 1, "Inqueue")
        .running("runs", 0, &["a"], "500m")
        .job("done", 1, "Running")
        .pod("done-work-0", "done", "1", &there("Succeeded", "a"))
        .job("unknown", 2, "Running")
        .running("unknown", 0, &["a"], "500m")
        .pod("unknown-work-1", "unknown", "9", &json!({}))
        .job("fallen", 1, "Running")
        .job("waits", 1, "Inqueue")
        .pod("waits-work-0", "waits", "9", &json!({}))
        .job("new", 1, "Inqueue")
        .waiting("new", 1, "1")
        .job("empty", 0, "Running")
        .run();
    let phase = |job: &str| outcome.phases[&format!("default/{job}")].as_str();
    assert_eq!(phase("runs"), "Running");
    assert_eq!(phase("done"), "Completed");
    assert_eq!(phase("unknown"), "Unknown");
    assert_eq!(phase("fallen"), "Pending");
    assert_eq!(phase("waits"), "Inqueue");
    assert_eq!(phase("new"), "Inqueue", "it was only bound in this session");
    assert_eq!(phase("empty"), "Completed");
}

#[test]
fn s6_139_a_pod_has_its_condition_written_once() {
    let scenario = gangs().job("j", 2, "Inqueue").waiting("j", 2, "2");
    let outcome = scenario.run();
    let first = &outcome.pod_conditions["default/j-work-0"];
    assert_eq!(first.reason, "Schedulable");
    let second = &outcome.pod_conditions["default/j-work-1"];
    assert_eq!(
        (
            second.reason.as_str(),
            second.status.as_str(),
            second.message.as_str()
        ),
        (
            "Unschedulable",
            "False",
            "0/1 nodes are unavailable: 1 Insufficient cpu."
        )
    );
    assert_eq!(
        events_of(&outcome, "j-work-1"),
        ["Warning FailedScheduling 0/1 nodes are unavailable: 1 Insufficient cpu."]
    );
    // A job with nothing to say of a pod alone says what there is to say of it all.
    let early = Scenario::new(&conf("enqueue", &[GANG]))
        .job("k", 1, "Inqueue")
        .waiting("k", 1, "1")
        .run();
    let message = &early.pod_conditions["default/k-work-0"].message;
    assert_eq!(
        message,
        "pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable"
    );
}

#[test]
fn s6_139_a_condition_that_is_being_written_is_not_reported_again_until_a_watch_shows_another_one()
{
    let objects = gangs()
        .job("j", 2, "Inqueue")
        .waiting("j", 2, "2")
        .objects();
    let conf = Conf::read(&objects.conf).unwrap();
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        cluster.add_node(node);
    }
    let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
    let pod = "default/j-work-1";
    let reported = |cache: &mut Cache, cluster: &mut Cluster| {
        let mut outcome = cache.session(cluster, &conf, Compat::EVICTD);
        outcome.pod_conditions.remove(pod)
    };
    let condition = reported(&mut cache, &mut cluster).unwrap();
    cache.assume_condition(&condition);
    assert_eq!(reported(&mut cache, &mut cluster), None);
    // An event from before the write.
    let mut older = objects.pods[1].clone();
    assert_eq!(older.metadata.full_name(), pod);
    cache.pod(&mut cluster, &older);
    assert_eq!(reported(&mut cache, &mut cluster), None);
    cache.forget_condition(&condition.id);
    assert_eq!(reported(&mut cache, &mut cluster), Some(condition.clone()));
    // Another writer has changed the condition since.
    cache.assume_condition(&condition);
    older.status.conditions = vec![wire::Condition {
        kind: "PodScheduled".into(),
        status: true.into(),
        ..wire::Condition::default()
    }];
    cache.pod(&mut cluster, &older);
    assert_eq!(reported(&mut cache, &mut cluster), Some(condition));
}

#[test]
fn s6_140_a_group_has_events_about_its_state() {
    let outcome = gangs()
        .job("old", 1, "Pending")
        .running("old", 0, &["a"], "1")
        .job("j", 1, "Inqueue")
        .waiting("j", 2, "1")
        .run();
    assert_eq!(
        events_of(&outcome, "old"),
        ["Normal Scheduled pod group is ready"]
    );
    let wanted = "Warning Unschedulable 1/2 tasks in gang unschedulable: pod group is ready, 1 Binding, \
                  1 Pending, 1 minAvailable; Pending: 1 Unschedulable. Origin reason is j-work-1: \
                  0/1 nodes are unavailable: 1 Insufficient cpu.";
    assert_eq!(events_of(&outcome, "j"), [wanted]);
}

#[test]
fn queues_show_what_their_tasks_hold_also_of_those_below() {
    let outcome = Scenario::new(&conf("allocate", &[GANG]))
        .queue("root", &json!({}))
        .queue("upper", &json!({}))
        .queue("lower", &json!({"parent": "upper"}))
        .node("a", "4")
        .job_with("j", 1, "Inqueue", &json!({"queue": "lower"}))
        .waiting("j", 1, "1500m")
        .run();
    for queue in ["root", "upper", "lower"] {
        assert_eq!(outcome.queue_allocated[queue]["cpu"], "1500m", "{queue}");
        assert_eq!(outcome.queue_allocated[queue]["pods"], "1");
    }
    assert_eq!(outcome.queue_allocated["q"]["cpu"], "0");
    assert!(!outcome.queue_allocated["q"].contains_key("pods"));
}
