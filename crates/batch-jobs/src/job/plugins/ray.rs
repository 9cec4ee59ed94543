//! `ray`: the head and its workers start as one cluster, and a service of its own leads to the head (S6-058).

use super::super::call::{Call, Resource};
use super::super::names::{JOB_NAME, JOB_NAMESPACE};
use super::super::object::namespace;
use super::arguments::Arguments;
use super::{Made, hosts, object, open_port};
use evictd_batch_objects::{Job, TASK_SPEC};
use serde_json::{Value, json};

const KNOWN: [(&str, bool); 7] = [
    ("head", false),
    ("headContainer", false),
    ("worker", false),
    ("workerContainer", false),
    ("port", false),
    ("dashboardPort", false),
    ("clientPort", false),
];
/// The listening ports of the head: the argument of each and its default.
const PORTS: [(&str, &str, i64); 3] = [
    ("gcs", "port", 6379),
    ("dashboard", "dashboardPort", 8265),
    ("client-server", "clientPort", 10001),
];

fn ports(arguments: &Arguments) -> [(&'static str, i64); 3] {
    PORTS.map(|(name, argument, default)| (name, arguments.number(argument, default)))
}

fn service_name(job: &Job) -> String {
    format!("{}-head-svc", job.metadata.name)
}

pub(super) fn on_add(job: &Job, arguments: &[String]) -> Call {
    let arguments = Arguments::read(arguments, &KNOWN);
    let resource = Resource::Service;
    let mut object = object(job, resource, &service_name(job));
    // By number: a port that the template opens has another name, or none.
    let ports = ports(&arguments).map(
        |(name, port)| json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"}),
    );
    object["spec"] = json!({
        "selector": {
            JOB_NAME: job.metadata.name,
            JOB_NAMESPACE: namespace(job),
            TASK_SPEC: arguments.text("head", "head"),
        },
        "ports": ports,
    });
    let object = object.into();
    Call::CreateObject { resource, object }
}

pub(super) fn on_delete(job: &Job) -> Call {
    Call::DeleteObject {
        resource: Resource::Service,
        name: service_name(job),
    }
}

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String]) {
    let arguments = Arguments::read(arguments, &KNOWN);
    let (job, task_name) = (made.job, made.task.name.as_str());
    let head = arguments.text("head", "head");
    let Some(task) = job.spec.tasks.iter().find(|task| task.name == head) else {
        return;
    };
    let ports = ports(&arguments);
    let [(_, gcs), (_, dashboard), (_, client)] = ports;
    let address = hosts::host(job, task, 0).full();
    let is_head = task_name == head;
    let (name, command) = if is_head {
        let options = format!(
            "--dashboard-host=0.0.0.0 --port={gcs} --dashboard-port={dashboard} --ray-client-server-port={client}"
        );
        let name = arguments.text("headContainer", "head");
        (name, format!("ray start --head --block {options}"))
    } else if task_name == arguments.text("worker", "worker") {
        let name = arguments.text("workerContainer", "worker");
        (name, format!("ray start --block --address={address}:{gcs}"))
    } else {
        return;
    };
    for container in made.spec.containers() {
        if container.get("name").and_then(Value::as_str) != Some(name) {
            continue;
        }
        if is_head {
            for (name, port) in ports {
                open_port(container, name, port);
            }
        }
        container.insert("command".to_owned(), json!(["sh", "-c", command]));
    }
}
