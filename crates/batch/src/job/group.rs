//! The PodGroup of a job (S6-046).

use super::call::{Call, Notice};
use super::object::{group_name, metadata, namespace};
use super::surroundings::Surroundings;
use super::{names, transition};
use crate::usage::{pod_usage, times};
use crate::wire::{Job, NetworkTopology, PartitionPolicy, PodGroup, TaskSpec};
use evictd_pod::wire::{PodSpec, ResourceList, TextMap};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The job's PodGroup; one that has the job's own name is of an older version, and counts as well.
pub(super) fn of_job(job: &Job, around: &dyn Surroundings) -> Option<Arc<PodGroup>> {
    let group = |name: &str| around.pod_group(namespace(job), name);
    group(&group_name(job)).or_else(|| group(&job.metadata.name))
}

/// The event that tells the user why the job waits: the newest condition that holds, unless it says that the group is
/// scheduled (S6-039).
pub(super) fn pending(job: &Job, group: &PodGroup) -> Option<Notice> {
    let conditions = group.status.conditions.iter().rev();
    let holding = conditions.filter(|condition| condition.status == "True");
    let newest = holding.max_by_key(|condition| condition.last_transition_time)?;
    (newest.kind != "Scheduled").then(|| {
        let (namespace, name) = (namespace(job), &job.metadata.name);
        let kind = newest.kind.to_lowercase();
        let message = format!(
            "PodGroup {namespace}:{name} {kind}, reason: {}",
            newest.message
        );
        Notice::warning("PodGroupPending", message)
    })
}

/// The call that makes the job's PodGroup, or brings it in line with the job; `None` if it is.
pub(super) fn wanted(job: &Job, around: &dyn Surroundings) -> Option<Call> {
    let resources = min_resources(job, around);
    match of_job(job, around) {
        Some(group) => update(job, &group, &resources),
        None => Some(create(job, &resources)),
    }
}

fn texts(texts: &TextMap) -> Value {
    let texts = texts.iter();
    Value::Object(
        texts
            .map(|(key, text)| (key.to_owned(), text.into()))
            .collect(),
    )
}

fn create(job: &Job, resources: &ResourceList) -> Call {
    let members: BTreeMap<&str, i32> = job.spec.tasks.iter().map(member).collect();
    let mut metadata = metadata(job, &group_name(job));
    metadata["annotations"] = texts(&job.metadata.annotations);
    metadata["labels"] = texts(&job.metadata.labels);
    let mut spec = json!({
        "minMember": job.spec.min_available,
        "minTaskMember": members,
        "minResources": resources,
        "queue": job.spec.queue,
        "priorityClassName": job.spec.priority_class_name,
    });
    if let Some(topology) = &job.spec.network_topology {
        spec["networkTopology"] = network(topology);
    }
    let parts = parts(job);
    if !parts.is_empty() {
        spec["subGroupPolicy"] = Value::Array(parts);
    }
    Call::CreatePodGroup {
        group: json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": metadata,
            "spec": spec,
        }),
    }
}

