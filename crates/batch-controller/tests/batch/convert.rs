//! `evictd-batch convert`: queues from the objects of Kueue.

use crate::batch;
use evictd_batch_admission::{Endpoint, Known, Request, Settings, admit};
use evictd_testkit::program::{self, stderr, stdout};
use serde_json::{Value, json};

const KUEUE: &str = r"apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  cohortName: science
  namespaceSelector: {matchLabels: {team: research}}
  queueingStrategy: StrictFIFO
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 10, borrowingLimit: 5, lendingLimit: 4}
      - {name: memory, nominalQuota: 20Gi}
    - name: reserved
      resources:
      - {name: cpu, nominalQuota: 2, borrowingLimit: 0}
      - {name: memory, nominalQuota: 4Gi}
  stopPolicy: Hold
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: teaching}
spec:
  cohort: science
  namespaceSelector: {}
  fairSharing: {weight: 3}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: spot, resources: [{name: cpu, nominalQuota: 6}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: alone}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: spot, resources: [{name: cpu, nominalQuota: 1}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: science}
spec:
  parentName: university
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: spot, resources: [{name: cpu, nominalQuota: 100}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: lab}
spec: {clusterQueue: research}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: spot}
spec: {nodeLabels: {cloud: spot}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: AdmissionCheck
metadata: {name: provisioning}
";

fn converted(text: &str) -> (Vec<Value>, String) {
    let output = program::run(batch().args(["convert", "-"]), text);
    assert!(output.status.success(), "{}", stderr(&output));
    let queues = stdout(&output);
    let queues = queues.split("---\n").filter(|text| !text.trim().is_empty());
    let queues = queues.map(|text| serde_saphyr::from_str(text).unwrap());
    (queues.collect(), stderr(&output))
}

#[test]
fn c17_cohorts_and_cluster_queues_become_queues_with_their_amounts() {
    let (queues, _) = converted(KUEUE);
    let spec = |name: &str| {
        let mut named = queues.iter();
        let queue = named
            .find(|queue| queue["metadata"]["name"] == name)
            .unwrap();
        assert_eq!(queue["kind"], "Queue");
        assert_eq!(queue["apiVersion"], "scheduling.volcano.sh/v1beta1");
        queue["spec"].clone()
    };
    let names = queues
        .iter()
        .map(|queue| queue["metadata"]["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert_eq!(
        names,
        ["university", "science", "research", "teaching", "alone"]
    );
    // The quotas of the members and those of the cohort itself.
    let all = json!({ "cpu": "118", "memory": "24Gi" });
    let guarantee = json!({ "resource": { "cpu": "6" } });
    assert_eq!(
        spec("university"),
        json!({ "deserved": all, "capability": all, "guarantee": guarantee })
    );
    assert_eq!(
        spec("science"),
        json!({ "parent": "university", "deserved": all, "guarantee": guarantee })
    );
    assert_eq!(
        spec("research"),
        json!({ "parent": "science", "deserved": { "cpu": "12", "memory": "24Gi" }, "capability": { "cpu": "17" },
            "guarantee": { "resource": { "cpu": "6" } }, "dequeueStrategy": "fifo" })
    );
    assert_eq!(
        spec("teaching"),
        json!({ "parent": "science", "weight": 3, "deserved": { "cpu": "6" }, "dequeueStrategy": "traverse" })
    );
    assert_eq!(
        spec("alone"),
        json!({ "deserved": { "cpu": "1" }, "capability": { "cpu": "1" }, "dequeueStrategy": "traverse" })
    );
}

#[test]
fn c17_what_has_no_counterpart_is_named_with_its_place() {
    let (_, notes) = converted(KUEUE);
    for line in [
        "standard input:6:22: ClusterQueue research: spec.namespaceSelector: queues are open to every namespace",
        "spec.resourceGroups[0].flavors: the quotas of the flavors spot, reserved are added up",
        "ClusterQueue research: spec.stopPolicy: close the queue after it was created",
        "LocalQueue lab/main: spec.clusterQueue: queues have no namespace: jobs of this one name the queue themselves (spec.queue: research)",
        "ResourceFlavor spot: spec.nodeLabels: queues choose nodes by groups",
        "AdmissionCheck: has no counterpart, and is left out",
    ] {
        assert!(notes.contains(line), "{line:?} is not in\n{notes}");
    }
    assert!(!notes.contains("teaching"), "{notes}");
}

/// The answer of the webhook to each queue in order, with the earlier ones as existing queues.
fn denials(queues: &[Value]) -> Vec<String> {
    let mut known = Known::default();
    let answers = queues.iter().filter_map(|queue| {
        let request = Request {
            endpoint: Endpoint::QueuesValidate,
            operation: "CREATE",
            name: queue["metadata"]["name"].as_str().unwrap(),
            namespace: "",
            object: queue,
            old_object: None,
        };
        let verdict = admit(&request, &known, &Settings::default());
        known.set_queue(serde_json::from_value(queue.clone()).unwrap());
        verdict.denied
    });
    answers.collect()
}

fn cluster_queue(name: &str, cohort: &str, cpu: &Value) -> Value {
    let mut quota = json!({ "name": "cpu" });
    for (key, value) in cpu.as_object().unwrap() {
        quota[key] = value.clone();
    }
    json!({ "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": { "name": name },
        "spec": { "cohort": cohort, "namespaceSelector": {}, "preemption": { "reclaimWithinCohort": "Any" },
            "resourceGroups": [{ "flavors": [{ "name": "f", "resources": [quota] }] }] } })
}

fn cohort(name: &str, parent: &str) -> Value {
    json!({ "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": { "name": name },
        "spec": { "parentName": parent } })
}

fn converted_list(list: &[Value]) -> (Vec<Value>, String) {
    converted(&json!(list).to_string())
}

fn names_and_parents(queues: &[Value]) -> Vec<[&str; 2]> {
    let texts = queues.iter().map(|queue| {
        [&queue["metadata"]["name"], &queue["spec"]["parent"]]
            .map(|text| text.as_str().unwrap_or_default())
    });
    let mut texts: Vec<[&str; 2]> = texts.collect();
    texts.sort_unstable();
    texts
}

#[test]
fn c17_converted_queues_pass_the_webhook_in_their_order() {
    let (queues, _) = converted(KUEUE);
    assert_eq!(denials(&queues), [""; 0]);
    // Less is lent than the quota is, and more may be borrowed than the cohort has.
    let greedy = json!({ "nominalQuota": 2, "borrowingLimit": 100, "lendingLimit": 1 });
    let modest = json!({ "nominalQuota": 3, "borrowingLimit": 1, "lendingLimit": 1 });
    let (queues, notes) = converted_list(&[
        cluster_queue("greedy", "lower", &greedy),
        cluster_queue("modest", "lower", &modest),
        cohort("lower", "upper"),
    ]);
    assert_eq!(denials(&queues), [""; 0]);
    let capability = queues
        .iter()
        .map(|queue| queue["spec"]["capability"]["cpu"].as_str());
    let capability: Vec<Option<&str>> = capability.collect();
    assert_eq!(capability, [Some("5"), None, Some("5"), Some("4")]);
    for queue in &queues[..2] {
        assert_eq!(queue["spec"]["guarantee"]["resource"]["cpu"], "3");
    }
    assert_eq!(notes, "");
}

#[test]
fn c17_a_cluster_queue_with_the_name_of_its_cohort_and_a_circle_of_cohorts_are_converted() {
    let queue = cluster_queue("a", "a", &json!({ "nominalQuota": 2 }));
    let (queues, notes) = converted_list(&[queue, cohort("a", "b"), cohort("b", "a")]);
    assert_eq!(
        names_and_parents(&queues),
        [["a", "cohort-a"], ["b", ""], ["cohort-a", ""]]
    );
    let of_cohort = queues
        .iter()
        .find(|queue| queue["metadata"]["name"] == "cohort-a");
    assert_eq!(of_cohort.unwrap()["spec"]["deserved"]["cpu"], "2");
    for name in ["a", "b"] {
        let note = format!(
            "Cohort {name}: spec.parentName: the parents form a circle; Kueue admits nothing in it"
        );
        assert!(notes.contains(&note), "{notes}");
    }
    assert_eq!(denials(&queues), [""; 0]);
    let none = program::run(
        batch().args(["convert", "-"]),
        "kind: Pod\napiVersion: v1\nmetadata: {name: p, uid: p}\nspec: {}\n",
    );
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn c17_queues_that_are_too_deep_for_the_webhook_are_named() {
    let mut list = vec![cluster_queue("q", "c5", &json!({ "nominalQuota": 1 }))];
    list.extend((2..=5).map(|level| cohort(&format!("c{level}"), &format!("c{}", level - 1))));
    let (queues, notes) = converted_list(&list);
    assert_eq!(denials(&queues).len(), 1);
    let note =
        "ClusterQueue q: spec.cohort: the queue is 6 levels below root; the webhook admits 5";
    assert!(notes.contains(note), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
    // Also far deeper chains are followed to their end.
    let more = (6..=50).map(|level| cohort(&format!("c{level}"), &format!("c{}", level - 1)));
    list.extend(more);
    list.push(cluster_queue("deep", "c50", &json!({ "nominalQuota": 1 })));
    let (queues, _) = converted_list(&list);
    assert_eq!(queues[0]["metadata"]["name"], "c1");
    assert_eq!(queues[0]["spec"]["deserved"]["cpu"], "2");
}

#[test]
fn c17_a_quota_of_zero_and_a_missing_one_are_named() {
    let zero = json!({ "nominalQuota": 0 });
    let none_borrowed = json!({ "nominalQuota": 0, "borrowingLimit": 0 });
    let (queues, notes) = converted_list(&[
        cluster_queue("alone", "", &zero),
        cluster_queue("member", "empty", &none_borrowed),
        cluster_queue("missing", "", &json!({ "borrowingLimit": 1 })),
    ]);
    for title in ["ClusterQueue alone", "ClusterQueue member", "Cohort empty"] {
        let note = format!(
            "{title}: spec.resourceGroups: cpu: zero is no limit here; close the queue, or give 1m"
        );
        assert!(notes.contains(&note), "{notes}");
    }
    let note = "ClusterQueue missing: spec.resourceGroups[0].flavors[0].resources[0]: nominalQuota of cpu is missing: left out";
    assert!(notes.contains(note), "{notes}");
    let missing = queues
        .iter()
        .find(|queue| queue["metadata"]["name"] == "missing");
    let spec = &missing.unwrap()["spec"];
    assert_eq!(*spec, json!({ "dequeueStrategy": "traverse" }));
}

#[test]
fn c17_policies_are_named_if_they_are_not_the_defaults_of_kueue() {
    let with = |name: &str, cohort: &str, preemption: Value, more: Value| {
        let mut queue = cluster_queue(name, cohort, &json!({ "nominalQuota": 1 }));
        queue["spec"]["preemption"] = preemption;
        queue["spec"]["flavorFungibility"] = more;
        queue
    };
    let defaults = json!({ "reclaimWithinCohort": "Any", "withinClusterQueue": "Never", "borrowWithinCohort": { "policy": "Never" } });
    let fungibility = json!({ "whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor" });
    let others = json!({ "reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority", "borrowWithinCohort": { "policy": "LowerPriority" } });
    let preempts = json!({ "whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt" });
    let (_, notes) = converted_list(&[
        with("usual", "c", defaults, fungibility),
        with("alone", "", json!({}), json!(null)),
        with("never", "c", json!({}), json!(null)),
        with("other", "c", others, preempts),
    ]);
    for quiet in ["usual", "alone"] {
        assert!(!notes.contains(&format!("ClusterQueue {quiet}")), "{notes}");
    }
    for line in [
        "ClusterQueue never: spec.preemption.reclaimWithinCohort: every queue reclaims",
        "ClusterQueue other: spec.preemption.withinClusterQueue: all queues preempt",
        "ClusterQueue other: spec.preemption.borrowWithinCohort: has no counterpart",
        "ClusterQueue other: spec.flavorFungibility: has no counterpart",
    ] {
        assert!(notes.contains(line), "{line:?} is not in\n{notes}");
    }
    assert_eq!(notes.lines().count(), 4, "{notes}");
}

#[test]
fn c17_names_of_queues_are_unique_and_not_those_of_built_in_queues() {
    let quota = json!({ "nominalQuota": 1 });
    let again = cluster_queue("a", "", &json!({ "nominalQuota": 7 }));
    let (queues, notes) = converted_list(&[
        cluster_queue("a", "a", &quota),
        again,
        cluster_queue("cohort-a", "default", &quota),
        cluster_queue("b", "root", &quota),
        cluster_queue("default", "", &quota),
    ]);
    assert_eq!(
        names_and_parents(&queues),
        [
            ["a", "cohort-a-2"],
            ["b", "cohort-root"],
            ["cohort-a", "cohort-default"],
            ["cohort-a-2", ""],
            ["cohort-default", ""],
            ["cohort-root", ""],
            ["default", ""],
        ]
    );
    for line in [
        "ClusterQueue a: metadata.name: an earlier object has this name: this one is left out",
        "ClusterQueue default: metadata.name: a queue of this name is built in",
    ] {
        assert!(notes.contains(line), "{line:?} is not in\n{notes}");
    }
    assert_eq!(notes.lines().count(), 2, "{notes}");
}

#[test]
fn c17_flavors_of_cohorts_stopped_local_queues_and_ignored_kinds_are_named() {
    let mut science = cohort("science", "");
    let resources = json!([{ "name": "cpu", "nominalQuota": 1 }]);
    science["spec"]["resourceGroups"] = json!([{ "flavors": [
        { "name": "spot", "resources": resources }, { "name": "reserved", "resources": resources }] }]);
    let local = json!({ "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue",
        "metadata": { "name": "main", "namespace": "lab" }, "spec": { "clusterQueue": "q", "stopPolicy": "Hold" } });
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    let (_, notes) = converted_list(&[science, local, other]);
    for line in [
        "Cohort science: spec.resourceGroups[0].flavors: the quotas of the flavors spot, reserved are added up",
        "LocalQueue lab/main: spec.stopPolicy: a queue is closed for all namespaces",
        "objects of kinds that no decision needs are ignored: 1 ConfigMap",
    ] {
        assert!(notes.contains(line), "{line:?} is not in\n{notes}");
    }
}

#[test]
fn c17_texts_may_be_null() {
    let mut queue = cluster_queue("q", "", &json!({ "nominalQuota": 1 }));
    for key in ["cohort", "cohortName", "queueingStrategy"] {
        queue["spec"][key] = json!(null);
    }
    queue["spec"]["preemption"] =
        json!({ "withinClusterQueue": null, "reclaimWithinCohort": null });
    let mut above = cohort("c", "");
    above["spec"] = json!({ "parent": null, "parentName": null });
    let mut nameless = cohort("", "");
    nameless["metadata"] = json!(null);
    let (queues, notes) = converted_list(&[queue, above, nameless]);
    assert_eq!(names_and_parents(&queues), [["c", ""], ["q", ""]]);
    assert!(notes.contains("metadata.name: is missing"), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}
