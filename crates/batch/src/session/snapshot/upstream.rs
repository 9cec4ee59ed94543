//! Kubernetes' own pod groups, `scheduling.k8s.io/v1beta1`, as jobs.

use evictd_batch_objects::queue_of;
use evictd_pod::wire::{Metadata, Pod, PodGroup, full_name};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By `namespace/name` the queues that workloads name.
pub(crate) type QueuesOfWorkloads = BTreeMap<Box<str>, Box<str>>;

/// The job that a group of this name is: `namespace/name@scheduling.k8s.io`. Volcano's group of the same name is another job.
pub(crate) fn job_key(namespace: &str, name: &str) -> Arc<str> {
    format!("{namespace}/{name}@scheduling.k8s.io").into()
}

/// The job that this group is, as the outcome of a session names it.
pub fn upstream_job(group: &Metadata) -> Arc<str> {
    job_key(group.namespace_or_default(), &group.name)
}

/// The job of a pod that names such a group. One with scheduling gates is left alone, and belongs to none.
pub fn upstream_job_of(pod: &Pod) -> Option<Arc<str>> {
    let group = pod.spec.scheduling_group.as_ref()?;
    let name = Some(&group.pod_group_name).filter(|name| !name.is_empty())?;
    let gated = !pod.spec.scheduling_gates.is_empty();
    (!gated).then(|| job_key(pod.metadata.namespace_or_default(), name))
}

/// The fields of such a group, and those that its pods give in its place.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    /// The queue that it names; empty if it names none.
    queue: Box<str>,
    /// `namespace/name` of its workload; empty without one.
    workload: Box<str>,
    /// The priority that it was given.
    priority: Option<i32>,
    /// Its pods are evicted together or not at all.
    pub(crate) evicted_as_whole: bool,
    /// Its pods must be on nodes with the same value of each of these labels.
    pub(crate) topology: Vec<Box<str>>,
    /// Its pods that name a queue or have a priority, by key.
    pods: BTreeMap<Arc<str>, OfPod>,
    /// Why it is no job, for people.
    pub(crate) left_out: Option<String>,
}

#[derive(Debug)]
struct OfPod {
    queue: Box<str>,
    priority: i32,
}

impl Upstream {
    /// The group came or changed.
    pub(crate) fn read(&mut self, group: &PodGroup) {
        let (spec, metadata) = (&group.spec, &group.metadata);
        self.queue = queue_of(metadata).into();
        let workload = spec
            .workload_ref
            .as_ref()
            .map(|reference| &*reference.workload_name);
        let workload = workload.filter(|name| !name.is_empty());
        let namespace = metadata.namespace_or_default();
        let workload = workload.map(|name| full_name(namespace, name));
        self.workload = workload.unwrap_or_default().into();
        // The API server gives zero to a group that names no class where there is no default one.
        let named = !spec.priority_class_name.is_empty();
        self.priority = spec.priority.filter(|priority| named || *priority != 0);
        self.evicted_as_whole = spec.disruption_mode.all.is_some();
        let topology = spec.scheduling_constraints.topology.iter();
        self.topology = topology
            .map(|constraint| constraint.key.as_str().into())
            .collect();
    }

    /// A pod of it came.
    pub(crate) fn add(&mut self, key: &Arc<str>, pod: &Pod) {
        let of_pod = OfPod {
            queue: queue_of(&pod.metadata).into(),
            priority: pod.spec.priority.unwrap_or(0),
        };
        if !of_pod.queue.is_empty() || of_pod.priority != 0 {
            self.pods.insert(Arc::clone(key), of_pod);
        }
    }

    /// A pod of it is deleted.
    pub(crate) fn remove(&mut self, key: &str) {
        self.pods.remove(key);
    }

    /// The queue named by the group, its workload, or the first of its pods that names one; empty if none does.
    pub(crate) fn queue_name<'q>(&'q self, workloads: &'q QueuesOfWorkloads) -> &'q str {
        let workload = workloads.get(&self.workload);
        let pods = self.pods.values().map(|pod| &pod.queue);
        let mut named = [&self.queue].into_iter().chain(workload).chain(pods);
        named.find(|name| !name.is_empty()).map_or("", |name| name)
    }

    /// The priority that the group was given, else that of its class, else the highest of its `pods` pods.
    pub(crate) fn priority(&self, class: Option<i32>, pods: usize) -> i32 {
        let without = (self.pods.len() < pods).then_some(0);
        let of_pods = self.pods.values().map(|pod| pod.priority).chain(without);
        self.priority.or(class).or(of_pods.max()).unwrap_or(0)
    }

    /// Why the group is no job of a queue of this name, which is there or not.
    pub(crate) fn reason_against(queue: &str, is_there: bool) -> Option<String> {
        (!is_there).then(|| format!("queue {queue:?} does not exist"))
    }
}
