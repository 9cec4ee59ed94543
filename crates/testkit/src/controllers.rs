//! The few controllers of a cluster that react to the writes of a node agent.

use crate::ApiServer;
use crate::actor::Actor;
use crate::cluster::lock;
use crate::conditions;
use crate::select::selects;
use crate::worker::Worker;
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};

/// Node conditions and the taint that follows from each.
const TAINTS: [(&str, &str); 3] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
];

/// Taints after conditions, replicas, budgets, and a scheduler that takes the first node without a taint that the pod does
/// not tolerate. They look after every change; dropped, they stop.
#[derive(Debug)]
pub struct Controllers {
    paused: Arc<Mutex<bool>>,
    _worker: Worker,
}

impl Controllers {
    /// Starts them all.
    pub fn start(api: &ApiServer) -> io::Result<Self> {
        let actor = api.actor("kube-controller-manager");
        let paused = Arc::new(Mutex::new(false));
        let stopped = Arc::clone(&paused);
        let worker = Worker::start("controllers", move || async move {
            let mut stirred = actor.cluster().stirred();
            loop {
                {
                    let paused = lock(&stopped);
                    if !*paused {
                        look(&actor);
                    }
                }
                if stirred.changed().await.is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            paused,
            _worker: worker,
        })
    }

    /// They do nothing, as a stopped process, until `false`; then they look at the next change. A look that is under way ends
    /// first.
    pub fn pause(&self, paused: bool) {
        *lock(&self.paused) = paused;
    }
}

/// An object may change or go between the look and the write: the change is another reason to look.
fn look(actor: &Actor) {
    for node in actor.list("nodes") {
        taint(actor, &node);
    }
    for set in actor.list("replicasets") {
        replicate(actor, &set);
    }
    for pod in actor.list("pods") {
        place(actor, &pod);
    }
    for budget in actor.list("poddisruptionbudgets") {
        count(actor, &budget);
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn at(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("{namespace}/{}", name(object))
}

fn taint(actor: &Actor, node: &Value) {
    let before: Vec<Value> = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut taints = before.clone();
    for (condition, key) in TAINTS {
        let there = taints.iter().position(|taint| taint["key"] == key);
        match (conditions::is_true(node, condition), there) {
            (true, None) => taints.push(json!({"key": key, "effect": "NoSchedule"})),
            (false, Some(at)) => drop(taints.remove(at)),
            _ => {}
        }
    }
    if taints != before {
        let _ = actor.merge("nodes", name(node), json!({"spec": {"taints": taints}}));
    }
}

fn is_active(pod: &Value) -> bool {
    let ended = matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    );
    !ended && pod["metadata"]["deletionTimestamp"].is_null()
}

fn owner(pod: &Value) -> Option<&Value> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

fn replicate(actor: &Actor, set: &Value) {
    let uid = &set["metadata"]["uid"];
    let mut pods = actor.list("pods");
    pods.retain(|pod| is_active(pod) && owner(pod).is_some_and(|owner| owner["uid"] == *uid));
    let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    for _ in pods.len()..wanted {
        let template = &set["spec"]["template"];
        let mut metadata = template["metadata"].clone();
        metadata["generateName"] = format!("{}-", name(set)).into();
        metadata["namespace"] = set["metadata"]["namespace"].clone();
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name(set), "uid": uid, "controller": true,
            "blockOwnerDeletion": true,
        }]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
        let _ = actor.create(pod);
    }
    // The youngest is deleted first.
    pods.sort_by_key(|pod| pod["metadata"]["uid"].to_string());
    for pod in pods.iter().skip(wanted) {
        let _ = actor.delete("pods", &at(pod), Value::Null);
    }
}

fn place(actor: &Actor, pod: &Value) {
    let placed = pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let scheduler = pod["spec"]["schedulerName"].as_str();
    let is_ours = scheduler.is_none_or(|name| name == "default-scheduler");
    if placed || !is_ours || !is_active(pod) {
        return;
    }
    let empty = Vec::new();
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap_or(&empty);
    let tolerated = |taint: &Value| {
        tolerations
            .iter()
            .any(|one| one["key"].is_null() || one["key"] == taint["key"])
    };
    let takes = |node: &&Value| {
        let taints = node["spec"]["taints"].as_array().unwrap_or(&empty);
        node["spec"]["unschedulable"] != true && taints.iter().all(tolerated)
    };
    if let Some(node) = actor.list("nodes").iter().find(takes) {
        let _ = actor.merge("pods", &at(pod), json!({"spec": {"nodeName": name(node)}}));
    }
}

/// A number, or a percentage of `all`, rounded up.
fn amount(value: &Value, all: u64) -> Option<u64> {
    let text = value
        .as_str()
        .map(|text| text.trim_end_matches('%').parse::<u64>().unwrap_or(0));
    value
        .as_u64()
        .or(text.map(|percent| (percent * all).div_ceil(100)))
}

fn count(actor: &Actor, budget: &Value) {
    let mut pods = actor.list("pods");
    pods.retain(|pod| {
        let metadata = &pod["metadata"];
        metadata["namespace"] == budget["metadata"]["namespace"]
            && selects(&budget["spec"]["selector"], &metadata["labels"])
            && is_active(pod)
    });
    let expected = pods.len() as u64;
    let healthy = pods
        .iter()
        .filter(|pod| conditions::is_true(pod, "Ready"))
        .count() as u64;
    let spec = &budget["spec"];
    let unavailable = amount(&spec["maxUnavailable"], expected);
    let desired = unavailable.map_or_else(
        || amount(&spec["minAvailable"], expected).unwrap_or(1),
        |unavailable| expected.saturating_sub(unavailable),
    );
    let status = json!({
        "observedGeneration": budget["metadata"]["generation"], "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": expected, "disruptionsAllowed": healthy.saturating_sub(desired), "disruptedPods": null,
    });
    // One that differs in nothing is no change.
    let _ = actor.merge(
        "poddisruptionbudgets/status",
        &at(budget),
        json!({"status": status}),
    );
}
