//! The pod of `plan`.

use crate::cluster::{cluster, list, pending, pod};
use crate::{plan, run};
use evictd_testkit::program::{answer, stderr};
use serde_json::{Value, json};

fn class(name: &str, value: i32, default: bool) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": name }, "value": value, "globalDefault": default,
    })
}

/// A pod that no API server has stored: a stored one is taken as it is.
fn unstored(priority: i32) -> Value {
    let mut pod = pending(priority);
    pod["metadata"].as_object_mut().unwrap().remove("uid");
    pod
}

/// The priority of a pod with these fields in its spec, and the exit code.
fn priority(spec: &Value, classes: &[Value]) -> (Value, String) {
    let mut pending = unstored(0);
    pending["spec"].as_object_mut().unwrap().remove("priority");
    for (key, value) in spec.as_object().unwrap() {
        pending["spec"][key] = value.clone();
    }
    let items = [cluster(), classes.to_vec()].concat();
    let output = plan(list(&items), &pending, &["-o", "json"]);
    if output.status.success() {
        (
            answer(&output)["preemptor"]["priority"].clone(),
            String::new(),
        )
    } else {
        assert_eq!(output.status.code(), Some(2));
        (Value::Null, stderr(&output))
    }
}

#[test]
fn the_priority_of_a_pod_is_that_of_its_class() {
    let classes = [
        class("gold", 700, false),
        class("some", 7, true),
        class("more", 70, true),
    ];
    let table = [
        (json!({ "priorityClassName": "gold" }), 700),
        (json!({ "priorityClassName": "gold", "priority": 3 }), 3),
        (
            json!({ "priorityClassName": "system-node-critical" }),
            2_000_001_000,
        ),
        // The lowest of several defaults counts.
        (json!({}), 7),
    ];
    for (spec, expected) in table {
        assert_eq!(priority(&spec, &classes).0, expected, "{spec}");
    }
    assert_eq!(priority(&json!({}), &[]).0, 0);
    let (_, error) = priority(&json!({ "priorityClassName": "golden" }), &classes);
    assert!(
        error.contains("shop/pending: spec.priorityClassName: \"golden\" is not in the input; known are gold, more, some, system-cluster-critical, system-node-critical"),
        "{error}"
    );
}

#[test]
fn a_class_may_forbid_its_pods_to_preempt() {
    let mut meek = class("meek", 700, false);
    meek["preemptionPolicy"] = json!("Never");
    let mut pending = unstored(0);
    pending["spec"] =
        json!({ "priorityClassName": "meek", "containers": pending["spec"]["containers"] });
    let items = [cluster(), vec![meek]].concat();
    let answer = answer(&plan(list(&items), &pending, &["-o", "json"]));
    assert_eq!(answer["eligible"], false);
    assert_eq!(
        answer["ineligibleReason"],
        "not eligible due to preemptionPolicy=Never."
    );
}

#[test]
fn limits_count_as_requests() {
    let mut limited = unstored(10);
    limited["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "2" } });
    let answer = answer(&plan(list(&cluster()), &limited, &["-o", "json"]));
    assert_eq!(answer["preemptor"]["requests"], "cpu 2");
    assert_eq!(answer["fitsWithoutPreemption"], false);
}

#[test]
fn the_pod_of_a_workload_is_its_template() {
    let spec = &pending(10)["spec"];
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": spec });
    let metadata = json!({ "name": "web", "namespace": "shop" });
    let deployment =
        json!({ "kind": "Deployment", "metadata": metadata, "spec": { "template": template } });
    let job = json!({ "spec": { "template": template } });
    let cron = json!({ "kind": "CronJob", "metadata": metadata, "spec": { "jobTemplate": job } });
    let list_of_one =
        json!({ "kind": "PodList", "items": [{ "metadata": metadata, "spec": spec }] });
    for manifest in [deployment, cron, list_of_one] {
        let answer = answer(&plan(list(&cluster()), &manifest, &["-o", "json"]));
        assert_eq!(answer["preemptor"]["pod"], "shop/web", "{manifest}");
        assert_eq!(
            answer["chosen"]["victims"],
            json!(["shop/cheap"]),
            "{manifest}"
        );
    }
}

#[test]
fn manifests_without_a_pod_are_refused() {
    let negative = {
        let mut pod = pending(10);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("-1");
        pod
    };
    let table = [
        (
            json!({ "kind": "Service", "metadata": { "name": "a" } }),
            "holds 0 pods; exactly one is needed: a Pod, a list with one, or a workload",
        ),
        (
            json!({ "a": 1 }),
            "is not a Kubernetes object, because it has no kind",
        ),
        (
            json!({ "kind": "PodList", "items": [] }),
            "holds 0 pods; exactly one is needed",
        ),
        (
            json!({ "kind": "Pod", "spec": { "priority": "high" } }),
            "spec.priority: invalid type: string \"high\"",
        ),
        (
            negative,
            "shop/pending: spec.containers[0].resources.requests.cpu: -1 is negative",
        ),
    ];
    for (manifest, expected) in table {
        let output = plan(list(&cluster()), &manifest, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains(expected),
            "{manifest}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_pod_that_is_also_in_the_dump_counts_once() {
    // Its nomination would otherwise take the room that it needs.
    let mut there = pending(10);
    there["status"]["nominatedNodeName"] = json!("one");
    let mut renamed = there.clone();
    renamed["metadata"]["name"] = json!("renamed");
    for there in [there, renamed] {
        let output = plan(
            list(&[cluster(), vec![there]].concat()),
            &pending(10),
            &["-o", "json"],
        );
        assert_eq!(answer(&output)["chosen"]["victims"], json!(["shop/cheap"]));
        assert!(
            stderr(&output).contains(
                "the pod of --pod is also in the input, where it is ignored: shop/pending"
            )
        );
    }
}

#[test]
fn a_pending_pod_of_the_cluster_is_found_by_its_name() {
    let items = list(&[cluster(), vec![pending(10)]].concat());
    let answer = answer(&run(&items, &["--pod", "shop/pending", "-o", "json"]));
    assert_eq!(answer["chosen"]["victims"], json!(["shop/cheap"]));
    let table = [
        (
            "shop/absent",
            "--pod shop/absent: is not a file, and no pod of that name is in the input; of a workload its manifest is needed",
        ),
        ("shop/dear", "--pod shop/dear: is already on node one"),
        (
            "pending.yaml",
            "--pod pending.yaml: there is no such file, and no pod has such a name",
        ),
        ("-", "only one file can be - (stdin)"),
    ];
    for (name, expected) in table {
        let output = run(&items, &["--pod", name]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn pending_and_ended_pods_take_no_room() {
    let mut ended = pod("ended", "one", 20);
    ended["status"]["phase"] = json!("Succeeded");
    let items = [cluster(), vec![ended, pod("waits", "", 20)]].concat();
    let answer = answer(&plan(list(&items), &pending(10), &["-o", "json"]));
    assert_eq!(answer["chosen"]["victims"], json!(["shop/cheap"]));
}
