//! The pods and groups that `JobSet`, `LeaderWorkerSet` and `RayCluster` controllers make, by `simulate` and `explain`.

use crate::scheduler;
use evictd_testkit::program::{self, answer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tempfile::NamedTempFile;

const RACK: &str = "example.com/rack";

/// Two racks of four nodes, each with one accelerator, and the class of the pods and groups.
fn racks() -> Vec<Value> {
    let mut objects: Vec<Value> = (0..8)
        .map(|index| {
            let (name, rack) = (format!("n{index}"), format!("r{}", index / 4));
            let labels = json!({ RACK: rack, "kubernetes.io/hostname": name });
            let size = json!({ "cpu": "4", "memory": "16Gi", "pods": "20", "nvidia.com/gpu": "1" });
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
                "status": { "allocatable": size } })
        })
        .collect();
    objects.push(
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "train" },
        "value": 1000 }),
    );
    objects
}

fn group(name: &str, min_count: usize, constraints: &Value) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } }, "priorityClassName": "train",
            "schedulingConstraints": constraints } })
}

/// A pod with these labels that asks for these resources, as a member of a group.
fn pod(name: &str, group: &str, labels: &Value, requests: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default", "labels": labels },
        "spec": { "schedulingGroup": { "podGroupName": group }, "priorityClassName": "train",
            "containers": [{ "name": "c", "image": "c", "resources": { "requests": requests, "limits": requests } }] } })
}

fn gpu() -> Value {
    json!({ "cpu": "1", "nvidia.com/gpu": "1" })
}

fn file(objects: &[Value]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    fs::write(file.path(), list.to_string()).unwrap();
    file
}

/// The nodes of the pods that `simulate` places, by name.
fn placed(cluster: &[Value], pods: &[Value]) -> BTreeMap<String, String> {
    let (cluster, pods) = (file(cluster), file(pods));
    let mut program = scheduler();
    program.args(["simulate", "-o", "json", "--cluster"]);
    program.arg(cluster.path()).arg("--pods").arg(pods.path());
    let answer = answer(&program::run(&mut program, ""));
    let placed = answer["placed"].as_object().unwrap().iter();
    let short = |name: &str| name.trim_start_matches("default/").to_owned();
    placed
        .map(|(pod, node)| (short(pod), node.as_str().unwrap().to_owned()))
        .collect()
}

fn rack_of(node: &str) -> usize {
    node[1..].parse::<usize>().unwrap() / 4
}

/// The racks of the pods whose names begin so.
fn racks_of(placed: &BTreeMap<String, String>, prefix: &str) -> BTreeSet<usize> {
    let pods = placed.iter().filter(|(pod, _)| pod.starts_with(prefix));
    pods.map(|(_, node)| rack_of(node)).collect()
}

/// A `JobSet` with exclusive placement: the first pod of each job keeps the pods of other jobs out of its rack, and the others
/// follow it by a node selector.
#[test]
fn b7_jobs_of_a_job_set_get_a_rack_each() {
    let key = "jobset.sigs.k8s.io/job-key";
    let labels = |job: usize, index: usize| {
        json!({ "jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
            "jobset.sigs.k8s.io/job-index": job.to_string(), key: format!("key-{job}"),
            "batch.kubernetes.io/job-completion-index": index.to_string() })
    };
    let leader = |job: usize| {
        let name = format!("train-workers-{job}-0");
        let mut pod = pod(&name, "train", &labels(job, 0), &gpu());
        let same_job = json!({ "key": key, "operator": "In", "values": [format!("key-{job}")] });
        let other_jobs =
            json!({ "key": key, "operator": "NotIn", "values": [format!("key-{job}")] });
        let term = |expressions: Value| {
            json!([{ "topologyKey": RACK, "namespaceSelector": {},
                "labelSelector": { "matchExpressions": expressions } }])
        };
        let exists = json!({ "key": key, "operator": "Exists" });
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        pod["spec"]["affinity"] = json!({ "podAffinity": { required: term(json!([same_job])) },
            "podAntiAffinity": { required: term(json!([exists, other_jobs])) } });
        pod
    };
    let leaders: Vec<Value> = (0..2).map(leader).collect();
    let objects = [leaders.clone(), vec![group("train", 2, &json!({}))]].concat();
    let first = placed(&racks(), &objects);
    assert_eq!(first.len(), 2);
    assert_eq!(racks_of(&first, "train-").len(), 2, "{first:?}");
    // The controller makes the others when the first ones have a node.
    let mut cluster = racks();
    for mut pod in leaders {
        pod["spec"]["nodeName"] = json!(first[pod["metadata"]["name"].as_str().unwrap()]);
        cluster.push(pod);
    }
    cluster.push(group("train", 2, &json!({})));
    let follower = |job: usize, index: usize| {
        let name = format!("train-workers-{job}-{index}");
        let mut pod = pod(&name, "train", &labels(job, index), &gpu());
        let rack = rack_of(&first[&format!("train-workers-{job}-0")]);
        pod["spec"]["nodeSelector"] = json!({ RACK: format!("r{rack}") });
        pod
    };
    let followers: Vec<Value> = (0..2)
        .flat_map(|job| (1..4).map(move |index| follower(job, index)))
        .collect();
    let then = placed(&cluster, &followers);
    assert_eq!(then.len(), 6, "{then:?}");
    for job in 0..2 {
        let prefix = format!("train-workers-{job}-");
        assert_eq!(racks_of(&then, &prefix), racks_of(&first, &prefix));
    }
}

