//! The names by which the pods of a job find each other.

use super::super::failure::{MOST_BYTES, RoundError};
use super::super::object::pod_name;
use evictd_batch_objects::{Job, TaskSpec};

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

/// How many hosts a task has; only one if the template names it.
pub(super) fn count(task: &TaskSpec) -> i32 {
    if given(task, "hostname").is_empty() {
        task.replicas
    } else {
        task.replicas.min(1)
    }
}

/// The limit for host names in one object, in bytes; no object has room for more.
pub(super) struct Room(usize);

impl Room {
    pub(super) fn new() -> Self {
        Self(MOST_BYTES)
    }

    /// The first hosts of a task, so many of them; an error where their names are too long for an object.
    pub(super) fn hosts(
        &mut self,
        job: &Job,
        task: &TaskSpec,
        count: i32,
    ) -> Result<Vec<Host>, RoundError> {
        let mut all = Vec::new();
        for index in 0..count {
            let host = host(job, task, index);
            let bytes = host.name.len() + host.domain.len() + 2;
            let left = self.0.checked_sub(bytes);
            self.0 = left.ok_or_else(|| RoundError::Names(task.name.clone()))?;
            all.push(host);
        }
        Ok(all)
    }

    /// All hosts of a task as `<host>.<domain>`.
    pub(super) fn full(&mut self, job: &Job, task: &TaskSpec) -> Result<Vec<String>, RoundError> {
        let hosts = self.hosts(job, task, count(task))?;
        Ok(hosts.iter().map(Host::full).collect())
    }
}

fn given<'a>(task: &'a TaskSpec, key: &str) -> &'a str {
    task.template["spec"][key].as_str().unwrap_or_default()
}
