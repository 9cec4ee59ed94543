//! The PodGroup of a job (S6-046).

use super::call::Call;
use super::dependencies::{Waiting, needed};
use super::lister::Lister;
use super::names;
use super::object::{group_name, metadata, namespace};
use super::transition;
use evictd_batch_objects::{
    IN_STAGES, Job, NetworkTopology, PartitionPolicy, PodGroup, PodGroupConditionType, TASK_SPEC,
    TaskSpec, pod_usage, times,
};
use evictd_pod::wire::{ConditionStatus, PodSpec, ResourceList, TextMap};
use evictd_reconcile::Notice;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The job's PodGroup; one that has the job's own name is of an older version, and counts as well.
pub(super) fn of_job(job: &Job, lister: &dyn Lister) -> Option<Arc<PodGroup>> {
    let group = |name: &str| lister.pod_group(namespace(job), name);
    group(&group_name(job)).or_else(|| group(&job.metadata.name))
}

/// The event that says why the job waits: the newest condition that holds, unless it is Scheduled (S6-039).
pub(super) fn pending(job: &Job, group: &PodGroup) -> Option<Notice> {
    let conditions = group.status.conditions.iter().rev();
    let holding = conditions.filter(|condition| condition.status == ConditionStatus::True);
    let newest = holding.max_by_key(|condition| condition.last_transition_time)?;
    (newest.kind != PodGroupConditionType::Scheduled).then(|| {
        let (namespace, name) = (namespace(job), &job.metadata.name);
        let kind = newest.kind.as_str().to_lowercase();
        let message = format!(
            "PodGroup {namespace}:{name} {kind}, reason: {}",
            newest.message
        );
        Notice::warning("PodGroupPending", message)
    })
}

/// The call that makes the job's PodGroup, or brings it in line with the job; `None` if it is. It leaves out tasks that wait
/// for others.
pub(super) fn wanted(job: &Job, waiting: &Waiting, lister: &dyn Lister) -> Option<Call> {
    let resources = min_resources(job, waiting, lister);
    match of_job(job, lister) {
        Some(group) => update(job, waiting, &group, &resources),
        None => Some(create(job, waiting, &resources)),
    }
}

/// The tasks whose turn has come.
fn tasks<'j>(job: &'j Job, waiting: &'j Waiting) -> impl Iterator<Item = &'j TaskSpec> {
    job.spec.tasks.iter().filter(|task| !waiting.has(task))
}

fn texts(texts: &TextMap) -> Value {
    let texts = texts.iter();
    Value::Object(
        texts
            .map(|(key, text)| (key.to_owned(), text.into()))
            .collect(),
    )
}

