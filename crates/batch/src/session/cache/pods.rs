//! Pods of groups, and bare pods as jobs of their own (S6-089).

use super::Cache;
use crate::session::objects::{
    PREEMPTABLE, TASK_PRIORITY, ZONE, is_critical, is_true, key, request_of, status_of,
};
use crate::session::outcome::PodCondition;
use crate::session::pod_id::PodId;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::task::{
    ConditionText, Further, PodScheduled, Status, Task, UnknownPlace, index_of,
};
use crate::session::snapshot::upstream::upstream_job_of;
use evictd_batch_objects::{GROUP_NAME, PodGroupPhase, PodGroupStatus, TASK_SPEC, queue_of};
use evictd_placement::{Cluster, NodeId};
use evictd_pod::QosClass;
use evictd_pod::compatibility::Release;
use evictd_pod::wire::{Metadata, Pod, Time, full_name};
use std::sync::Arc;

impl Cache {
    /// A pod was added or changed. One of another scheduler is left out. A pending pod is compiled for the cluster.
    pub fn pod(&mut self, cluster: &mut Cluster, pod: &Pod) {
        let before = self.status_of_plain(pod);
        let pod_scheduled = self.pod_scheduled_of(pod);
        // Each field of a task may have changed, so it is read anew.
        self.remove_pod(cluster, &pod.metadata);
        if let Some(task) = self.task_of(cluster, pod) {
            if let Some(earlier) = pod_scheduled {
                let pod_scheduled = &mut self.snapshot.tasks[task].pod_scheduled;
                pod_scheduled.keep_pending_write(earlier);
            }
            self.pods.insert(PodId::of(&pod.metadata), task);
        }
        if let Some(status) = before {
            self.assume_status(&self.owners.job_of(&pod.metadata), status);
        }
    }

    /// A pending pod is being bound: it counts on the node from now on. Returns the compiled pod, which the caller
    /// assumes in the cluster. `None` if the cache does not know such a pod.
    pub fn bind(
        &mut self,
        cluster: &Cluster,
        pod: &PodId,
        node: NodeId,
    ) -> Option<evictd_placement::Pod> {
        let id = *self.pods.get(pod)?;
        let task = &mut self.snapshot.tasks[id];
        let compiled = task.pod.take()?;
        task.node = Some(node);
        task.node_name = cluster.node_name(node).into();
        let job = task.job;
        self.snapshot.nodes[node.index()].tasks.push(id);
        self.snapshot.set_status(id, Status::Bound);
        let job = &mut self.snapshot.jobs[job];
        if job.is_plain {
            job.begin(running());
        }
        Some(compiled)
    }

    /// A pod is being evicted: it counts as terminating from now on.
    pub fn evict(&mut self, pod: &PodId) {
        if let Some(task) = self.pods.get(pod) {
            self.snapshot.set_status(*task, Status::Releasing);
        }
    }

    /// A pod is deleted.
    pub fn remove_pod(&mut self, cluster: &mut Cluster, metadata: &Metadata) {
        let Some(index) = self.pods.remove(&PodId::of(metadata)) else {
            return;
        };
        let task = &mut self.snapshot.tasks[index];
        if let Some(node) = task.node.take() {
            let tasks = &mut self.snapshot.nodes[node.index()].tasks;
            tasks.retain(|task| *task != index);
        }
        if let Some(pod) = task.pod.take() {
            cluster.release(pod);
        }
        let job_id = task.job;
        let job = &mut self.snapshot.jobs[job_id];
        if let Some(upstream) = &mut job.upstream {
            upstream.remove(&task.key);
            self.stale_jobs = true;
        }
        job.tasks.retain(|task| *task != index);
        job.has_group &= !job.is_plain || !job.tasks.is_empty();
        job.recount(&self.snapshot.tasks);
        // The slot must not keep the role's name alive.
        self.snapshot.tasks[index].role = 0;
        self.free_tasks.push(index);
        self.drop_unused(job_id);
    }

    /// An owner of bare pods came or changed. Returns whether another number of them starts together than before. If so, add
    /// its pods again.
    pub fn owner(&mut self, owner: &Metadata) -> bool {
        self.owners.put(owner)
    }

