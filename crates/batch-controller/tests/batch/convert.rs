//! `evictd-batch convert`: queues from the objects of Kueue.

use crate::batch;
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
    assert_eq!(
        spec("university"),
        json!({ "deserved": all, "capability": all })
    );
    assert_eq!(
        spec("science"),
        json!({ "parent": "university", "deserved": all })
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

#[test]
fn c17_a_cluster_queue_with_the_name_of_its_cohort_and_a_circle_of_cohorts_are_converted() {
    let queue = json!({ "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": { "name": "a" },
        "spec": { "cohort": "a", "namespaceSelector": {} } });
    let cohort = |name: &str, parent: &str| json!({ "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": { "name": name }, "spec": { "parentName": parent } });
    let list = json!([queue, cohort("a", "b"), cohort("b", "a")]);
    let (queues, _) = converted(&list.to_string());
    let mut pairs: Vec<[&str; 2]> = queues
        .iter()
        .map(|queue| {
            [&queue["metadata"]["name"], &queue["spec"]["parent"]]
                .map(|text| text.as_str().unwrap())
        })
        .collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [["a", "cohort-a"], ["b", "cohort-a"], ["cohort-a", "b"]]
    );
    let none = program::run(
        batch().args(["convert", "-"]),
        "kind: Pod\napiVersion: v1\nmetadata: {name: p, uid: p}\nspec: {}\n",
    );
    assert_eq!(none.status.code(), Some(2));
}