fn create(job: &Job, waiting: &Waiting, resources: &ResourceList) -> Call {
    let members: BTreeMap<&str, i32> = tasks(job, waiting).map(member).collect();
    let mut metadata = metadata(job, &group_name(job));
    metadata["annotations"] = texts(&job.metadata.annotations);
    if waiting.in_stages {
        metadata["annotations"][IN_STAGES] = "true".into();
    }
    metadata["labels"] = texts(&job.metadata.labels);
    let mut spec = json!({
        "minMember": waiting.min_available(&job.spec),
        "minTaskMember": members,
        "minResources": resources,
        "queue": job.spec.queue,
        "priorityClassName": job.spec.priority_class_name,
    });
    if let Some(topology) = &job.spec.network_topology {
        spec["networkTopology"] = network(topology);
    }
    let parts = parts(job, waiting);
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

/// The queue is not part of the sync.
fn update(
    job: &Job,
    waiting: &Waiting,
    group: &PodGroup,
    resources: &ResourceList,
) -> Option<Call> {
    let mut spec = Map::new();
    if group.spec.priority_class_name != job.spec.priority_class_name {
        let class = job.spec.priority_class_name.clone();
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    let known = group.spec.min_resources.as_ref();
    let min = waiting.min_available(&job.spec);
    if group.spec.min_member != min || known != Some(resources) {
        spec.insert("minMember".to_owned(), min.into());
        spec.insert("minResources".to_owned(), replacing(known, resources));
    }
    let members = tasks(job, waiting).map(member);
    let members = members.map(|(task, min)| (task, Some(min)));
    // In a merge patch null removes the minimum of a task that waits again.
    let wait = job.spec.tasks.iter().filter(|task| waiting.has(task));
    let members = members.chain(wait.map(|task| (&*task.name, None)));
    let known = &group.spec.min_task_member;
    let members = members.filter(|(task, min)| known.get(*task) != min.as_ref());
    let members: BTreeMap<&str, Option<i32>> = members.collect();
    if !members.is_empty() {
        spec.insert("minTaskMember".to_owned(), json!(members));
    }
    let parts = parts(job, waiting);
    let names: Vec<&str> = job.spec.tasks.iter().map(|task| &*task.name).collect();
    // Other parts of the group belong to users, so they are no reason for a patch.
    let ours = |part: &&Value| {
        part["name"]
            .as_str()
            .is_some_and(|name| names.contains(&name))
    };
    let known: Vec<&Value> = group.spec.sub_group_policy.iter().filter(ours).collect();
    if parts.iter().ne(known) {
        spec.insert("subGroupPolicy".to_owned(), Value::Array(parts));
    }
    let is_told = group.metadata.annotations.contains_key(IN_STAGES);
    let mut patch = Map::new();
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    if waiting.in_stages && !is_told {
        let metadata = json!({"annotations": {IN_STAGES: "true"}});
        patch.insert("metadata".to_owned(), metadata);
    }
    (!patch.is_empty()).then(|| Call::UpdatePodGroup {
        name: group.metadata.name.clone(),
        patch: Value::Object(patch),
    })
}

/// As a merge patch that removes names no longer used.
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
    (&task.name, needed(task))
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
fn parts(job: &Job, waiting: &Waiting) -> Vec<Value> {
    let part = |task: &TaskSpec, policy: &PartitionPolicy| {
        let mut part = json!({
            "name": task.name,
            "subGroupSize": policy.partition_size,
            "minSubGroups": policy.min_partitions,
            "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
            "matchLabelKeys": [names::PARTITION],
        });
        if let Some(topology) = &policy.network_topology {
            part["networkTopology"] = network(topology);
        }
        part
    };
    let tasks = tasks(job, waiting);
    let divided = tasks.filter_map(|task| Some(part(task, task.partition_policy.as_ref()?)));
    divided.collect()
}

/// A task with the usage of one of its pods.
struct Share<'a> {
    task: &'a TaskSpec,
    priority: i32,
    usage: ResourceList,
}

/// The usage of the pods that are needed first: those of the tasks with the highest priority class (S6-046).
fn min_resources(job: &Job, waiting: &Waiting, lister: &dyn Lister) -> ResourceList {
    let mut shares: Vec<Share<'_>> = tasks(job, waiting)
        .map(|task| share(task, lister))
        .collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.priority));
    let wanted = i64::from(waiting.min_available(&job.spec));
    let mut sum = Sum::default();
    if wanted < transition::min_available_of(tasks(job, waiting)) {
        sum.first(&shares, wanted);
    } else {
        sum.needed_first(&shares, wanted);
    }
    sum.0
}

fn share<'a>(task: &'a TaskSpec, lister: &dyn Lister) -> Share<'a> {
    let spec = PodSpec::deserialize(&task.template["spec"]).unwrap_or_default();
    let class = &spec.priority_class_name;
    let priority = (!class.is_empty())
        .then(|| lister.priority(class))
        .flatten();
    Share {
        task,
        priority: priority.unwrap_or(0),
        usage: pod_usage(&spec),
    }
}

/// The usage of pods together.
#[derive(Default)]
struct Sum(ResourceList);

impl Sum {
    fn add(&mut self, usage: &ResourceList, count: i64) {
        // A task may need fewer pods than were counted already.
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
        // A task without a minimum has no pods that must come first.
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
