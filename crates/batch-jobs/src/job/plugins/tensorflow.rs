//! `tensorflow`: every container knows the whole cluster, in `TF_CONFIG` (S6-058).

use super::super::failure::RoundError;
use super::arguments::Arguments;
use super::hosts::Room;
use super::{Made, push_env};
use evictd_batch_objects::{Job, TaskSpec};
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
struct Config<'a> {
    cluster: &'a Cluster,
    task: Own,
}

/// Host and port of each pod, by role.
#[derive(Default, Serialize)]
pub(super) struct Cluster {
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

impl Cluster {
    pub(super) fn bytes(&self) -> usize {
        let all = [&self.ps, &self.worker, &self.chief, &self.evaluator];
        all.into_iter().flatten().map(String::len).sum()
    }
}

/// The role of a task.
fn role(arguments: &Arguments, task: &TaskSpec) -> Option<&'static str> {
    let mut roles = ROLES.into_iter();
    roles.find(|role| arguments.text(role, role) == task.name)
}

/// The whole cluster; none where a pod is alone.
pub(super) fn cluster(job: &Job, arguments: &[String]) -> Result<Option<Cluster>, RoundError> {
    if let [only] = &job.spec.tasks[..]
        && only.replicas == 1
    {
        return Ok(None);
    }
    let arguments = Arguments::read(arguments, &KNOWN);
    let port = arguments.number("port", 2222);
    let (mut cluster, mut room) = (Cluster::default(), Room::new());
    for task in &job.spec.tasks {
        let place = match role(&arguments, task) {
            Some("ps") => &mut cluster.ps,
            Some("worker") => &mut cluster.worker,
            Some("chief") => &mut cluster.chief,
            Some(_) => &mut cluster.evaluator,
            None => continue,
        };
        let hosts = room.hosts(job, task, task.replicas)?;
        let hosts = hosts.iter().map(|host| format!("{}:{port}", host.full()));
        *place = hosts.collect();
    }
    Ok(Some(cluster))
}

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String], cluster: Option<&Cluster>) {
    let Some(cluster) = cluster else {
        return;
    };
    let arguments = Arguments::read(arguments, &KNOWN);
    let task = Own {
        r#type: role(&arguments, made.task)
            .unwrap_or(&made.task.name)
            .to_owned(),
        index: made.index,
    };
    // Texts and numbers become JSON without fail.
    let config = serde_json::to_string(&Config { cluster, task }).unwrap_or_default();
    for container in made.spec.containers() {
        push_env(container, "TF_CONFIG", &config);
    }
}
