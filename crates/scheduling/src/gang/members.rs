//! Which pods belong to which group, and whether a group is complete.

use evictd_pod::wire;
use evictd_preemption::VictimGroup;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The groups of a cluster that have an object or a pod, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Groups(HashMap<Arc<str>, Group>);

#[derive(Debug, Default)]
struct Group {
    object: Option<Arc<wire::PodGroup>>,
    /// The keys of the pods without a node.
    waiting: BTreeSet<Arc<str>>,
    /// The pods with a node, by key.
    bound: BTreeMap<Arc<str>, BoundMember>,
}

#[derive(Debug)]
struct BoundMember {
    node: Arc<str>,
    /// Members that were bound one after the other share it.
    common: Arc<CommonFields>,
}

/// The fields in which all pods of a group must agree (S7-036).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommonFields {
    pub(crate) scheduler: Box<str>,
    pub(crate) priority: i32,
    pub(crate) never_preempts: bool,
}

impl CommonFields {
    pub(crate) fn of(pod: &wire::Pod) -> Self {
        Self {
            scheduler: pod.spec.scheduler_name_or_default().into(),
            priority: pod.spec.priority.unwrap_or(0),
            never_preempts: pod.spec.preemption_policy == NEVER,
        }
    }
}

/// The `preemptionPolicy` of a pod or group that does not preempt.
const NEVER: &str = "Never";

/// The pods of groups that have a node, as victims.
#[derive(Debug, Default)]
pub(crate) struct GroupedPods {
    /// The groups whose pods are preempted all together or not at all (`disruptionMode: all`).
    pub(crate) atomic: Vec<Arc<wire::PodGroup>>,
    /// By key.
    pub(crate) pods: HashMap<Arc<str>, GroupedPod>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupedPod {
    /// Index of its atomic group.
    pub(crate) atomic: Option<usize>,
    /// The priority of the group, which counts instead of its own (S7-066).
    pub(crate) priority: i32,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.object.is_none() && self.waiting.is_empty() && self.bound.is_empty()
    }

    /// How many of its pods must be placed at once: one for the policy `basic` (S7-024). `None` without an object.
    fn min_count(&self) -> Option<usize> {
        let policy = &self.object.as_ref()?.spec.scheduling_policy;
        // No API server accepts a count below one.
        let min_count = policy.gang.as_ref().map_or(1, |gang| gang.min_count.max(1));
        Some(usize::try_from(min_count).unwrap_or(1))
    }
}

/// `namespace/name` of the group that a pod names.
pub(crate) fn group_of(pod: &wire::Pod) -> Option<Arc<str>> {
    let name = &pod.spec.scheduling_group.as_ref()?.pod_group_name;
    let namespace = pod.metadata.namespace_or_default();
    (!name.is_empty()).then(|| format!("{namespace}/{name}").into())
}

impl Groups {
    /// Sets or removes the object of a group. Returns the name of the group.
    pub(crate) fn set(
        &mut self,
        metadata: &wire::Metadata,
        object: Option<Arc<wire::PodGroup>>,
    ) -> Arc<str> {
        let name: Arc<str> = metadata.full_name().into();
        self.0.entry(Arc::clone(&name)).or_default().object = object;
        self.remove_if_empty(&name);
        name
    }

    /// A pod without a node was added or changed.
    pub(crate) fn wait(&mut self, group: Arc<str>, pod: &Arc<str>) {
        let group = self.0.entry(group).or_default();
        group.waiting.insert(Arc::clone(pod));
    }

    /// A pod was bound.
    pub(crate) fn bind(&mut self, group: Arc<str>, key: &Arc<str>, pod: &wire::Pod, node: &str) {
        let group = self.0.entry(group).or_default();
        group.waiting.remove(key);
        let common = CommonFields::of(pod);
        let neighbour = group.bound.values().next();
        let common = match neighbour.filter(|neighbour| *neighbour.common == common) {
            Some(neighbour) => Arc::clone(&neighbour.common),
            None => Arc::new(common),
        };
        let node = node.into();
        group
            .bound
            .insert(Arc::clone(key), BoundMember { node, common });
    }

    /// A pod was deleted or has ended.
    pub(crate) fn leave(&mut self, group: &str, pod: &str) {
        if let Some(group) = self.0.get_mut(group) {
            group.waiting.remove(pod);
            group.bound.remove(pod);
        }
        self.remove_if_empty(group);
    }

