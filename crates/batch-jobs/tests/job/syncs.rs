//! Bringing pods and status in line.

use super::support::{case, names, phase, pod, task, volcano};
use serde_json::{Value, json};

fn sync(case: Value) -> Value {
    volcano(case, json!({"action": "SyncJob"}))
}

fn created(answer: &Value) -> Vec<&str> {
    answer["createdPods"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn s6_030_a_new_status_has_a_condition_of_its_phase_in_place_of_the_older_one() {
    let mut job = case(
        "Running",
        json!([task("w", 1)]),
        json!([pod("w", 0, "Running")]),
    );
    job["job"]["status"]["conditions"] = json!([{"status": "Running"}, {"status": "Pending"}]);
    assert_eq!(
        sync(job.clone())["status"]["conditions"],
        json!(["Pending", "Running"])
    );
    // A kill adds one only if the phase may have changed.
    let mut aborted = job.clone();
    aborted["job"]["status"]["state"]["phase"] = json!("Aborted");
    let answer = volcano(aborted, json!({"action": "SyncJob"}));
    assert_eq!(
        answer["status"]["conditions"],
        json!(["Running", "Pending"])
    );
    let answer = volcano(job, json!({"action": "AbortJob"}));
    assert_eq!(
        answer["status"]["conditions"],
        json!(["Running", "Pending", "Aborting"])
    );
}

#[test]
fn s6_036_a_job_without_phase_is_initiated() {
    let mut job = case("", json!([task("w", 2)]), json!([]));
    job["job"]["spec"]["minAvailable"] = json!(1);
    job["podGroup"] = Value::Null;
    let answer = sync(job.clone());
    assert_eq!(
        (phase(&answer), &answer["status"]["minAvailable"]),
        ("Pending", &json!(1))
    );
    assert!(answer["podGroups"].get("train-u1").is_some());
    // No queue, no initiation.
    job["queue"] = json!({"metadata": {"name": "other"}});
    let answer = sync(job.clone());
    assert_eq!(
        answer["error"],
        "queue.scheduling.volcano.sh \"q\" not found"
    );
    assert_eq!((phase(&answer), &answer["podGroups"]), ("", &json!({})));
    job["job"]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:30:00Z");
    assert_eq!(sync(job).get("error"), None);
}

#[test]
fn s6_037_what_keeps_a_job_from_being_initiated_is_told() {
    let mut job = case("Pending", json!([task("w", 1)]), json!([]));
    job["job"]["spec"]["plugins"] = json!({"gpu": []});
    for phase in ["Pending", "Running"] {
        job["job"]["status"]["state"]["phase"] = json!(phase);
        let event = "ml/train Warning PluginError Execute plugin when job add failed, err: failed to get plugin gpu";
        assert_eq!(names(&sync(job.clone())["events"]), [event]);
    }
    let mut job = case("Pending", json!([task("w", 1)]), json!([]));
    job["job"]["spec"]["volumes"] = json!([{"mountPath": "/data", "volumeClaimName": "data"}]);
    let answer = sync(job);
    assert!(
        names(&answer["events"])[0].starts_with(
            "ml/train Warning PVCError Failed to create PVC, err: pvc data is not found"
        )
    );
    assert_eq!(phase(&answer), "Pending");
}

#[test]
fn s6_038_pods_are_made_once_the_group_was_let_in() {
    for (group, count) in [
        ("", 0),
        ("Pending", 0),
        ("Inqueue", 2),
        ("Running", 2),
        ("Unknown", 2),
    ] {
        let mut job = case("Pending", json!([task("w", 2)]), json!([]));
        job["podGroup"]["status"]["phase"] = json!(group);
        assert_eq!(created(&sync(job)).len(), count, "{group}");
    }
    // Until then the old counts decide.
    let mut job = case("Pending", json!([task("w", 2)]), json!([]));
    job["podGroup"]["status"]["phase"] = json!("Pending");
    job["job"]["spec"]["minAvailable"] = json!(0);
    assert_eq!(phase(&sync(job)), "Running");
}

#[test]
fn s6_039_the_newest_condition_of_the_group_is_told_unless_it_is_scheduled() {
    let told = |conditions: Value| {
        let mut job = case(
            "Pending",
            json!([task("w", 1)]),
            json!([pod("w", 0, "Pending")]),
        );
        job["podGroup"]["status"]["conditions"] = conditions;
        sync(job)["events"].take()
    };
    let condition = |kind: &str, minute: i32, holds: &str| {
        let since = format!("2026-01-01T00:{minute:02}:00Z");
        json!({"type": kind, "status": holds, "lastTransitionTime": since, "message": format!("at {minute}")})
    };
    let conditions = json!([
        condition("Unschedulable", 1, "True"),
        condition("Unschedulable", 3, "True"),
        condition("Scheduled", 2, "True"),
        condition("Unschedulable", 4, "False")
    ]);
    let event = "ml/train Warning PodGroupPending PodGroup ml:train unschedulable, reason: at 3";
    assert_eq!(told(conditions), json!([event]));
    let conditions = json!([
        condition("Unschedulable", 1, "True"),
        condition("Scheduled", 2, "True")
    ]);
    assert_eq!(told(conditions), json!([]));
}

#[test]
fn s6_040_pods_are_numbered_from_zero_and_those_beyond_are_deleted() {
    let pods = json!([
        pod("w", 1, "Running"),
        pod("w", 3, "Running"),
        pod("w", 12, "Running")
    ]);
    let answer = sync(case("Running", json!([task("w", 3)]), pods));
    assert_eq!(created(&answer), ["train-w-0", "train-w-2"]);
    assert_eq!(names(&answer["deletedPods"]), ["train-w-12", "train-w-3"]);
    let pods = json!([
        pod("w", 0, "Running"),
        pod("w", 1, "Running"),
        pod("w", 2, "Running")
    ]);
    let answer = sync(case("Running", json!([task("w", 1)]), pods));
    assert_eq!(names(&answer["deletedPods"]), ["train-w-1", "train-w-2"]);
}

#[test]
fn s6_041_a_pod_that_is_there_is_not_counted_and_one_that_cannot_be_made_ends_the_round() {
    let tasks = json!([task("a", 1), task("b", 2)]);
    let mut job = case("Pending", tasks.clone(), json!([pod("a", 0, "Running")]));
    job["notInCache"] = json!(["train-a-0"]);
    let answer = sync(job);
    assert_eq!(created(&answer), ["train-b-0", "train-b-1"]);
    assert_eq!(
        (&answer["status"]["running"], answer.get("error")),
        (&json!(0), None)
    );
    let mut job = case("Pending", tasks, json!([]));
    job["failCreate"] = json!(["train-b-1"]);
    let answer = sync(job);
    assert_eq!(answer["error"], "failed to create 1 pods of 2");
    let event =
        "ml/train Warning FailedCreate Error creating pods: [failed to create pod train-b-1";
    assert_eq!(names(&answer["events"]), [event]);
    assert_eq!(answer["status"]["taskStatusCount"], json!({}));
}

#[test]
fn s6_042_a_status_counts_pods_by_phase_and_task_and_keeps_the_rest() {
    let mut pods = [
        pod("a", 0, "Running"),
        pod("a", 1, "Odd"),
        pod("b", 0, "Failed"),
        pod("b", 1, "Running"),
        pod("b", 2, "Running"),
    ];
    pods[3]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:30:00Z");
    let mut job = case("Running", json!([task("a", 2), task("b", 2)]), json!(pods));
    job["job"]["status"]["retryCount"] = json!(2);
    job["job"]["status"]["controlledResources"] = json!({"x": "y"});
    job["job"]["status"]["minAvailable"] = json!(1);
    let status = sync(job)["status"].take();
    let counts = [
        "pending",
        "running",
        "succeeded",
        "failed",
        "unknown",
        "terminating",
    ];
    assert_eq!(
        counts.map(|key| status[key].as_i64().unwrap()),
        [0, 1, 0, 1, 1, 2]
    );
    let tasks = json!({"a": {"Running": 1, "Unknown": 1}, "b": {"Failed": 1}});
    assert_eq!(status["taskStatusCount"], tasks);
    let kept = ["retryCount", "version", "minAvailable"];
    assert_eq!(kept.map(|key| status[key].as_i64().unwrap()), [2, 1, 4]);
    assert_eq!(status["controlledResources"], json!({"x": "y"}));
}

fn depending(wait: Value, change: impl FnOnce(&mut Value)) -> usize {
    let mut worker = task("worker", 1);
    worker["dependsOn"] = wait;
    let pods = json!([
        pod("a", 0, "Running"),
        pod("a", 1, "Pending"),
        pod("b", 0, "Pending")
    ]);
    let mut job = case("Pending", json!([task("a", 2), task("b", 1), worker]), pods);
    change(&mut job);
    created(&sync(job)).len()
}

#[test]
fn s6_043_a_task_waits_for_those_that_it_depends_on() {
    let one = |_: &mut Value| {};
    let needs_one = |job: &mut Value| job["job"]["spec"]["tasks"][0]["minAvailable"] = json!(1);
    assert_eq!(depending(json!({"name": ["a"]}), one), 0);
    assert_eq!(depending(json!({"name": ["a"]}), needs_one), 1);
    assert_eq!(depending(json!({"name": ["a", "b"]}), needs_one), 0);
    assert_eq!(
        depending(json!({"name": ["a", "b"], "iteration": "any"}), needs_one),
        1
    );
    // `any` of one is all.
    assert_eq!(
        depending(json!({"name": ["b"], "iteration": "any"}), needs_one),
        0
    );
    let done = |job: &mut Value| job["pods"][2]["status"]["phase"] = json!("Succeeded");
    assert_eq!(depending(json!({"name": ["b"]}), done), 1);
    let not_ready = |job: &mut Value| {
        job["job"]["spec"]["tasks"][0]["minAvailable"] = json!(1);
        job["pods"][0]["status"]["containerStatuses"] = json!([{"ready": true}, {"ready": false}]);
    };
    assert_eq!(depending(json!({"name": ["a"]}), not_ready), 0);
    let unset = |job: &mut Value| job["job"]["spec"]["tasks"][0]["minAvailable"] = Value::Null;
    assert_eq!(depending(json!({"name": ["a"]}), unset), 1);
    assert_eq!(depending(json!({"name": ["nobody"]}), one), 0);
}
