//! The names by which the pods of a job find each other.

use super::super::object::pod_name;
use crate::wire::{Job, TaskSpec};

/// Host name and domain of a pod.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) domain: String,
}

impl Host {
    /// `<host>.<domain>`.
    pub(super) fn full(&self) -> String {
        format!("{}.{}", self.name, self.domain)
    }
}

/// The host of the task's pod with this index.
pub(super) fn host(job: &Job, task: &TaskSpec, index: i32) -> Host {
    let or = |given: &str, default: &dyn Fn() -> String| match given {
        "" => default(),
        given => given.to_owned(),
    };
    let name = &job.metadata.name;
    Host {
        name: or(given(task, "hostname"), &|| {
            pod_name(name, &task.name, index)
        }),
        domain: or(given(task, "subdomain"), &|| name.clone()),
    }
}

/// The hosts of a task; only one if the template names it.
pub(super) fn hosts(job: &Job, task: &TaskSpec) -> Vec<Host> {
    let only = !given(task, "hostname").is_empty();
    let count = if only {
        task.replicas.min(1)
    } else {
        task.replicas
    };
    (0..count).map(|index| host(job, task, index)).collect()
}

/// The hosts of a task as `<host>.<domain>`.
pub(super) fn full(job: &Job, task: &TaskSpec) -> Vec<String> {
    hosts(job, task).iter().map(Host::full).collect()
}

fn given<'a>(task: &'a TaskSpec, key: &str) -> &'a str {
    task.template["spec"][key].as_str().unwrap_or_default()
}
