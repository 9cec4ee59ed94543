//! What changes in the cluster, as requests.

use super::support::{answer, case, pod, task};
use evictd_batch_jobs::job::JobInfo;
use evictd_batch_objects::{Compat, Job};
use serde_json::{Value, json};

fn handled(handler: &str, old: Value, new: Value, pods: Value) -> Value {
    let mut case = case("Running", json!([task("w", 2)]), pods);
    case["handler"] = json!(handler);
    case["old"] = old;
    case["new"] = new;
    answer(case, Compat::VOLCANO)["requests"].take()
}

fn event(requests: &Value) -> &str {
    requests[0]["event"].as_str().unwrap_or("none")
}

fn newer(mut pod: Value) -> Value {
    pod["metadata"]["resourceVersion"] = json!("6");
    pod
}

fn marked(mut pod: Value) -> Value {
    pod["metadata"]["annotations"]["volcano.sh/controller-out-of-sync"] = json!("true");
    pod
}

#[test]
fn s6_013_jobs_pods_and_groups_are_heard_of() {
    let old = pod("w", 0, "Pending");
    let requests = handled("addPod", Value::Null, old.clone(), json!([]));
    assert_eq!(event(&requests), "PodPending");
    let requests = handled(
        "updatePod",
        old.clone(),
        newer(pod("w", 0, "Running")),
        json!([old]),
    );
    assert_eq!(event(&requests), "PodRunning");
    let requests = handled(
        "deletePod",
        pod("w", 0, "Running"),
        Value::Null,
        json!([pod("w", 0, "Running")]),
    );
    assert_eq!(event(&requests), "PodEvicted");
}

#[test]
fn s6_014_a_request_names_job_task_pod_event_code_and_version() {
    let ended = json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137}}}]});
    let mut new = newer(pod("w", 0, "Failed"));
    new["status"] = ended;
    new["metadata"]["labels"]["volcano.sh/partition-id"] = json!("2");
    let old = pod("w", 0, "Running");
    let requests = handled("updatePod", old.clone(), new, json!([old]));
    let wanted = json!([{
        "namespace": "ml", "jobName": "train", "jobUid": "u1", "taskName": "w", "podName": "train-w-0",
        "partitionID": "2", "event": "PodFailed", "exitCode": 137, "action": "", "jobVersion": 1,
    }]);
    assert_eq!(requests, wanted);
}

#[test]
fn s6_015_pods_may_come_first_and_an_older_job_is_refused() {
    let mut info = JobInfo::default();
    let first: evictd_batch_objects::TaskPod =
        serde_json::from_value(pod("w", 0, "Running")).unwrap();
    info.set_pod(first.clone().into());
    assert!(info.job.is_none() && !info.is_gone());
    let job = |version: &str| -> Job {
        let mut job = case("Running", json!([task("w", 2)]), json!([]))["job"].take();
        job["metadata"]["resourceVersion"] = json!(version);
        serde_json::from_value(job).unwrap()
    };
    assert!(info.set_job(job("100")));
    assert!(!info.set_job(job("99")));
    assert!(info.set_job(job("101")));
    // Another job of the same name is not older.
    let mut other = job("7");
    other.metadata.uid = "u2".into();
    assert!(info.set_job(other));
    info.job = None;
    assert!(!info.is_gone());
    info.remove_pod(&first);
    assert!(info.is_gone());
}

