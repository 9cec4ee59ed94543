//! Phases by actions.

use super::support::{case, phase, pod, task, volcano};
use evictd_batch_jobs::job::{Procedure, Retain, Rule, Target, procedure};
use evictd_batch_objects::JobPhase;
use evictd_batch_objects::bus::Action;
use serde_json::{Value, json};

fn soft(rule: Rule) -> Procedure {
    Procedure::Kill(Retain::Soft, rule)
}

/// The whole table but for what is asked below.
fn check(from: JobPhase, table: &[(Action, Procedure)], others: Procedure) {
    let all = [
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
        "SyncJob",
        "EnqueueJob",
        "SyncQueue",
        "OpenQueue",
        "CloseQueue",
        "Dance",
    ];
    for name in all {
        let action = Action::of(name);
        let wanted = table.iter().find(|(known, _)| *known == action);
        let wanted = wanted.map_or(others, |(_, procedure)| *procedure);
        assert_eq!(procedure(from, &action), wanted, "{from:?} {name}");
    }
}

fn starting() -> Vec<(Action, Procedure)> {
    vec![
        (Action::AbortJob, soft(Rule::Enter(JobPhase::Aborting))),
        (
            Action::TerminateJob,
            soft(Rule::Enter(JobPhase::Terminating)),
        ),
        (Action::CompleteJob, soft(Rule::Enter(JobPhase::Completing))),
        (
            Action::RestartJob,
            Procedure::Kill(Retain::None, Rule::Restart),
        ),
        (
            Action::RestartTask,
            Procedure::KillTarget(Target::Task, Rule::Restart),
        ),
        (
            Action::RestartPod,
            Procedure::KillTarget(Target::Pod, Rule::Restart),
        ),
        (
            Action::RestartPartition,
            Procedure::KillTarget(Target::Partition, Rule::Restart),
        ),
    ]
}

#[test]
fn s6_017_pending_ends_pods_or_synchronises() {
    check(
        JobPhase::Pending,
        &starting(),
        Procedure::Sync(Rule::WhilePending),
    );
}

#[test]
fn s6_017_an_unknown_target_changes_the_phase_and_an_unknown_partition_nothing() {
    let job = || {
        case(
            "Pending",
            json!([task("w", 1)]),
            json!([pod("w", 0, "Running")]),
        )
    };
    for action in ["RestartTask", "RestartPod"] {
        let request = json!({"action": action, "taskName": "x", "podName": "train-x-0"});
        let answer = volcano(job(), request);
        assert_eq!(phase(&answer), "Restarting");
        assert_eq!(answer["status"]["retryCount"], 1);
        assert_eq!(answer["keptPods"], json!(["train-w-0"]));
    }
    let request = json!({"action": "RestartPartition", "taskName": "w", "partitionID": "7"});
    let answer = volcano(job(), request);
    assert_eq!(
        (phase(&answer), &answer["status"]["retryCount"]),
        ("Pending", &json!(0))
    );
}

#[test]
fn s6_018_pending_becomes_running_with_enough_pods_that_started() {
    for (second, wanted) in [
        ("Failed", "Running"),
        ("Succeeded", "Running"),
        ("Pending", "Pending"),
    ] {
        let pods = json!([pod("w", 0, "Running"), pod("w", 1, second)]);
        let job = case("Pending", json!([task("w", 2)]), pods);
        assert_eq!(
            phase(&volcano(job, json!({"action": "SyncJob"}))),
            wanted,
            "{second}"
        );
    }
}

#[test]
fn s6_019_running_ends_pods_or_synchronises() {
    check(
        JobPhase::Running,
        &starting(),
        Procedure::Sync(Rule::WhileRunning),
    );
}

fn running(change: impl FnOnce(&mut Value), phases: [&str; 3]) -> String {
    let pods = [0, 1, 2].map(|index| pod("w", index, phases[usize::try_from(index).unwrap()]));
    let mut job = case("Running", json!([task("w", 3)]), json!(pods));
    change(&mut job["job"]["spec"]);
    phase(&volcano(job, json!({"action": "SyncJob"}))).to_owned()
}

#[test]
fn s6_020_a_job_whose_pods_are_all_done_is_completed_or_failed() {
    let few = |spec: &mut Value| {
        spec["minAvailable"] = json!(2);
        spec["tasks"][0]["minAvailable"] = json!(2);
    };
    assert_eq!(
        running(few, ["Succeeded", "Succeeded", "Failed"]),
        "Completed"
    );
    assert_eq!(running(few, ["Succeeded", "Failed", "Failed"]), "Failed");
    assert_eq!(
        running(few, ["Succeeded", "Succeeded", "Running"]),
        "Running"
    );
    let mut empty = case("Running", json!([task("w", 0)]), json!([]));
    empty["job"]["spec"]["minAvailable"] = json!(0);
    assert_eq!(
        phase(&volcano(empty, json!({"action": "SyncJob"}))),
        "Running"
    );
}