    fn remove_if_empty(&mut self, name: &str) {
        if self.0.get(name).is_some_and(Group::is_empty) {
            self.0.remove(name);
        }
    }

    pub(crate) fn object(&self, group: &str) -> Option<&Arc<wire::PodGroup>> {
        self.0.get(group)?.object.as_ref()
    }

    /// How many pods of a group must be placed at once. `None` if the group has no object.
    pub(crate) fn min_count(&self, group: &str) -> Option<usize> {
        self.0.get(group)?.min_count()
    }

    /// Whether the pods of a group may be tried: it has an object, and as many pods as must be placed at once (S5-096).
    pub(crate) fn may_begin(&self, group: &str) -> bool {
        let Some(group) = self.0.get(group) else {
            return false;
        };
        let count = group.waiting.len() + group.bound.len();
        group
            .min_count()
            .is_some_and(|min_count| count >= min_count)
    }

    /// Why the pods of a group may not be tried yet; `None` if they may.
    pub(crate) fn waits_for(&self, group: &str) -> Option<String> {
        if self.may_begin(group) {
            return None;
        }
        let known = self.0.get(group).filter(|group| group.object.is_some());
        Some(match known {
            None => format!("its PodGroup {group} does not exist"),
            Some(known) => format!(
                "its PodGroup {group} needs {} pods and has {}",
                known.min_count().unwrap_or(0),
                known.waiting.len() + known.bound.len()
            ),
        })
    }

    /// The pods with a node of all groups that have an object. `assumed` is true for waiting pods with an assumed node.
    pub(crate) fn grouped_pods(&self, assumed: impl Fn(&Arc<str>) -> bool) -> GroupedPods {
        let mut found = GroupedPods::default();
        for group in self.0.values() {
            let Some(object) = &group.object else {
                continue;
            };
            let atomic = object.spec.disruption_mode.all.is_some().then(|| {
                found.atomic.push(Arc::clone(object));
                found.atomic.len() - 1
            });
            let member = GroupedPod {
                atomic,
                priority: object.spec.priority.unwrap_or(0),
            };
            let assumed = group.waiting.iter().filter(|pod| assumed(pod));
            let pods = group.bound.keys().chain(assumed);
            found.pods.extend(pods.map(|pod| (Arc::clone(pod), member)));
        }
        found
    }

    /// What a group means for its pods as victims; `None` without an object.
    pub(crate) fn of_victims(&self, namespace: &str, name: &str) -> Option<VictimGroup> {
        // Most clusters have no groups, and a preemption asks for each kind of pods.
        if self.0.is_empty() {
            return None;
        }
        let name: Arc<str> = format!("{namespace}/{name}").into();
        let spec = &self.object(&name)?.spec;
        Some(VictimGroup {
            priority: spec.priority.unwrap_or(0),
            atomic: spec.disruption_mode.all.is_some().then_some(name),
        })
    }

    /// What the bound pods of a group have in common, once for pods that share it.
    pub(crate) fn common_of_bound(&self, group: &str) -> Vec<Arc<CommonFields>> {
        let group = self.0.get(group).into_iter();
        let mut common: Vec<Arc<CommonFields>> = group
            .flat_map(|group| group.bound.values())
            .map(|member| Arc::clone(&member.common))
            .collect();
        common.dedup_by(|one, other| Arc::ptr_eq(one, other));
        common
    }

    /// The keys of the pods of a group that have no node.
    pub(crate) fn waiting(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        let group = self.0.get(group).into_iter();
        group.flat_map(|group| &group.waiting)
    }

    /// The keys of the bound pods of a group, with their nodes.
    pub(crate) fn pods_with_nodes(&self, group: &str) -> impl Iterator<Item = (&str, &str)> {
        let group = self.0.get(group).into_iter();
        group.flat_map(|group| {
            let bound = group.bound.iter();
            bound.map(|(pod, member)| (&**pod, &*member.node))
        })
    }

    /// The nodes of the bound pods of a group.
    pub(crate) fn nodes(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        let group = self.0.get(group).into_iter();
        group.flat_map(|group| group.bound.values().map(|member| &member.node))
    }
}
