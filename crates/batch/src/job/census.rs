//! Which pods of a job are there, which are missing and which are too many (S6-040 to S6-043).

use super::call::Call;
use super::dependencies;
use super::ending;
use super::info::{Pods, is_marked};
use super::object::pod_name;
use super::plugins;
use super::rules::Rules;
use super::status;
use super::surroundings::Surroundings;
use super::template;
use crate::wire::{Job, JobStatus, TaskPod, TaskSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was found, and what is to be made of it.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// The pods that are being made, in the order of the calls.
    pub(super) made: Vec<Made>,
    /// The pods that go: beyond the replicas, or marked by an ending that did not come to its end (S6-035).
    pub(super) surplus: Vec<Arc<TaskPod>>,
    /// The pods that are there; only the counts are set.
    pub(super) counts: JobStatus,
    /// The number of tasks.
    pub(super) tasks: usize,
}

/// A pod that is being made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) task: String,
    pub(super) name: String,
}

impl Census {
    /// Looks through the pods; returns the calls that make those that are missing.
    pub(super) fn take(
        &mut self,
        job: &Job,
        pods: &BTreeMap<String, Pods>,
        rules: Rules,
        around: &dyn Surroundings,
    ) -> Vec<Call> {
        let mut calls = Vec::new();
        let names: BTreeSet<&str> = job.spec.tasks.iter().map(|task| &*task.name).collect();
        self.tasks = names.len();
        let find = dependencies::finder(job, pods, around);
        for task in &job.spec.tasks {
            let mut left = pods.get(&task.name).cloned().unwrap_or_default();
            let ready = dependencies::are_ready(job, task, rules, &find);
            for index in 0..task.replicas {
                let name = pod_name(&job.metadata.name, &task.name, index);
                match left.remove(&name) {
                    Some(pod) => self.found(job, &task.name, pod, rules),
                    None if ready => {
                        calls.push(creation(job, task, index));
                        let task = task.name.clone();
                        self.made.push(Made { task, name });
                    }
                    None => {}
                }
            }
            self.surplus.extend(left.into_values());
        }
        calls
    }

    fn found(&mut self, job: &Job, task: &str, pod: Arc<TaskPod>, rules: Rules) {
        if pod.metadata.deletion_timestamp.is_some() {
            self.counts.terminating += 1;
            return;
        }
        status::count(&mut self.counts, task, &pod);
        // What the status does not tell yet is carried on as a whole.
        let resumes = rules.endings_resume && ending::resumed(job, &pod).is_some();
        if is_marked(&pod) && !resumes {
            self.surplus.push(pod);
        }
    }
}

fn creation(job: &Job, task: &TaskSpec, index: i32) -> Call {
    let mut pod = template::pod(job, task, index);
    plugins::on_pod(job, task, index, &mut pod);
    Call::CreatePod {
        pod: Value::Object(pod),
    }
}
