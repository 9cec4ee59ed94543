//! `evictd-batch simulate`.

use crate::batch;
use evictd_testkit::program::{self, answer, page, refusal, stderr, stdout};
use serde_json::{Value, json};
use std::process::Output;

fn simulate(input: &Value, arguments: &[&str]) -> Output {
    let mut command = batch();
    command.args(["simulate", "-"]).args(arguments);
    program::run(&mut command, input.to_string())
}

/// A node of two cores, and a gang of so many pods of one core.
fn gang(count: usize) -> Value {
    let pod = |index: usize| {
        json!({"metadata": {"name": format!("train-work-{index}"), "uid": index.to_string(),
                "annotations": {"scheduling.k8s.io/group-name": "train"}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"}})
    };
    json!({
        "nodes": [{"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9"}}}],
        "queues": [{"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
        "podGroups": [{"metadata": {"name": "train"}, "spec": {"minMember": count}, "status": {"phase": "Inqueue"}}],
        "pods": (0..count).map(pod).collect::<Vec<_>>(),
    })
}

#[test]
fn a_gang_that_fits_is_bound() {
    for form in ["volcano", "evictd"] {
        let output = simulate(&gang(2), &["-o", "json", "--form", form]);
        assert_eq!(stderr(&output), "");
        let answer = answer(&output);
        assert_eq!(
            answer["bound"],
            json!(["default/train-work-0", "default/train-work-1"])
        );
        assert_eq!(
            answer["queuesAfter"]["default"]["allocated"]["cpu"],
            json!(2000)
        );
    }
}

#[test]
fn upstream_pod_groups_are_jobs_and_an_ignored_one_is_shown_with_the_reason() {
    let mut input = gang(2);
    for pod in input["pods"].as_array_mut().unwrap() {
        pod["metadata"]["annotations"] = json!({});
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    }
    let group = |labels: Value| {
        json!([{"metadata": {"name": "train", "labels": labels},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}])
    };
    input["podGroups"] = json!([]);
    input["upstreamPodGroups"] = group(json!({}));
    let whole = answer(&simulate(&input, &["-o", "json"]));
    let scheduled = json!({"default/train@scheduling.k8s.io": "scheduled"});
    assert_eq!(whole["upstreamPodGroups"], scheduled);
    assert_eq!(whole["bound"].as_array().unwrap().len(), 2);
    let queue = json!({"scheduling.volcano.sh/queue-name": "gold"});
    input["upstreamPodGroups"] = group(queue);
    let whole = page(&simulate(&input, &["-o", "wide"]));
    let line = whole.lines().nth(3).unwrap();
    assert!(
        line.starts_with("default/train@scheduling.k8s.io"),
        "{whole}"
    );
    assert!(line.ends_with("queue \"gold\" does not exist"), "{whole}");
}

#[test]
fn the_page_of_a_session_is_a_table_of_jobs() {
    let whole = page(&simulate(&gang(3), &["-o", "wide"]));
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines[0], "0 pods are bound, 0 are evicted.");
    assert!(lines[2].starts_with("JOB"), "{whole}");
    assert!(lines[3].starts_with("default/train  Inqueue"), "{whole}");
    assert!(
        lines[3].contains("1/3 tasks in gang unschedulable"),
        "{whole}"
    );
}

#[test]
fn an_invalid_configuration_is_the_answer_and_exits_with_2() {
    let mut input = gang(1);
    input["conf"] = json!("actions: \"allocate, dance\"\n");
    let output = simulate(&input, &["-o", "json"]);
    let refused: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        refused,
        json!({"confError": "failed to find Action  dance"})
    );
    let message = refusal(&output, 2);
    assert!(
        message.contains("conf: line 1: actions: failed to find Action  dance"),
        "{message}"
    );
    // For people it is said once.
    assert_eq!(stdout(&simulate(&input, &[])), "");
}

#[test]
fn an_ignored_setting_is_a_warning() {
    let mut input = gang(1);
    input["conf"] =
        json!("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobRedy: false\n");
    let output = simulate(&input, &["-o", "json"]);
    let message = stderr(&output);
    assert!(
        message
            .contains("conf:5:5: tiers[0].plugins[0].enableJobRedy: unknown key, which is ignored"),
        "{message}"
    );
    answer(&output);
}

#[test]
fn mistakes_in_a_session_file_are_errors_with_their_places() {
    let message = refusal(&simulate(&json!({"nodes": 3}), &[]), 2);
    assert!(message.contains("nodes"), "{message}");
}

#[test]
fn b11_groups_of_coscheduling_are_told_apart_once_and_those_of_its_api_are_left_out() {
    let mut input = gang(2);
    for (pod, label) in input["pods"].as_array_mut().unwrap().iter_mut().zip([
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
    ]) {
        pod["metadata"]["annotations"] = json!({});
        pod["metadata"]["labels"] = json!({label: "train"});
    }
    input["podGroups"][0]["apiVersion"] = json!("scheduling.x-k8s.io/v1alpha1");
    let mut elsewhere = input["pods"][0].clone();
    elsewhere["metadata"]["name"] = json!("elsewhere");
    elsewhere["metadata"]["uid"] = json!("elsewhere");
    elsewhere["spec"]["schedulerName"] = json!("scheduler-plugins-scheduler");
    input["pods"].as_array_mut().unwrap().push(elsewhere);
    for (form, bound, treatment) in [
        ("evictd", 2, "start one by one"),
        ("volcano", 0, "wait for a PodGroup of scheduling.volcano.sh"),
    ] {
        let output = simulate(&input, &["-o", "json", "--form", form]);
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 3, "{said}");
        for part in [
            "podGroups[0]: PodGroups of scheduling.x-k8s.io/v1alpha1 are left out",
            "default/train is a group of the plugin Coscheduling (label scheduling.x-k8s.io/pod-group), which sessions",
            &format!("such pods of scheduler volcano {treatment}"),
            "scheduler scheduler-plugins-scheduler places its pods",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let answer = answer(&output);
        assert_eq!(answer["bound"].as_array().unwrap().len(), bound, "{form}");
        assert_eq!(answer["podGroups"].get("default/train"), None, "{form}");
    }
}
