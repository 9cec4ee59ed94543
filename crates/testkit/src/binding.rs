//! `pods/binding` and `bindings`: gives a pod its node.

use crate::call::Call;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::Store;
use crate::time::time;
use crate::write::existing;
use crate::{conditions, delete};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The call that `bindings` stands for: the pod is named in the body only.
pub(crate) fn of_pod(call: &Call, binding: &Value) -> Call {
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    Call {
        resource: Resource::find("", "v1", "pods").unwrap_or(call.resource),
        subresource: "binding".to_owned(),
        name: name.to_owned(),
        ..call.clone()
    }
}

pub(crate) fn bind(
    store: &mut Store,
    call: &Call,
    binding: &Value,
    now: Timestamp,
) -> Result<Value, Status> {
    if binding["metadata"]["name"] != call.name.as_str() {
        let message = "name in URL does not match name in Binding object";
        return Err(Status::bad_request(message));
    }
    let node = target(&binding["target"])?;
    let mut pod = existing(store, call)?;
    let known = json!({"preconditions": {
        "uid": binding["metadata"]["uid"], "resourceVersion": binding["metadata"]["resourceVersion"],
    }});
    delete::check_preconditions(call, &known, &pod)?;
    if let Some(why) = obstacle(&pod, &call.name) {
        return Err(Status::not_bound(&call.name, &why));
    }
    pod["spec"]["nodeName"] = node.into();
    for field in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
            pod["metadata"][field][key] = value.clone();
        }
    }
    conditions::set(&mut pod, "PodScheduled", true, ("", ""), &time(now));
    if let Some(status) = pod["status"].as_object_mut() {
        // Since 1.35 a nomination has no use any more once the pod has its node.
        status.remove("nominatedNodeName");
    }
    if !call.asks("dryRun") {
        store.commit(call.key(), Some(pod));
    }
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    }))
}

/// The node's name.
fn target(target: &Value) -> Result<&str, Status> {
    // A real server does not make a 422 of these.
    let wrong = |what: &str| Status::new(500, "", what);
    if target["kind"].as_str().is_some_and(|kind| kind != "Node") {
        return Err(wrong(
            "target.kind: Unsupported value: supported values: \"Node\", \"<empty>\"",
        ));
    }
    let name = target["name"].as_str().filter(|name| !name.is_empty());
    name.ok_or_else(|| wrong("target.name: Required value"))
}

/// Why the pod can have no node.
fn obstacle(pod: &Value, name: &str) -> Option<String> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ))
    } else if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|it| !it.is_empty()) {
        Some(format!("pod {name} is already assigned to node \"{node}\""))
    } else if gates.is_some_and(|gates| !gates.is_empty()) {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    }
}
