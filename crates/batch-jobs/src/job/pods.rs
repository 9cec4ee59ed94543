//! Builds the pods of a job from their shared parts.

use super::claims;
use super::creation::Recipe;
use super::failure::{MOST_BYTES, RoundError};
use super::object::pod_name;
use super::plugins::{self, Names};
use super::template;
use evictd_batch_objects::{Job, TaskSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The shared parts of a job's pods.
pub(super) struct Shared {
    job: Arc<Job>,
    names: Names,
    /// How many bytes a pod of each task has at least.
    least: Vec<usize>,
}

impl Shared {
    pub(super) fn new(job: &Arc<Job>) -> Result<Arc<Self>, RoundError> {
        let names = plugins::names(job)?;
        let tasks = job.spec.tasks.iter();
        let least = tasks.map(|task| least_bytes(job, task, &names)).collect();
        Ok(Arc::new(Self {
            job: Arc::clone(job),
            names,
            least,
        }))
    }

    /// An error if pods of the task are too large to be stored. It is checked before the first pod is built.
    pub(super) fn check(&self, task: usize) -> Result<(), RoundError> {
        let bytes = self.least.get(task).copied().unwrap_or_default();
        if bytes <= MOST_BYTES {
            return Ok(());
        }
        let task = self.job.spec.tasks.get(task);
        Err(RoundError::LargePod {
            task: task.map(|task| task.name.clone()).unwrap_or_default(),
            bytes,
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.job.metadata.name)
    }
}

/// The template's bytes, and those that plugins and volumes add to each container.
fn least_bytes(job: &Job, task: &TaskSpec, names: &Names) -> usize {
    let spec = &task.template["spec"];
    let count = |kind: &str| spec[kind].as_array().map_or(0, Vec::len);
    let containers = count("containers");
    let mut mounted = BTreeSet::new();
    let volumes = job.spec.volumes.iter().enumerate();
    let mounts: usize = volumes
        .filter(|(index, _)| mounted.insert(claims::name(job, *index)))
        .map(|(_, volume)| job.metadata.name.len() + volume.mount_path.len())
        .sum();
    let main = names.of_main().saturating_add(mounts);
    let every = names.of_every(task);
    let template = task.template.to_string().len();
    template
        .saturating_add(containers.saturating_mul(main))
        .saturating_add((containers + count("initContainers")).saturating_mul(every))
}

impl Recipe for Shared {
    fn name(&self, task: usize, index: i32) -> String {
        let task = self.job.spec.tasks.get(task);
        let task = task.map_or("", |task| &task.name);
        pod_name(&self.job.metadata.name, task, index)
    }

    fn least_bytes(&self, task: usize) -> usize {
        self.least.get(task).copied().unwrap_or_default()
    }

    fn pod(&self, task: usize, index: i32) -> Value {
        let Some(task) = self.job.spec.tasks.get(task) else {
            return Value::Null;
        };
        let mut pod = template::pod(&self.job, task, index);
        plugins::on_pod(&self.job, task, index, &self.names, &mut pod);
        Value::Object(pod)
    }
}
