//! A pod that is to be made. What it needs is shared with the other pods of its job, and put together only when it is sent: a
//! job may have tens of thousands of pods, each with the names of all others in it.

use super::call::RoundError;
use super::claims;
use super::object::pod_name;
use super::plugins::{self, Names};
use super::template;
use crate::wire::{Job, TaskSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The most bytes that a pod may have; an API server stores no larger object.
pub(super) const MOST_BYTES: usize = 3 << 19;

/// A pod that is to be made.
#[derive(Clone)]
pub struct Creation {
    shared: Arc<Shared>,
    /// Its place among the tasks of the job.
    task: usize,
    index: i32,
}

/// What the pods of a job have in common.
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

    /// Whether pods of the task can be stored at all. It is told before the first is put together.
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

/// What the template has, and what each container gets beside it.
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

impl Creation {
    pub(super) fn new(shared: &Arc<Shared>, task: usize, index: i32) -> Self {
        Self {
            shared: Arc::clone(shared),
            task,
            index,
        }
    }

    fn task(&self) -> Option<&TaskSpec> {
        self.shared.job.spec.tasks.get(self.task)
    }

    /// Its name.
    pub fn name(&self) -> String {
        let task = self.task().map_or("", |task| &task.name);
        pod_name(&self.shared.job.metadata.name, task, self.index)
    }

    /// So many bytes the pod has at least, and it has not many more.
    pub fn least_bytes(&self) -> usize {
        self.shared
            .least
            .get(self.task)
            .copied()
            .unwrap_or_default()
    }

    /// The whole object.
    pub fn pod(&self) -> Value {
        let Some(task) = self.task() else {
            return Value::Null;
        };
        let Shared { job, names, .. } = &*self.shared;
        let mut pod = template::pod(job, task, self.index);
        plugins::on_pod(job, task, self.index, names, &mut pod);
        Value::Object(pod)
    }
}

impl fmt::Debug for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl PartialEq for Creation {
    fn eq(&self, other: &Self) -> bool {
        self.pod() == other.pod()
    }
}
