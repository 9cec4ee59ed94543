//! Does this still fit? A dump of a cluster, pods that come, and nodes that go, as a sequence.

use evictd_document::{Document, DocumentError};
use evictd_pod::wire;
use evictd_scheduling::config::KubeSchedulerConfiguration;
use evictd_scheduling::simulation::Sequence;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The most pods of one workload.
const MOST_REPLICAS: u64 = 100_000;

/// What is there, and what comes.
#[derive(Debug)]
pub(crate) struct Question {
    objects: Vec<Value>,
    pending: Vec<Value>,
}

impl Question {
    /// Reads both; pods of the nodes that go come again, but for those that belong to their node.
    pub(crate) fn new(
        cluster: &Document,
        pods: Option<&Document>,
        without: &[String],
    ) -> Result<Self, DocumentError> {
        let there = flattened(cluster.values()?);
        let nodes = || there.iter().filter(|object| object["kind"] == "Node");
        if nodes().count() == 0 {
            return Err(cluster.wrong("holds no Node"));
        }
        for name in without {
            if !nodes().any(|node| node["metadata"]["name"] == *name) {
                return Err(cluster.wrong(format!("--without {name}: there is no such node")));
            }
        }
        let goes = |name: &Value| without.iter().any(|own| *name == *own);
        let classes = classes(&there);
        let (mut objects, mut pending) = (Vec::new(), Vec::new());
        for object in there {
            match object["kind"].as_str() {
                Some("Node") if goes(&object["metadata"]["name"]) => {}
                Some("Pod") if goes(&object["spec"]["nodeName"]) => pending.extend(evicted(object)),
                _ => objects.push(object),
            }
        }
        if let Some(document) = pods {
            for (index, object) in flattened(document.values()?).into_iter().enumerate() {
                let made = expanded(&object, &classes);
                let field = || format!("items[{index}]");
                pending.extend(made.map_err(|wrong| document.wrong_fields([(field(), wrong)]))?);
            }
        }
        Ok(Self { objects, pending })
    }

    /// The same with this configuration.
    pub(crate) fn sequence(&self, config: Option<KubeSchedulerConfiguration>) -> Sequence {
        Sequence {
            now: Timestamp::UNIX_EPOCH,
            config,
            objects: self.objects.clone(),
            pending: self.pending.clone(),
        }
    }
}

/// The objects, with those of lists in their place.
fn flattened(values: Vec<Value>) -> Vec<Value> {
    let mut objects = Vec::new();
    for mut value in values {
        let kind = value["kind"].as_str().unwrap_or("").to_owned();
        let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) else {
            objects.push(value);
            continue;
        };
        let of = kind.strip_suffix("List").unwrap_or("").to_owned();
        for mut item in std::mem::take(items) {
            // Items of a typed list do not say what they are.
            if item["kind"].is_null() && !of.is_empty() && item.is_object() {
                item["kind"] = json!(of);
            }
            objects.push(item);
        }
    }
    objects
}

/// A pod whose node goes, as it comes again; `None` for one that belongs to its node or has ended.
fn evicted(mut pod: Value) -> Option<Value> {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let of_node = owners.is_some_and(|owners| {
        let mut kinds = owners.iter().map(|owner| &owner["kind"]);
        kinds.any(|kind| *kind == "DaemonSet" || *kind == "Node")
    });
    let ended = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if of_node || ended || pod["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    pod["spec"].as_object_mut()?.remove("nodeName");
    pod["status"] = json!({});
    Some(pod)
}

/// The values of the priority classes.
fn classes(objects: &[Value]) -> BTreeMap<String, i64> {
    let classes = objects
        .iter()
        .filter(|object| object["kind"] == "PriorityClass");
    let values = classes.filter_map(|class| {
        Some((
            class["metadata"]["name"].as_str()?.to_owned(),
            class["value"].as_i64()?,
        ))
    });
    values.collect()
}

/// The pods of a manifest: a pod itself, or the replicas of a workload.
fn expanded(object: &Value, classes: &BTreeMap<String, i64>) -> Result<Vec<Value>, String> {
    let kind = object["kind"].as_str().unwrap_or("").to_owned();
    if kind == "Pod" {
        return Ok(vec![finished(object, classes)?]);
    }
    let spec = match kind.as_str() {
        "CronJob" => &object["spec"]["jobTemplate"]["spec"],
        _ => &object["spec"],
    };
    let Some(template) = spec["template"].as_object() else {
        return Err(format!(
            "{kind:?}: a Pod or a workload with a pod template is needed"
        ));
    };
    let count = match kind.as_str() {
        "Job" | "CronJob" => spec["parallelism"].as_u64().unwrap_or(1),
        _ => spec["replicas"].as_u64().unwrap_or(1),
    };
    if count > MOST_REPLICAS {
        return Err(format!(
            "spec.replicas: {count}: at most {MOST_REPLICAS} are simulated"
        ));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or("pod");
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default");
    (0..count)
        .map(|index| {
            let mut pod = Value::Object(Map::from_iter(template.clone()));
            pod["kind"] = json!("Pod");
            if pod["metadata"].is_null() {
                pod["metadata"] = json!({});
            }
            pod["metadata"]["name"] = json!(format!("{name}-{index}"));
            pod["metadata"]["namespace"] = json!(namespace);
            finished(&pod, classes)
        })
        .collect()
}

/// A pod with what the API server would have set: requests from limits, the priority from its class.
fn finished(pod: &Value, classes: &BTreeMap<String, i64>) -> Result<Value, String> {
    let mut read = wire::Pod::deserialize(pod).map_err(|error| error.to_string())?;
    evictd_pod::defaults::complete(&mut read);
    let class = &read.spec.priority_class_name;
    if read.spec.priority.is_none() && !class.is_empty() {
        let value = classes.get(class).copied();
        let value = value.or_else(|| evictd_pod::pod::system_priority(class).map(i64::from));
        let value =
            value.ok_or_else(|| format!("spec.priorityClassName: {class:?} is not in the dump"))?;
        read.spec.priority = i32::try_from(value).ok();
    }
    let mut finished = serde_json::to_value(&read).map_err(|error| error.to_string())?;
    finished["kind"] = json!("Pod");
    Ok(finished)
}