/// The queue is not among what is brought in line.
fn update(job: &Job, group: &PodGroup, resources: &ResourceList) -> Option<Call> {
    let mut spec = Map::new();
    if group.spec.priority_class_name != job.spec.priority_class_name {
        let class = job.spec.priority_class_name.clone();
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    let known = group.spec.min_resources.as_ref();
    if group.spec.min_member != job.spec.min_available || known != Some(resources) {
        spec.insert("minMember".to_owned(), job.spec.min_available.into());
        spec.insert("minResources".to_owned(), replacing(known, resources));
    }
    let members = job.spec.tasks.iter().map(member);
    let members = members.filter(|(task, min)| group.spec.min_task_member.get(*task) != Some(min));
    let members: BTreeMap<&str, i32> = members.collect();
    if !members.is_empty() {
        spec.insert("minTaskMember".to_owned(), json!(members));
    }
    let parts = parts(job);
    let names: Vec<&str> = job.spec.tasks.iter().map(|task| &*task.name).collect();
    let ours = |part: &&Value| {
        part["name"]
            .as_str()
            .is_some_and(|name| names.contains(&name))
    };
    let known: Vec<&Value> = group.spec.sub_group_policy.iter().filter(ours).collect();
    if parts.iter().ne(known) {
        spec.insert("subGroupPolicy".to_owned(), Value::Array(parts));
    }
    (!spec.is_empty()).then(|| Call::UpdatePodGroup {
        name: group.metadata.name.clone(),
        patch: json!({"spec": spec}),
    })
}

/// As a merge patch: what is no longer named is taken out.
fn replacing(known: Option<&ResourceList>, resources: &ResourceList) -> Value {
    let mut patch = json!(resources);
    let gone = known.into_iter().flat_map(ResourceList::keys);
    for name in gone.filter(|name| !resources.contains_key(name)) {
        patch[name] = Value::Null;
    }
    patch
}

/// How many pods of the task are needed.
fn member(task: &TaskSpec) -> (&str, i32) {
    let parts = task.partition_policy.as_ref();
    let parts = parts.map(|parts| parts.min_partitions.saturating_mul(parts.partition_size));
    let parts = parts.filter(|pods| *pods != 0);
    let min = task.min_available.or(parts).unwrap_or(task.replicas);
    (&task.name, min)
}

/// The tier by its number, else by its name.
fn network(topology: &NetworkTopology) -> Value {
    let mut value = json!({"mode": topology.mode});
    if let Some(tier) = topology.highest_tier_allowed {
        value["highestTierAllowed"] = tier.into();
    } else if !topology.highest_tier_name.is_empty() {
        value["highestTierName"] = topology.highest_tier_name.clone().into();
    }
    value
}

/// The parts of the group: one for each task that is divided.
fn parts(job: &Job) -> Vec<Value> {
    let part = |task: &TaskSpec, policy: &PartitionPolicy| {
        let mut part = json!({
            "name": task.name,
            "subGroupSize": policy.partition_size,
            "minSubGroups": policy.min_partitions,
            "labelSelector": {"matchLabels": {names::TASK_SPEC: task.name}},
            "matchLabelKeys": [names::PARTITION],
        });
        if let Some(topology) = &policy.network_topology {
            part["networkTopology"] = network(topology);
        }
        part
    };
    let tasks = job.spec.tasks.iter();
    let divided = tasks.filter_map(|task| Some(part(task, task.partition_policy.as_ref()?)));
    divided.collect()
}

/// A task with what one of its pods uses.
struct Share<'a> {
    task: &'a TaskSpec,
    priority: i32,
    usage: ResourceList,
}

/// What the pods use that are needed first: those of the tasks with the highest priority class (S6-046).
fn min_resources(job: &Job, around: &dyn Surroundings) -> ResourceList {
    let mut shares: Vec<Share<'_>> = job
        .spec
        .tasks
        .iter()
        .map(|task| share(task, around))
        .collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.priority));
    let wanted = i64::from(job.spec.min_available);
    let mut sum = Sum::default();
    if wanted < transition::task_min_available(&job.spec) {
        sum.first(&shares, wanted);
    } else {
        sum.needed_first(&shares, wanted);
    }
    sum.0
}

fn share<'a>(task: &'a TaskSpec, around: &dyn Surroundings) -> Share<'a> {
    let spec = PodSpec::deserialize(&task.template["spec"]).unwrap_or_default();
    let class = &spec.priority_class_name;
    let priority = (!class.is_empty())
        .then(|| around.priority(class))
        .flatten();
    Share {
        task,
        priority: priority.unwrap_or(0),
        usage: pod_usage(&spec),
    }
}

/// What pods use together.
#[derive(Default)]
struct Sum(ResourceList);

impl Sum {
    fn add(&mut self, usage: &ResourceList, count: i64) {
        if count <= 0 {
            return;
        }
        for (name, amount) in usage.iter() {
            let known = self.0.get(name).copied().unwrap_or_default();
            self.0.insert(name, known + times(*amount, count));
        }
    }

    /// The first `wanted` pods.
    fn first(&mut self, shares: &[Share<'_>], mut wanted: i64) {
        for share in shares {
            let taken = wanted.min(i64::from(share.task.replicas));
            self.add(&share.usage, taken);
            wanted -= taken;
            if wanted <= 0 {
                return;
            }
        }
    }

    /// The pods that the tasks need, then others, up to `wanted`.
    fn needed_first(&mut self, shares: &[Share<'_>], mut wanted: i64) {
        let setting = |share: &&Share<'_>| share.task.min_available.is_some();
        for share in shares.iter().filter(setting) {
            let min = i64::from(share.task.min_available.unwrap_or(0));
            let taken = min.min(wanted);
            self.add(&share.usage, taken);
            wanted -= taken;
            if wanted <= 0 {
                return;
            }
        }
        for share in shares {
            let rest = share
                .task
                .replicas
                .saturating_sub(share.task.min_available.unwrap_or(0));
            let taken = wanted.min(i64::from(rest));
            self.add(&share.usage, taken);
            wanted -= taken;
            if wanted <= 0 {
                return;
            }
        }
    }
}