#[test]
fn s6_047_changes_of_pods_become_events() {
    let table = [
        ("Pending", "Failed", "PodFailed"),
        ("Failed", "Failed", "OutOfSync"),
        ("Running", "Succeeded", "OutOfSync"),
        ("Pending", "Running", "PodRunning"),
        ("Running", "Running", "OutOfSync"),
        ("Running", "Pending", "PodPending"),
        ("Running", "Unknown", "OutOfSync"),
    ];
    for (before, after, wanted) in table {
        let old = pod("w", 0, before);
        let requests = handled(
            "updatePod",
            old.clone(),
            newer(pod("w", 0, after)),
            json!([old.clone()]),
        );
        assert_eq!(event(&requests), wanted, "{before} {after}");
        let requests = handled(
            "updatePod",
            old.clone(),
            newer(marked(pod("w", 0, after))),
            json!([old]),
        );
        assert_eq!(event(&requests), "OutOfSync", "{before} {after}, marked");
    }
    // The last pod of a task that succeeds.
    let others = json!([pod("w", 0, "Running"), pod("w", 1, "Succeeded")]);
    let requests = handled(
        "updatePod",
        pod("w", 0, "Running"),
        newer(pod("w", 0, "Succeeded")),
        others,
    );
    assert_eq!(event(&requests), "TaskCompleted");
    // The same state again; a pod that was never seen; one that does not say whose it is.
    let same = pod("w", 0, "Running");
    assert_eq!(
        handled("updatePod", same.clone(), same.clone(), json!([same])),
        json!([])
    );
    let requests = handled("deletePod", pod("w", 0, "Running"), Value::Null, json!([]));
    assert_eq!(event(&requests), "OutOfSync");
    for missing in ["job-name", "job-version", "task-spec"] {
        let mut pod = pod("w", 0, "Running");
        pod["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(&format!("volcano.sh/{missing}"));
        assert_eq!(
            handled("addPod", Value::Null, pod, json!([])),
            json!([]),
            "{missing}"
        );
    }
    let mut odd = pod("w", 0, "Running");
    odd["metadata"]["annotations"]["volcano.sh/job-version"] = json!("one");
    assert_eq!(handled("addPod", Value::Null, odd, json!([])), json!([]));
    let mut foreign = pod("w", 0, "Running");
    foreign["metadata"]["ownerReferences"][0]["apiVersion"] = json!("batch/v1");
    assert_eq!(
        handled("addPod", Value::Null, foreign, json!([])),
        json!([])
    );
}

#[test]
fn s6_048_a_group_that_changes_its_phase_asks_its_job() {
    let group = |phase: &str, owner: Value| json!({"metadata": {"name": "g", "namespace": "ml", "ownerReferences": owner}, "status": {"phase": phase}});
    let owner = json!([{"kind": "Job", "name": "train"}]);
    let requests = handled(
        "updatePodGroup",
        group("Pending", owner.clone()),
        group("Inqueue", owner.clone()),
        json!([]),
    );
    assert_eq!(
        (event(&requests), &requests[0]["jobName"]),
        ("", &json!("train"))
    );
    let requests = handled(
        "updatePodGroup",
        group("Running", json!([])),
        group("Unknown", json!([])),
        json!([]),
    );
    assert_eq!(
        (event(&requests), &requests[0]["jobName"]),
        ("Unknown", &json!("g"))
    );
    let requests = handled(
        "updatePodGroup",
        group("Running", owner.clone()),
        group("Running", owner),
        json!([]),
    );
    assert_eq!(requests, json!([]));
}

#[test]
fn s6_049_a_task_whose_containers_restart_too_often_has_failed() {
    let failing = |limit: i32, restarts: i32, phase: &str| {
        let mut pods = [pod("w", 0, phase), pod("w", 1, "Running")];
        pods[0]["status"]["initContainerStatuses"] = json!([{"restartCount": 1}]);
        pods[0]["status"]["containerStatuses"] = json!([{"restartCount": restarts - 1}]);
        let mut case = case("Running", json!([task("w", 2)]), json!(pods));
        case["job"]["spec"]["tasks"][0]["maxRetry"] = json!(limit);
        case["handler"] = json!("updatePod");
        case["old"] = pods[1].clone();
        case["new"] = newer(pods[1].clone());
        let answer = answer(case, Compat::VOLCANO);
        event(&answer["requests"]) == "TaskFailed"
    };
    assert!(failing(0, 3, "Running") && !failing(0, 2, "Running"));
    assert!(failing(5, 5, "Pending") && !failing(5, 4, "Pending"));
    assert!(!failing(-1, 100, "Running") && !failing(3, 3, "Failed"));
}

#[test]
fn s6_050_only_another_spec_or_phase_of_a_job_is_news() {
    let job = |version: &str, change: &dyn Fn(&mut Value)| {
        let mut job = case("Running", json!([task("w", 2)]), json!([]))["job"].take();
        job["metadata"]["resourceVersion"] = json!(version);
        change(&mut job);
        job
    };
    let changed = |old: &str, new: &str, change: &dyn Fn(&mut Value)| {
        let requests = handled("updateJob", job(old, &|_| {}), job(new, change), json!([]));
        event(&requests) == "OutOfSync"
    };
    assert!(changed("1", "2", &|job| job["spec"]["minAvailable"] = json!(1)));
    assert!(changed("1", "2", &|job| job["status"]["state"]["phase"] =
        json!("Failed")));
    assert!(!changed("1", "2", &|job| job["status"]["running"] = json!(1)));
    assert!(!changed("1", "1", &|job| job["spec"]["minAvailable"] = json!(1)));
}
