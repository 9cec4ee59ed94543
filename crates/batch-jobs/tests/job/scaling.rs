//! Scaling down, resuming and evictions: which pods end, and which restarts count as retries. Both sides of each switch.

use super::support::{answer, asked, case, names, ours, phase, pod, task, volcano};
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

/// A job of so many pods that are wanted, with these pods, and a policy for evictions.
fn evictable(replicas: i32, pods: Value, action: &str) -> Value {
    let mut case = case("Running", json!([task("w", replicas)]), pods);
    case["job"]["spec"]["policies"] = json!([{"event": "PodEvicted", "action": action}]);
    case
}

fn deleted(mut case: Value, name: &str, compat: Compat) -> Value {
    let pods = case["pods"].as_array().unwrap();
    let gone = pods.iter().find(|pod| pod["metadata"]["name"] == name);
    case["old"] = gone.unwrap().clone();
    case["handler"] = "deletePod".into();
    answer(case, compat)["requests"][0]["event"].take()
}

#[test]
fn s6_044_a_surplus_pod_is_marked_and_its_end_is_no_eviction() {
    let pods = json!([pod("w", 0, "Running"), pod("w", 1, "Running")]);
    let case = evictable(1, pods, "TerminateJob");
    let request = json!({"event": "OutOfSync"});
    let evictd = ours(case.clone(), request.clone());
    assert_eq!(names(&evictd["deletedPods"]), ["train-w-1"]);
    assert_eq!(phase(&evictd), "Running");
    // Also where it was deleted without a mark.
    let without = Compat::EVICTD.without(Difference::SurplusIsNotEvicted);
    assert_eq!(
        deleted(case.clone(), "train-w-1", Compat::EVICTD),
        "OutOfSync"
    );
    assert_eq!(deleted(case, "train-w-1", without), "PodEvicted");
    // A pod that is needed is evicted.
    let needed = evictable(
        2,
        json!([pod("w", 0, "Running"), pod("w", 1, "Running")]),
        "TerminateJob",
    );
    assert_eq!(deleted(needed, "train-w-1", Compat::EVICTD), "PodEvicted");
}

#[test]
fn s6_044_pods_that_wait_end_first_and_those_that_run_stay() {
    let pods = json!([
        pod("w", 0, "Pending"),
        pod("w", 1, "Running"),
        pod("w", 2, "Running"),
        pod("w", 3, "Succeeded"),
    ]);
    let case = |plugins: Value| {
        let mut case = evictable(3, pods.clone(), "RestartJob");
        case["job"]["spec"]["plugins"] = plugins;
        case
    };
    let request = json!({"event": "OutOfSync"});
    let evictd = ours(case(json!({})), request.clone());
    assert_eq!(names(&evictd["deletedPods"]), ["train-w-0"]);
    assert_eq!(evictd["createdPods"], json!({}));
    let theirs = volcano(case(json!({})), request.clone());
    assert_eq!(names(&theirs["deletedPods"]), ["train-w-3"]);
    // With a plugin that names hosts by index, the pod with the highest index ends.
    let hosts = ours(case(json!({"svc": []})), request);
    assert_eq!(names(&hosts["deletedPods"]), ["train-w-3"]);
}

#[test]
fn s6_040_as_many_pods_are_created_as_are_missing_whatever_the_indices_of_the_others() {
    let pods = json!([pod("w", 2, "Running")]);
    let evictd = ours(
        evictable(2, pods, "RestartJob"),
        json!({"event": "OutOfSync"}),
    );
    let created: Vec<&String> = evictd["createdPods"].as_object().unwrap().keys().collect();
    assert_eq!(created, ["train-w-0"]);
    assert_eq!(names(&evictd["deletedPods"]), [""; 0]);
}

#[test]
fn s6_026_a_resume_uses_up_no_retry() {
    let case = || {
        let mut case = case("Aborted", json!([task("w", 2)]), json!([]));
        case["job"]["status"]["retryCount"] = json!(2);
        asked(
            case,
            json!({"action": "ResumeJob", "event": "CommandIssued"}),
        )
    };
    let evictd = answer(case(), Compat::EVICTD)["status"].take();
    assert_eq!(
        (&evictd["retryCount"], &evictd["phase"]),
        (&json!(2), &json!("Restarting"))
    );
    let without = Compat::EVICTD.without(Difference::ResumeKeepsRetries);
    assert_eq!(answer(case(), without)["status"]["retryCount"], 3);
}

#[test]
fn s6_019_a_restart_for_an_eviction_uses_up_no_retry_and_one_for_a_failure_does() {
    for action in [
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
    ] {
        uses_up_no_retry(action);
    }
}

fn uses_up_no_retry(action: &str) {
    let case = |event: &str| {
        let pods = json!([pod("w", 0, "Running"), pod("w", 1, "Running")]);
        let mut case = evictable(2, pods, action);
        if action == "RestartPartition" {
            let task = &mut case["job"]["spec"]["tasks"][0];
            task["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 1});
            for (index, pod) in case["pods"].as_array_mut().unwrap().iter_mut().enumerate() {
                pod["metadata"]["labels"]["volcano.sh/partition-id"] = json!(index.to_string());
            }
        }
        case["job"]["spec"]["policies"][0]["events"] = json!(["PodEvicted", "PodFailed"]);
        case["job"]["status"]["retryCount"] = json!(2);
        asked(
            case,
            json!({"event": event, "taskName": "w", "podName": "train-w-1", "partitionID": "1", "jobVersion": 1}),
        )
    };
    let retries = |event, compat| {
        let status = answer(case(event), compat)["status"].take();
        assert_eq!(status["phase"], "Restarting", "{action}");
        status["retryCount"].clone()
    };
    assert_eq!(retries("PodEvicted", Compat::EVICTD), 2);
    assert_eq!(retries("PodFailed", Compat::EVICTD), 3);
    let without = Compat::EVICTD.without(Difference::EvictionKeepsRetries);
    assert_eq!(retries("PodEvicted", without), 3);
}

#[test]
fn s6_051_a_job_whose_gang_holds_without_the_evicted_pod_can_ask_for_less_than_a_restart() {
    let case = |least: i32, action: &str| {
        let pods: Vec<Value> = (0..7).map(|index| pod("w", index, "Running")).collect();
        let mut case = evictable(8, json!(pods), "RestartJob");
        let spec = &mut case["job"]["spec"];
        spec["minAvailable"] = json!(least);
        spec["tasks"][0]["minAvailable"] = json!(least);
        case["job"]["metadata"]["annotations"] =
            json!({"batch.evictd.dev/evicted-above-min-available": action});
        asked(
            case,
            json!({"event": "PodEvicted", "taskName": "w", "podName": "train-w-7", "jobVersion": 1}),
        )
    };
    let action = |case: Value, compat| answer(case, compat)["action"].take();
    assert_eq!(
        action(case(4, "RestartTask"), Compat::EVICTD),
        "RestartTask"
    );
    assert_eq!(action(case(4, "SyncJob"), Compat::EVICTD), "SyncJob");
    // The gang does not hold, or the action is none of the three, or the switch is off.
    assert_eq!(action(case(8, "SyncJob"), Compat::EVICTD), "RestartJob");
    assert_eq!(action(case(4, "AbortJob"), Compat::EVICTD), "RestartJob");
    let without = Compat::EVICTD.without(Difference::EvictedAboveMinimum);
    assert_eq!(action(case(4, "SyncJob"), without), "RestartJob");
}
