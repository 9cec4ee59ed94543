//! `tensorflow`: every container knows the whole cluster, in `TF_CONFIG` (S6-058).

use super::arguments::Arguments;
use super::{Made, hosts, push_env};
use crate::wire::TaskSpec;
use serde::Serialize;

/// Roles, which are also the default names of their tasks; in the order in which `TF_CONFIG` has them.
const ROLES: [&str; 4] = ["ps", "worker", "chief", "evaluator"];
const KNOWN: [(&str, bool); 5] = [
    ("ps", false),
    ("worker", false),
    ("chief", false),
    ("evaluator", false),
    ("port", false),
];

/// `TF_CONFIG`.
#[derive(Serialize)]
struct Config {
    cluster: Cluster,
    task: Own,
}

/// Host and port of each pod, by role.
#[derive(Default, Serialize)]
struct Cluster {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ps: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    worker: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chief: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evaluator: Vec<String>,
}

/// Which of them the container is.
#[derive(Serialize)]
struct Own {
    r#type: String,
    index: i32,
}

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String]) {
    let job = made.job;
    if let [only] = &job.spec.tasks[..]
        && only.replicas == 1
    {
        return;
    }
    let arguments = Arguments::read(arguments, &KNOWN);
    let port = arguments.number("port", 2222);
    let role = |task: &TaskSpec| {
        let mut roles = ROLES.into_iter();
        roles.find(|role| arguments.text(role, role) == task.name)
    };
    let mut cluster = Cluster::default();
    for task in &job.spec.tasks {
        let all = (0..task.replicas).map(|index| hosts::host(job, task, index));
        let all: Vec<String> = all.map(|host| format!("{}:{port}", host.full())).collect();
        match role(task) {
            Some("ps") => cluster.ps = all,
            Some("worker") => cluster.worker = all,
            Some("chief") => cluster.chief = all,
            Some(_) => cluster.evaluator = all,
            None => {}
        }
    }
    let task = Own {
        r#type: role(made.task).unwrap_or(&made.task.name).to_owned(),
        index: made.index,
    };
    // Texts and numbers become JSON without fail.
    let config = serde_json::to_string(&Config { cluster, task }).unwrap_or_default();
    for container in made.spec.containers() {
        push_env(container, "TF_CONFIG", &config);
    }
}
