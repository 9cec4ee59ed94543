//! Events, policies and actions.

use super::support::{answer, case, pod, task};
use evictd_batch_jobs::job::{Choice, Delayed, Delays, Request, choose};
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Job, LifecyclePolicy};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn job(of_job: Value, of_task: Value) -> Job {
    let mut case = case("Running", json!([task("w", 2)]), json!([]));
    case["job"]["spec"]["policies"] = of_job;
    case["job"]["spec"]["tasks"][0]["policies"] = of_task;
    serde_json::from_value(case["job"].take()).unwrap()
}

fn request(event: Event) -> Request {
    Request {
        task_name: "w".to_owned(),
        pod_name: "train-w-0".to_owned(),
        pod_uid: "w-0".to_owned(),
        job_version: 1,
        ..Request::of_job("ml", "train", event)
    }
}

fn chosen(job: &Job, request: &Request) -> String {
    choose(job, request, Compat::VOLCANO)
        .action
        .as_str()
        .to_owned()
}

#[test]
fn s6_004_a_policy_names_events_or_an_exit_code_and_may_wait() {
    let text =
        json!({"action": "RestartJob", "events": ["PodFailed", "PodEvicted"], "timeout": "10m"});
    let policy: LifecyclePolicy = serde_json::from_value(text).unwrap();
    assert_eq!(policy.events, ["PodFailed", "PodEvicted"]);
    let text = json!({"action": "AbortJob", "exitCode": 137});
    let policy: LifecyclePolicy = serde_json::from_value(text).unwrap();
    assert_eq!((policy.exit_code, policy.timeout), (Some(137), None));
}

#[test]
fn a_policy_whose_timeout_is_no_duration_does_not_act_at_once() {
    for (timeout, action) in [("1d", "SyncJob"), ("5", "SyncJob"), ("24h", "AbortJob")] {
        let policy = json!([{"action": "AbortJob", "event": "PodFailed", "timeout": timeout}]);
        let job = job(policy, json!([]));
        assert_eq!(
            chosen(&job, &request(Event::PodFailed)),
            action,
            "{timeout}"
        );
    }
}

#[test]
fn s6_051_a_request_becomes_an_action_in_this_order() {
    let any = json!([{"action": "AbortJob", "event": "*"}]);
    let own = json!([{"action": "RestartTask", "event": "PodFailed"}]);
    let job = job(any, own);
    let failed = request(Event::PodFailed);
    // The task's policy comes before the job's.
    assert_eq!(chosen(&job, &failed), "RestartTask");
    assert_eq!(chosen(&job, &request(Event::PodEvicted)), "AbortJob");
    // An action that is named comes before all.
    let named = Request {
        action: Some(Action::CompleteJob),
        ..failed.clone()
    };
    assert_eq!(chosen(&job, &named), "CompleteJob");
    for internal in [Event::OutOfSync, Event::CommandIssued, Event::PodRunning] {
        assert_eq!(chosen(&job, &request(internal)), "SyncJob");
    }
    // Of another job, of older pods, of newer ones.
    let other = Request {
        job_uid: "u0".to_owned(),
        ..failed.clone()
    };
    assert_eq!(chosen(&job, &other), "SyncJob");
    let stale = Request {
        job_version: 0,
        ..failed.clone()
    };
    assert_eq!(chosen(&job, &stale), "SyncJob");
    let newer = Request {
        job_version: 2,
        job_uid: "u1".to_owned(),
        ..failed
    };
    assert_eq!(chosen(&job, &newer), "RestartTask");
    let job = self::job(json!([]), json!([]));
    assert_eq!(chosen(&job, &request(Event::PodFailed)), "SyncJob");
}

