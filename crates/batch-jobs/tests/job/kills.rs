//! Ending pods.

use super::support::{case, names, phase, pod, task, volcano};
use serde_json::{Value, json};

fn pods(phases: &[&str]) -> Value {
    let pods = phases.iter().zip(0..);
    pods.map(|(phase, index)| pod("w", index, phase)).collect()
}

fn job(phase: &str, phases: &[&str]) -> Value {
    let replicas = i32::try_from(phases.len()).unwrap();
    case(phase, json!([task("w", replicas)]), pods(phases))
}

#[test]
fn s6_029_soft_keeps_pods_that_ended_and_none_keeps_nothing() {
    let phases = ["Succeeded", "Failed", "Running", "Pending"];
    let answer = volcano(job("Running", &phases), json!({"action": "AbortJob"}));
    assert_eq!(names(&answer["keptPods"]), ["train-w-0", "train-w-1"]);
    let answer = volcano(job("Running", &phases), json!({"action": "RestartJob"}));
    assert_eq!(answer["keptPods"], json!([]));
}

#[test]
fn s6_031_a_kill_counts_only_what_is_ending() {
    let mut job = job("Running", &["Succeeded", "Running", "Running"]);
    job["pods"][2]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:30:00Z");
    let answer = volcano(job.clone(), json!({"action": "AbortJob"}));
    let status = &answer["status"];
    assert_eq!(
        (&status["terminating"], &status["succeeded"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(status["taskStatusCount"], json!({}));
    assert_eq!(names(&answer["keptPods"]), ["train-w-0", "train-w-2"]);
    // Some pods only: those alone are counted.
    let request = json!({"action": "RestartPod", "taskName": "w", "podName": "train-w-1"});
    let answer = volcano(job.clone(), request);
    assert_eq!(answer["status"]["terminating"], 1);
    // Nothing happens to a job that is being deleted.
    job["job"]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:30:00Z");
    let answer = volcano(job, json!({"action": "AbortJob"}));
    assert_eq!(
        (phase(&answer), &answer["status"]["version"]),
        ("Running", &json!(1))
    );
}

#[test]
fn s6_032_a_kill_that_fails_writes_no_status() {
    let mut job = job("Running", &["Running", "Running", "Succeeded"]);
    job["failDelete"] = json!(["train-w-1"]);
    let answer = volcano(job, json!({"action": "AbortJob"}));
    assert_eq!(answer["error"], "failed to kill 1 pods of 3");
    assert_eq!(
        (phase(&answer), &answer["status"]["version"]),
        ("Running", &json!(1))
    );
    assert_eq!(answer["cachedVersion"], 2);
    let event =
        "ml/train Warning FailedDelete Error deleting pods: [failed to delete pod train-w-1";
    assert_eq!(names(&answer["events"]), [event]);
    assert!(answer["podGroups"].get("train-u1").is_some());
}

#[test]
fn s6_033_a_full_kill_raises_the_version_and_deletes_the_group_and_a_target_does_not() {
    let answer = volcano(job("Running", &["Running"]), json!({"action": "AbortJob"}));
    assert_eq!(answer["status"]["version"], 2);
    assert_eq!(answer["podGroups"], json!({}));
    let answer = volcano(
        job("Running", &["Running"]),
        json!({"action": "RestartTask", "taskName": "w"}),
    );
    assert_eq!(answer["status"]["version"], 1);
    assert!(answer["podGroups"].get("train-u1").is_some());
}

#[test]
fn s6_034_on_the_last_attempt_pods_that_ended_stay() {
    let restarted = |retries: i32, most: i32| {
        let mut job = job("Running", &["Failed", "Running"]);
        job["job"]["status"]["retryCount"] = json!(retries);
        job["job"]["spec"]["maxRetry"] = json!(most);
        let answer = volcano(job, json!({"action": "RestartJob"}));
        names(&answer["keptPods"]).len()
    };
    assert_eq!((restarted(1, 3), restarted(2, 3)), (0, 1));
    assert_eq!((restarted(0, 1), restarted(0, 0)), (1, 1));
}

#[test]
fn s6_035_pods_are_marked_before_any_is_deleted_and_a_sync_deletes_marked_ones() {
    let mut failing = job("Running", &["Running", "Running"]);
    failing["failDelete"] = json!(["train-w-0", "train-w-1"]);
    let answer = volcano(failing, json!({"action": "AbortJob"}));
    assert_eq!(
        names(&answer["markedOutOfSync"]),
        ["train-w-0", "train-w-1"]
    );
    let mut marked = job("Running", &["Running", "Running"]);
    marked["pods"][0]["metadata"]["annotations"]["volcano.sh/controller-out-of-sync"] =
        json!("true");
    let answer = volcano(marked, json!({"action": "SyncJob"}));
    assert_eq!(names(&answer["deletedPods"]), ["train-w-0"]);
    let status = &answer["status"];
    assert_eq!(
        (&status["running"], &status["terminating"]),
        (&json!(2), &json!(1))
    );
}
