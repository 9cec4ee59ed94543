//! The objects that the controllers would still create for a job: its pod group, and its pods once it is enqueued.

use super::call::{Answer, Call, Done, KeyPair};
use super::info::JobInfo;
use super::lister::Lister;
use super::object::pod_name;
use super::request::Request;
use super::round::{Round, Task};
use super::step::Next;
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{
    Compat, Job, PodGroup, PodGroupPhase, TaskContainer, TaskPod, TaskPodStatus,
};
use evictd_pod::wire::{PodPhase, full_name};
use evictd_pod::{defaults, wire::Pod};
use evictd_reconcile::Refusal;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// No more pods of a task are looked for.
const MOST: i32 = 100_000;

/// Objects that are not there yet.
#[derive(Debug, Default)]
pub struct PendingObjects {
    /// The pod group.
    pub group: Option<Arc<PodGroup>>,
    /// By `namespace/name`, as an API server would store them.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// How many pods wait for another task.
    pub dependent: usize,
}

/// The controllers' listers; every queue, class and claim exists, because the job waits for none of them.
struct PendingLister<'w> {
    group: Option<Arc<PodGroup>>,
    pods: &'w BTreeMap<String, Arc<Pod>>,
}

impl Lister for PendingLister<'_> {
    fn has_queue(&self, _: &str) -> bool {
        true
    }

    fn priority(&self, _: &str) -> Option<i32> {
        None
    }

    fn has_claim(&self, _: &str, _: &str) -> bool {
        true
    }

    fn pod_group(&self, _: &str, name: &str) -> Option<Arc<PodGroup>> {
        let group = self.group.as_ref();
        group.filter(|group| group.metadata.name == name).cloned()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<TaskPod>> {
        let pod = self.pods.get(&full_name(namespace, name))?;
        Some(Arc::new(seen(pod)))
    }
}

/// A pod as the controllers see it.
fn seen(pod: &Pod) -> TaskPod {
    let conditions = pod.status.conditions.iter();
    let mut unready = conditions.filter(|condition| condition.fails("Ready"));
    // A container that is not ready says the same.
    let containers = unready.next().map(|_| TaskContainer::default());
    TaskPod {
        metadata: pod.metadata.clone(),
        status: TaskPodStatus {
            phase: pod.status.phase.clone(),
            container_statuses: containers.into_iter().collect(),
            ..TaskPodStatus::default()
        },
    }
}

impl PendingObjects {
    /// The missing objects of a job with its pod group; `pods` are those of the cluster by `namespace/name`.
    pub fn of(job: &Job, group: Option<&Arc<PodGroup>>, pods: &BTreeMap<String, Arc<Pod>>) -> Self {
        let mut pending = Self::default();
        let mut lister = PendingLister {
            group: group.cloned(),
            pods,
        };
        // The first round creates only the group. The pods follow once it is enqueued.
        if lister.group.is_none() {
            pending.synchronise(job, &lister);
            lister.group.clone_from(&pending.group);
        }
        if let Some(group) = &mut lister.group {
            // Treats it as enqueued, so that its pods are created.
            Arc::make_mut(group).status.phase = PodGroupPhase::Inqueue;
        }
        pending.synchronise(job, &lister);
        pending.dependent = pending.dependent(job, pods);
        pending
    }

    /// How many pods of dependent tasks neither exist nor would be created.
    fn dependent(&self, job: &Job, pods: &BTreeMap<String, Arc<Pod>>) -> usize {
        let tasks = job.spec.tasks.iter();
        let tasks = tasks.filter(|task| task.depends_on.is_some());
        let missing = tasks.map(|task| {
            let is_there = |index: &i32| {
                let name = pod_name(&job.metadata.name, &task.name, *index);
                let key = format!("{}/{name}", job.metadata.namespace_or_default());
                pods.contains_key(&key) || self.pods.contains_key(&key)
            };
            let indices = 0..task.replicas.min(MOST);
            indices.filter(|index| !is_there(index)).count()
        });
        missing.sum()
    }

    /// One round of the controllers, with the objects that it creates.
    fn synchronise(&mut self, job: &Job, lister: &PendingLister<'_>) {
        let metadata = &job.metadata;
        let namespace = metadata.namespace_or_default();
        let mut info = JobInfo::default();
        info.set_job(job.clone());
        for pod in lister.pods.values().filter(|pod| is_of(job, pod)) {
            info.set_pod(Arc::new(seen(pod)));
        }
        let request = Request::of_job(namespace, &metadata.name, Event::of("OutOfSync"));
        let task = Task {
            action: &Action::SyncJob,
            request: &request,
            compat: Compat::EVICTD,
        };
        // The created objects do not depend on the time.
        let now = Timestamp::UNIX_EPOCH;
        let (mut round, mut step) = Round::start(&mut info, task, now, lister);
        while let Next::Calls(calls) = step.next {
            let answers = calls.into_iter().map(|call| self.answer(call, job));
            step = round.answered(answers.collect(), now, lister);
        }
    }

    fn answer(&mut self, call: Call, job: &Job) -> Answer {
        let unread = |error: serde_json::Error| Refusal::Other(error.to_string());
        match call {
            Call::CreatePodGroup { group } => {
                let group = PodGroup::deserialize(&group).map_err(unread)?;
                self.group = Some(Arc::new(group));
            }
            Call::CreatePod { pod } => {
                let pod = pod.pod();
                let task = TaskPod::deserialize(&pod).map_err(unread)?;
                let pod = stored(&pod).map_err(unread)?;
                self.pods.insert(pod.metadata.full_name(), Arc::new(pod));
                return Ok(Done::Pod(Box::new(task)));
            }
            Call::WriteStatus { .. } | Call::PatchJob { .. } => {
                return Ok(Done::Job(Box::new(job.clone())));
            }
            Call::MakeKeys => {
                return Ok(Done::Keys(KeyPair {
                    private: String::new(),
                    public: String::new(),
                }));
            }
            _ => {}
        }
        Ok(Done::Nothing)
    }
}

/// A new pod as an API server stores it.
fn stored(pod: &Value) -> Result<Pod, serde_json::Error> {
    let mut pod = Pod::deserialize(pod)?;
    defaults::complete(&mut pod);
    pod.metadata.uid = format!("made-{}", pod.metadata.name).into();
    pod.status.phase = PodPhase::Pending;
    Ok(pod)
}

/// Whether a pod is one of the job.
pub(super) fn is_of(job: &Job, pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter();
    pod.metadata.namespace_or_default() == job.metadata.namespace_or_default()
        && owners.any(|owner| owner.controller && *owner.uid == *job.metadata.uid)
}