    /// An owner of bare pods is deleted. Returns whether some of them started together. If so, add its pods again.
    pub fn remove_owner(&mut self, owner: &Metadata) -> bool {
        self.owners.remove(owner)
    }

    /// The job that a pod of no group is: `namespace/name@pod`, or `namespace/owner@kind` for the pods of an owner that start
    /// together.
    pub(crate) fn bare_job(&self, pod: &Metadata) -> Arc<str> {
        self.owners.job_of(pod)
    }

    /// The condition `PodScheduled` of a pod is being written. Until a watch shows it, sessions count it as written: otherwise
    /// each session in between would write it again.
    pub fn assume_condition(&mut self, condition: &PodCondition) {
        if let Some(pod_scheduled) = self.pod_scheduled_mut(&condition.id) {
            let text = ConditionText {
                status: condition.status.as_str().into(),
                reason: condition.reason.as_str().into(),
                message: condition.message.as_str().into(),
            };
            pod_scheduled.write(text, condition.nominated_node_name.as_deref());
        }
    }

    /// A condition of a pod was not written. The next session reports it again.
    pub fn forget_condition(&mut self, pod: &str) {
        if let Some(pod_scheduled) = self.pod_scheduled_mut(pod) {
            pod_scheduled.write_failed();
        }
    }

    fn pod_scheduled_mut(&mut self, pod: &str) -> Option<&mut PodScheduled> {
        let task = *self.pods.get(pod)?;
        Some(&mut self.snapshot.tasks[task].pod_scheduled)
    }

    /// The condition of a pod as known so far, if it is still the same pod with the same nomination.
    fn pod_scheduled_of(&mut self, pod: &Pod) -> Option<PodScheduled> {
        let task = *self.pods.get(&PodId::of(&pod.metadata))?;
        let task = &mut self.snapshot.tasks[task];
        let same = *task.nominated == *pod.status.nominated_node_name;
        same.then(|| std::mem::take(&mut task.pod_scheduled))
    }

    /// The task that a pod is, if it is one of a job.
    fn task_of(&mut self, cluster: &mut Cluster, pod: &Pod) -> Option<TaskId> {
        let job = self.job_of(pod)?;
        let status = status_of(pod);
        let mut task = self.task(pod, status, job);
        if status == Status::Pending {
            match cluster.pod(pod.clone()) {
                Ok(pod) => task.pod = Some(pod),
                Err(mistake) => task.mistake = Some(mistake.to_string().into()),
            }
        }
        if !status.is_done() {
            task.node_name = pod.spec.node_name.as_str().into();
        }
        // A new node is read before the next session.
        let node = cluster.find_node(&task.node_name);
        let node = node.filter(|node| node.index() < self.snapshot.nodes.len());
        task.node = node;
        task.request = self.snapshot.dims.read(&request_of(pod, status));
        // A pod that cannot be compiled is no best-effort task.
        task.best_effort = task.request.is_empty() && task.mistake.is_none();
        let next = TaskId::of(self.snapshot.tasks.len());
        let index = self.free_tasks.pop().unwrap_or(next);
        if let Some(node) = node {
            self.snapshot.nodes[node.index()].tasks.push(index);
        }
        self.snapshot.jobs[job].add(&task, index);
        if index == next {
            self.snapshot.tasks.push(task);
        } else {
            self.snapshot.tasks[index] = task;
        }
        Some(index)
    }

    /// The job of a pod. The annotation decides, even if the pod also names a group of `scheduling.k8s.io`.
    fn job_of(&mut self, pod: &Pod) -> Option<JobId> {
        if pod.spec.scheduler_name != self.setting.scheduler {
            return None;
        }
        let group = pod.metadata.annotations.get(GROUP_NAME);
        if let Some(group) = group.filter(|name| !name.is_empty()) {
            let namespace = pod.metadata.namespace_or_default();
            return Some(self.job(Arc::from(full_name(namespace, group))));
        }
        let Some(job) = upstream_job_of(pod) else {
            return self.plain_job_of(pod);
        };
        let job = self.job(job);
        let upstream = self.snapshot.jobs[job].upstream.get_or_insert_default();
        upstream.add(&key(&pod.metadata), pod);
        self.stale_jobs = true;
        Some(job)
    }