#[test]
fn s6_021_a_success_is_counted_by_job_and_by_task() {
    let success = |min: i32| {
        move |spec: &mut Value| {
            spec["minSuccess"] = json!(min);
            spec["minAvailable"] = json!(1);
            spec["tasks"][0]["minAvailable"] = json!(2);
        }
    };
    // Enough succeeded, although others run.
    assert_eq!(
        running(success(1), ["Succeeded", "Running", "Pending"]),
        "Completed"
    );
    assert_eq!(
        running(success(3), ["Succeeded", "Succeeded", "Failed"]),
        "Failed"
    );
    // The job as a whole would be complete, but for a task.
    let by_task = |min: i32| {
        move |spec: &mut Value| {
            spec["minAvailable"] = json!(1);
            spec["tasks"][0]["minAvailable"] = json!(min);
        }
    };
    assert_eq!(
        running(by_task(1), ["Succeeded", "Failed", "Failed"]),
        "Completed"
    );
    assert_eq!(
        running(by_task(2), ["Succeeded", "Failed", "Failed"]),
        "Completed"
    );
    let both = |spec: &mut Value| {
        spec["minAvailable"] = json!(2);
        spec["tasks"] = json!([task("w", 3)]);
        spec["tasks"][0]["minAvailable"] = json!(2);
    };
    assert_eq!(running(both, ["Succeeded", "Failed", "Failed"]), "Failed");
    // Too many wait again.
    let two = |spec: &mut Value| spec["minAvailable"] = json!(2);
    assert_eq!(running(two, ["Running", "Pending", "Pending"]), "Pending");
    assert_eq!(running(two, ["Running", "Running", "Pending"]), "Running");
}

#[test]
fn s6_022_restarting_synchronises_ends_a_target_or_all() {
    let rule = Rule::WhileRestarting;
    let table = [
        (Action::SyncJob, Procedure::Sync(rule)),
        (
            Action::RestartTask,
            Procedure::KillTarget(Target::Task, rule),
        ),
        (Action::RestartPod, Procedure::KillTarget(Target::Pod, rule)),
        (
            Action::RestartPartition,
            Procedure::KillTarget(Target::Partition, rule),
        ),
    ];
    check(
        JobPhase::Restarting,
        &table,
        Procedure::Kill(Retain::None, rule),
    );
    let restarting = |retries: i32, min: i32| {
        let pods = json!([pod("w", 0, "Running"), pod("w", 1, "Running")]);
        let mut job = case("Restarting", json!([task("w", 3)]), pods);
        job["job"]["status"]["retryCount"] = json!(retries);
        job["job"]["status"]["minAvailable"] = json!(min);
        phase(&volcano(job, json!({"action": "RestartJob"}))).to_owned()
    };
    // Three pods, of which two are ending.
    assert_eq!(restarting(0, 1), "Pending");
    assert_eq!(restarting(0, 2), "Restarting");
    assert_eq!(restarting(3, 1), "Failed");
}

#[test]
fn s6_023_aborting_ends_pods_until_none_is_left() {
    let resume = [(Action::ResumeJob, soft(Rule::Restart))];
    check(
        JobPhase::Aborting,
        &resume,
        soft(Rule::WhenEmpty(JobPhase::Aborted)),
    );
    let busy = case(
        "Aborting",
        json!([task("w", 1)]),
        json!([pod("w", 0, "Running")]),
    );
    let answer = volcano(busy, json!({"action": "SyncJob"}));
    assert_eq!(
        (phase(&answer), &answer["status"]["terminating"]),
        ("Aborting", &json!(1))
    );
    let quiet = case(
        "Aborting",
        json!([task("w", 1)]),
        json!([pod("w", 0, "Failed")]),
    );
    assert_eq!(
        phase(&volcano(quiet, json!({"action": "SyncJob"}))),
        "Aborted"
    );
}

#[test]
fn s6_024_aborted_waits_to_be_resumed() {
    let resume = [(Action::ResumeJob, soft(Rule::Restart))];
    check(JobPhase::Aborted, &resume, soft(Rule::Keep));
    let job = case("Aborted", json!([task("w", 1)]), json!([]));
    let answer = volcano(job, json!({"action": "ResumeJob"}));
    assert_eq!(
        (phase(&answer), &answer["status"]["retryCount"]),
        ("Restarting", &json!(1))
    );
}

#[test]
fn s6_025_completing_becomes_completed() {
    check(
        JobPhase::Completing,
        &[],
        soft(Rule::WhenEmpty(JobPhase::Completed)),
    );
    let job = case(
        "Completing",
        json!([task("w", 1)]),
        json!([pod("w", 0, "Succeeded")]),
    );
    assert_eq!(
        phase(&volcano(job, json!({"action": "ResumeJob"}))),
        "Completed"
    );
}

#[test]
fn s6_026_terminating_becomes_terminated() {
    check(
        JobPhase::Terminating,
        &[],
        soft(Rule::WhenEmpty(JobPhase::Terminated)),
    );
    let job = case(
        "Terminating",
        json!([task("w", 1)]),
        json!([pod("w", 0, "Succeeded")]),
    );
    assert_eq!(
        phase(&volcano(job, json!({"action": "ResumeJob"}))),
        "Terminated"
    );
}

#[test]
fn s6_027_a_final_phase_is_never_left() {
    for from in [JobPhase::Completed, JobPhase::Terminated, JobPhase::Failed] {
        check(from, &[], soft(Rule::Keep));
        let job = case(
            from.as_str(),
            json!([task("w", 1)]),
            json!([pod("w", 0, "Succeeded")]),
        );
        assert_eq!(
            phase(&volcano(job, json!({"action": "ResumeJob"}))),
            from.as_str()
        );
    }
}

#[test]
fn s6_028_actions_on_queues_synchronise_a_job_or_end_its_pods() {
    for name in ["EnqueueJob", "SyncQueue", "OpenQueue", "CloseQueue"] {
        let action = Action::of(name);
        for from in [JobPhase::Pending, JobPhase::Running] {
            assert!(matches!(procedure(from, &action), Procedure::Sync(_)));
            assert!(matches!(
                procedure(from, &Action::ResumeJob),
                Procedure::Sync(_)
            ));
        }
        let all = Procedure::Kill(Retain::None, Rule::WhileRestarting);
        assert_eq!(procedure(JobPhase::Restarting, &action), all);
        assert!(matches!(
            procedure(JobPhase::Aborted, &action),
            Procedure::Kill(Retain::Soft, _)
        ));
    }
}