#[test]
fn s6_052_the_first_policy_with_the_event_or_the_exit_code_counts() {
    let policies = json!([
        {"action": "AbortJob", "exitCode": 3},
        {"action": "TerminateJob", "events": ["PodFailed", "Unknown"]},
        {"action": "CompleteJob", "event": "PodFailed"},
    ]);
    let job = job(policies, json!([]));
    let failed = request(Event::PodFailed);
    assert_eq!(chosen(&job, &failed), "TerminateJob");
    let with_code = Request {
        exit_code: 3,
        ..failed
    };
    assert_eq!(chosen(&job, &with_code), "AbortJob");
    // No event matches no policy, not even `*`, but an exit code.
    let job = self::job(json!([{"action": "AbortJob", "event": "*"}]), json!([]));
    assert_eq!(chosen(&job, &request(Event::None)), "SyncJob");
}

#[test]
fn s6_053_a_timeout_delays_and_pending_needs_one() {
    let policies = json!([
        {"action": "AbortJob", "event": "PodPending"},
        {"action": "RestartJob", "event": "*", "timeout": "1m30s"},
    ]);
    let job = job(policies, json!([]));
    let choice = choose(&job, &request(Event::PodPending), Compat::EVICTD);
    let wanted = Choice {
        action: Action::RestartJob,
        delay: Some(SignedDuration::from_secs(90)),
    };
    assert_eq!(choice, wanted);
}

fn delayed(event: Event, action: Action, pod: &str, seconds: i64) -> Delayed {
    let request = Request {
        pod_name: pod.to_owned(),
        pod_uid: format!("uid of {pod}"),
        ..request(event)
    };
    Delayed {
        request,
        action,
        due: Timestamp::from_second(seconds).unwrap(),
    }
}

#[test]
fn s6_053_one_action_a_pod_waits_until_the_pod_is_settled_or_another_one_is_taken() {
    let late = Timestamp::from_second(100).unwrap();
    let mut delays = Delays::default();
    assert!(delays.add(delayed(Event::PodPending, Action::RestartJob, "a", 10)));
    assert!(!delays.add(delayed(Event::PodPending, Action::RestartJob, "a", 20)));
    assert_eq!(delays.next(), Some(Timestamp::from_second(10).unwrap()));
    // Another pod of the same name settles nothing.
    let mut failed = delayed(Event::PodFailed, Action::SyncJob, "a", 0).request;
    failed.pod_uid = "another".to_owned();
    delays.settle(&failed);
    assert!(delays.next().is_some());
    failed.pod_uid = "uid of a".to_owned();
    delays.settle(&failed);
    assert_eq!(delays.next(), None);
    // A failure is settled by a pod that runs, and by nothing else.
    delays.add(delayed(Event::PodFailed, Action::RestartTask, "b", 10));
    delays.settle(&delayed(Event::PodEvicted, Action::SyncJob, "b", 0).request);
    assert!(delays.next().is_some());
    delays.settle(&delayed(Event::PodRunning, Action::SyncJob, "b", 0).request);
    assert_eq!(delays.next(), None);
    // An action settles those of its level: all that are about the job; those of the same task.
    delays.add(delayed(Event::PodFailed, Action::AbortJob, "a", 10));
    delays.add(delayed(Event::PodFailed, Action::RestartTask, "b", 20));
    let taken = delayed(Event::PodFailed, Action::RestartJob, "c", 0);
    delays.supersede(&taken.action, &taken.request);
    assert_eq!(delays.next(), Some(Timestamp::from_second(20).unwrap()));
    let mut other = taken.request.clone();
    other.task_name = "other".to_owned();
    delays.supersede(&Action::RestartTask, &other);
    assert_eq!(
        delays.due(late).map(|due| due.action),
        Some(Action::RestartTask)
    );
    assert_eq!(delays.due(late), None);
}

#[test]
fn s6_053_reconcile_says_how_long_an_action_waits() {
    let mut case = case(
        "Running",
        json!([task("w", 1)]),
        json!([pod("w", 0, "Failed")]),
    );
    let policy = json!({"action": "RestartJob", "event": "PodFailed", "timeout": "90s"});
    case["job"]["spec"]["policies"] = json!([policy]);
    case["request"] = json!({"event": "PodFailed", "taskName": "w", "jobVersion": 1});
    let wanted = json!({"action": "RestartJob", "delayed": true, "delaySeconds": 90});
    assert_eq!(answer(case, Compat::EVICTD), wanted);
}