    /// The task of a pod, by its own fields.
    fn task(&mut self, pod: &Pod, status: Status, job: JobId) -> Task {
        let metadata = &pod.metadata;
        let annotation = |name: &str| metadata.annotations.get(name);
        let role = annotation(TASK_SPEC).filter(|name| !name.is_empty());
        let role = role.or_else(|| metadata.labels.get(TASK_SPEC));
        let role = role.map_or(0, |name| self.snapshot.roles.of(name));
        let preemptable = annotation(PREEMPTABLE).or_else(|| metadata.labels.get(PREEMPTABLE));
        let priority = annotation(TASK_PRIORITY).and_then(|text| text.parse().ok());
        let mut conditions = pod.status.conditions.iter().rev();
        let condition = conditions.find(|condition| condition.kind == "PodScheduled");
        let pod_scheduled = condition.map(|condition| ConditionText {
            status: condition.status.as_str().into(),
            reason: (*condition.reason).into(),
            message: condition.message.as_str().into(),
        });
        Task {
            key: key(metadata),
            id: PodId::of(metadata),
            job,
            request: Resource::default(),
            status,
            node: None,
            node_name: Box::default(),
            priority: priority.or(pod.spec.priority).unwrap_or(1),
            pod_priority: pod.spec.priority,
            role,
            sub_job: 0,
            best_effort: false,
            gated: !pod.spec.scheduling_gates.is_empty(),
            preemptable: preemptable.is_none_or(is_true),
            quality: QosClass::of_pod(pod, Release::default()),
            uses_zones: match annotation(ZONE) {
                Some(zone) => zone == "*",
                None => annotation(PREEMPTABLE).is_some_and(is_true),
            },
            never_preempts: pod.spec.preemption_policy == "Never",
            critical: is_critical(pod),
            created: metadata.creation_timestamp.map(Time::timestamp),
            started: pod.status.start_time,
            index: index_of(&metadata.name),
            pod: None,
            placed: None,
            removed: None,
            evicts: false,
            last: None,
            unknown_place: UnknownPlace::default(),
            pod_scheduled: PodScheduled::shown(pod_scheduled),
            nominated: pod.status.nominated_node_name.as_str().into(),
            mistake: None,
            further: Further::of(pod),
        }
    }

    /// The job of a pod of no group, if such pods are jobs.
    pub(super) fn plain_job_of(&mut self, pod: &Pod) -> Option<JobId> {
        if !self.setting.plain_pods || pod.spec.scheduling_group.is_some() {
            return None;
        }
        self.stale_jobs = true;
        let at = self.job(self.owners.job_of(&pod.metadata));
        let job = &mut self.snapshot.jobs[at];
        job.is_plain = true;
        job.has_group = true;
        job.queue_name = queue_of(&pod.metadata).into();
        job.class_name = pod.spec.priority_class_name.as_str().into();
        let created = pod.metadata.creation_timestamp.map(Time::timestamp);
        let others = (!job.tasks.is_empty()).then_some(job.created);
        // A gang of an owner is as old as its first pod.
        job.created = others.map_or(created, |others| others.min(created));
        let gang = self.owners.gang_of(&pod.metadata);
        job.min_member = gang.map_or(1, |(_, count)| count);
        if !pod.spec.node_name.is_empty() {
            job.begin(running());
        }
        Some(at)
    }

    /// The status that earlier sessions gave a pending bare pod, if it is still the same pod.
    pub(super) fn status_of_plain(&self, pod: &Pod) -> Option<PodGroupStatus> {
        let waits = self.setting.plain_pods
            && pod.spec.scheduler_name == self.setting.scheduler
            && pod.spec.node_name.is_empty();
        if !waits {
            return None;
        }
        let at = self.jobs.get(&*self.owners.job_of(&pod.metadata))?;
        let job = &self.snapshot.jobs[*at];
        let mut tasks = job.tasks.iter().map(|task| &self.snapshot.tasks[*task]);
        let id = PodId::of(&pod.metadata);
        let same = tasks.any(|task| task.id == id);
        same.then(|| job.before.clone())
    }
}

/// The status of a bare pod's job once the pod has a node.
fn running() -> PodGroupStatus {
    PodGroupStatus {
        phase: PodGroupPhase::Running,
        ..PodGroupStatus::default()
    }
}