/// A `LeaderWorkerSet`: each replica is a group of a leader and its workers in one rack.
#[test]
fn b7_replicas_of_a_leader_worker_set_are_each_in_one_rack() {
    let in_rack = json!({ "topology": [{ "key": RACK }] });
    let replica = |index: usize| {
        let name = format!("serve-{index}");
        let mut objects = vec![group(&name, 4, &in_rack)];
        for worker in 0..4 {
            let labels = json!({ "leaderworkerset.sigs.k8s.io/name": "serve",
                "leaderworkerset.sigs.k8s.io/group-index": index.to_string(),
                "leaderworkerset.sigs.k8s.io/worker-index": worker.to_string() });
            let pod_name = match worker {
                0 => name.clone(),
                _ => format!("{name}-{worker}"),
            };
            objects.push(pod(&pod_name, &name, &labels, &gpu()));
        }
        objects
    };
    let both = placed(&racks(), &[replica(0), replica(1)].concat());
    assert_eq!(both.len(), 8, "{both:?}");
    assert_eq!(racks_of(&both, "serve-0").len(), 1);
    assert_eq!(racks_of(&both, "serve-1").len(), 1);
    let third = placed(&racks(), &[replica(0), replica(1), replica(2)].concat());
    assert_eq!(
        third.len(),
        8,
        "the third replica has no room and gets no node"
    );
}

/// A `RayCluster` whose head and workers start together.
#[test]
fn b7_a_ray_cluster_starts_as_a_whole() {
    let cluster_of = |workers: usize| {
        let labels = |kind: &str| json!({ "ray.io/cluster": "ray", "ray.io/node-type": kind, "ray.io/group": kind });
        let head = json!({ "cpu": "2", "memory": "4Gi" });
        let mut objects = vec![
            group("ray", workers + 1, &json!({})),
            pod("ray-head", "ray", &labels("head"), &head),
        ];
        for worker in 0..workers {
            let name = format!("ray-workers-{worker}");
            objects.push(pod(&name, "ray", &labels("worker"), &gpu()));
        }
        objects
    };
    assert_eq!(placed(&racks(), &cluster_of(8)).len(), 9);
    assert_eq!(placed(&racks(), &cluster_of(9)).len(), 0);
    // `explain` says the same about the last worker, with the reason.
    let mut objects = cluster_of(9);
    let last = objects.pop().unwrap();
    let (cluster, pod) = (file(&[racks(), objects].concat()), file(&[last]));
    let mut program = scheduler();
    program.args(["explain", "-o", "json", "--cluster"]);
    program.arg(cluster.path()).arg("--pod").arg(pod.path());
    let explained = answer(&program::run(&mut program, ""));
    assert_eq!(explained["chosen"], Value::Null, "{explained}");
    let message = explained["gang"]["message"].as_str().unwrap();
    let start = "minCount (10) cannot be satisfied: 9 scheduled, 0 remaining";
    assert!(message.starts_with(start), "{message}");
}
