//! `svc`: the pods of a job find each other by name (S6-056).

use super::super::call::{Call, Resource};
use super::super::failure::RoundError;
use super::super::names::{JOB_NAME, JOB_NAMESPACE};
use super::super::object::{list_at, namespace};
use super::arguments::Arguments;
use super::hosts::Room;
use super::{Made, object};
use evictd_batch_objects::{Job, TaskSpec};
use serde_json::{Map, Value, json};

const KNOWN: [(&str, bool); 3] = [
    ("publish-not-ready-addresses", true),
    ("disable-network-policy", true),
    ("inject-hosts-env", true),
];

/// The rest of a variable whose value comes from a `ConfigMap`.
const VARIABLE: usize =
    r#"{"name":"","valueFrom":{"configMapKeyRef":{"key":"","name":""}}},"#.len();

fn map_name(job: &Job) -> String {
    format!("{}-svc", job.metadata.name)
}

/// The names of a task's variables: its hosts, and how many there are.
fn variables(task: &TaskSpec) -> [String; 2] {
    let name = task.name.replace('-', "_").to_uppercase();
    [format!("VC_{name}_HOSTS"), format!("VC_{name}_NUM")]
}

/// The `ConfigMap` with all hosts.
pub(super) fn hosts_of_job(job: &Job) -> Result<Call, RoundError> {
    let (mut data, mut room) = (Map::new(), Room::new());
    for task in &job.spec.tasks {
        let hosts = room.full(job, task)?;
        let [all, count] = variables(task);
        let file = format!("{}.host", task.name.replace('-', "_"));
        data.insert(file, hosts.join("\n").into());
        data.insert(all, hosts.join(",").into());
        data.insert(count, hosts.len().to_string().into());
    }
    let resource = Resource::ConfigMap;
    let mut object = object(job, resource, &map_name(job));
    object["data"] = Value::Object(data);
    let object = object.into();
    Ok(Call::ApplyObject { resource, object })
}

fn selector(job: &Job) -> Value {
    json!({JOB_NAME: job.metadata.name, JOB_NAMESPACE: namespace(job)})
}

pub(super) fn on_add(job: &Job, arguments: &[String]) -> Result<Vec<Call>, RoundError> {
    let arguments = Arguments::read(arguments, &KNOWN);
    let resource = Resource::Service;
    let mut service = object(job, resource, &job.metadata.name);
    service["spec"] = json!({
        "clusterIP": "None",
        "selector": selector(job),
        "publishNotReadyAddresses": arguments.is_on("publish-not-ready-addresses", false),
    });
    let service = Call::CreateObject {
        resource,
        object: service.into(),
    };
    let mut calls = vec![hosts_of_job(job)?, service];
    // Pods of a job trust each other, and no other pods.
    if !arguments.is_on("disable-network-policy", false) {
        let resource = Resource::NetworkPolicy;
        let mut object = object(job, resource, &job.metadata.name);
        let pods = json!({"matchLabels": selector(job)});
        object["spec"] = json!({
            "podSelector": pods,
            "ingress": [{"from": [{"podSelector": pods}]}],
            "policyTypes": ["Ingress"],
        });
        let object = object.into();
        calls.push(Call::CreateObject { resource, object });
    }
    Ok(calls)
}

pub(super) fn on_delete(job: &Job, arguments: &[String]) -> Vec<Call> {
    let arguments = Arguments::read(arguments, &KNOWN);
    let deletion = |resource, name| Call::DeleteObject { resource, name };
    let name = &job.metadata.name;
    let mut calls = vec![
        deletion(Resource::ConfigMap, map_name(job)),
        deletion(Resource::Service, name.clone()),
    ];
    if !arguments.is_on("disable-network-policy", false) {
        calls.push(deletion(Resource::NetworkPolicy, name.clone()));
    }
    calls
}

/// How many bytes the variables of a container have at least.
pub(super) fn bytes_of_variables(job: &Job, arguments: &[String]) -> usize {
    let arguments = Arguments::read(arguments, &KNOWN);
    if !arguments.is_on("inject-hosts-env", true) {
        return 0;
    }
    let map = map_name(job).len();
    let names = job.spec.tasks.iter().flat_map(variables);
    // Each name occurs twice.
    names.map(|name| 2 * name.len() + map + VARIABLE).sum()
}

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String]) {
    let arguments = Arguments::read(arguments, &KNOWN);
    let map = map_name(made.job);
    made.spec.default_text("hostname", &made.name);
    // The name of the service is the domain of its pods.
    made.spec.default_text("subdomain", &made.job.metadata.name);
    if arguments.is_on("inject-hosts-env", true) {
        let names: Vec<String> = made.job.spec.tasks.iter().flat_map(variables).collect();
        made.spec.each_container(|container| {
            let variables = names.iter().map(|name| {
                let from = json!({"configMapKeyRef": {"name": map, "key": name}});
                json!({"name": name, "valueFrom": from})
            });
            list_at(container, "env").extend(variables);
        });
    }
    made.spec
        .push_volume(json!({"name": map, "configMap": {"name": map}}));
    made.spec.each_container(|container| {
        let mounts = list_at(container, "volumeMounts");
        mounts.push(json!({"name": map, "mountPath": "/etc/volcano"}));
    });
}
