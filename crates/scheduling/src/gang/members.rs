//! Which pods belong to which group, and whether a group is complete.

use super::forest::{
    Child, Composites, Counted, GroupObject, MAX_LEVELS, as_composite, composite_root, parent,
};
use evictd_pod::wire;
use evictd_preemption::VictimGroup;
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The groups of a cluster that have an object or a pod, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: HashMap<Arc<str>, Group>,
    composites: Composites,
}

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
    pub(crate) atomic: Vec<GroupObject>,
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

    /// Whether it has an object, and as many pods as must be placed at once (S5-096).
    fn is_ready(&self) -> bool {
        let count = self.waiting.len() + self.bound.len();
        self.min_count().is_some_and(|least| count >= least)
    }

    fn parent(&self) -> Option<Arc<str>> {
        parent(self.object.as_ref()?)
    }

    fn counted(&self) -> Counted {
        (self.parent(), self.is_ready())
    }
}

/// `namespace/name` of the group that a pod names.
pub(crate) fn group_of(pod: &wire::Pod) -> Option<Arc<str>> {
    let name = pod.spec.pod_group()?;
    let namespace = pod.metadata.namespace_or_default();
    Some(format!("{namespace}/{name}").into())
}

/// The names of the groups of pods. Equal names that follow each other are one allocation: a group may have thousands of pods.
#[derive(Debug, Default)]
pub(crate) struct GroupNames {
    last: Option<Arc<str>>,
}

impl GroupNames {
    /// As [`group_of`].
    pub(crate) fn of(&mut self, pod: &wire::Pod) -> Option<Arc<str>> {
        let name = pod.spec.pod_group()?;
        let namespace = pod.metadata.namespace_or_default();
        let is_last = |last: &Arc<str>| {
            let rest = last.strip_prefix(namespace);
            rest.and_then(|rest| rest.strip_prefix('/')) == Some(name)
        };
        if !self.last.as_ref().is_some_and(is_last) {
            self.last = group_of(pod);
        }
        self.last.clone()
    }
}

/// Changes.
impl Groups {
    /// Sets or removes the object of a group. Returns the name of the group.
    pub(crate) fn set(
        &mut self,
        metadata: &wire::Metadata,
        object: Option<Arc<wire::PodGroup>>,
    ) -> Arc<str> {
        let name: Arc<str> = metadata.full_name().into();
        let child = Child::PodGroup(Arc::clone(&name));
        let group = self.groups.entry(Arc::clone(&name)).or_default();
        let old = group.counted();
        group.object = object;
        let new = group.counted();
        self.composites.unlink(old, &child);
        self.composites.link(new, child);
        self.remove_if_empty(&name);
        name
    }

    /// Sets or removes the object of a composite group. Returns its name.
    pub(crate) fn set_composite(
        &mut self,
        metadata: &wire::Metadata,
        object: Option<Arc<wire::CompositePodGroup>>,
    ) -> Arc<str> {
        let name: Arc<str> = metadata.full_name().into();
        self.composites.set(&name, object);
        name
    }

    /// A pod without a node was added or changed.
    pub(crate) fn wait(&mut self, group: Arc<str>, pod: &Arc<str>) {
        self.change(group, |group| {
            group.waiting.insert(Arc::clone(pod));
        });
    }

    /// A pod was bound.
    pub(crate) fn bind(&mut self, group: Arc<str>, key: &Arc<str>, pod: &wire::Pod, node: &str) {
        self.change(group, |group| {
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
        });
    }

    /// A pod was deleted or has ended.
    pub(crate) fn leave(&mut self, group: &str, pod: &str) {
        if self.groups.contains_key(group) {
            self.change(group.into(), |group| {
                group.waiting.remove(pod);
                group.bound.remove(pod);
            });
        }
        self.remove_if_empty(group);
    }

    /// Changes the pods of a group, and counts for its parents whether it is ready.
    fn change(&mut self, name: Arc<str>, change: impl FnOnce(&mut Group)) {
        let group = self.groups.entry(name).or_default();
        let was_ready = group.is_ready();
        change(group);
        let is_ready = group.is_ready();
        if was_ready != is_ready
            && let Some(parent) = group.parent()
        {
            self.composites.count_ready(parent, is_ready);
        }
    }

    fn remove_if_empty(&mut self, name: &str) {
        if self.groups.get(name).is_some_and(Group::is_empty) {
            self.groups.remove(name);
        }
    }
}

/// The trees of groups.
impl Groups {
    pub(crate) const fn composites(&self) -> &Composites {
        &self.composites
    }

    /// The name of the root above a group; the group's own without a parent.
    ///
    /// # Errors
    /// The tree above it is incomplete or invalid.
    pub(crate) fn root(&self, group: &Arc<str>) -> Result<Arc<str>, String> {
        let known = self.groups.get(group);
        match known.and_then(Group::parent) {
            None => Ok(Arc::clone(group)),
            Some(parent) => Ok(composite_root(&self.composites.root(&parent)?)),
        }
    }

    /// Whether the pods of a group may be tried: its tree is complete, and enough groups of it have enough pods (S7-113).
    pub(crate) fn may_begin(&self, group: &Arc<str>) -> bool {
        self.waits_for(group).is_none()
    }

    /// Why the pods of a group may not be tried yet; `None` if they may.
    pub(crate) fn waits_for(&self, group: &Arc<str>) -> Option<String> {
        let known = self.groups.get(group);
        let Some(known) = known.filter(|group| group.object.is_some()) else {
            return Some(format!(
                "its PodGroup {group} does not exist in scheduling.k8s.io/v1beta1"
            ));
        };
        match known.parent() {
            None if known.is_ready() => None,
            None => Some(format!(
                "its PodGroup {group} needs {} pods and has {}",
                known.min_count().unwrap_or(0),
                known.waiting.len() + known.bound.len()
            )),
            // The root has no parent, so that only its groups make it ready.
            Some(parent) => match self.composites.root(&parent) {
                Ok(root) => self.composites.waits_for(&root),
                Err(problem) => Some(problem),
            },
        }
    }

    /// The names of the groups with pods below a root. At most [`MAX_GROUPS`](super::forest::MAX_GROUPS) groups are visited.
    pub(crate) fn leaves(&self, root: &Arc<str>) -> Vec<Arc<str>> {
        let Some(root) = as_composite(root) else {
            return vec![Arc::clone(root)];
        };
        self.composites.leaves(root)
    }

    /// The objects of a root, of these groups and of the groups above them.
    pub(crate) fn with_parents(&self, root: &str, leaves: BTreeSet<Arc<str>>) -> Vec<GroupObject> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        for leaf in leaves {
            let Some(group) = self.groups.get(&leaf) else {
                continue;
            };
            let mut parent = group.parent();
            if *leaf != *root {
                found.extend(group.object.clone().map(GroupObject::PodGroup));
            }
            while let Some(name) = parent.filter(|name| seen.insert(Arc::clone(name))) {
                let composite = self.composites.get(&name);
                let object = composite.and_then(|composite| composite.object());
                parent = composite.and_then(super::forest::Composite::parent);
                found.extend(object.cloned().map(GroupObject::CompositePodGroup));
            }
        }
        if as_composite(root).is_none_or(|name| !seen.contains(name)) {
            found.extend(self.group_object(root));
        }
        found
    }
}

/// The groups as victims.
impl Groups {
    /// The pods with a node of all groups that have an object. `assumed` is true for waiting pods with an assumed node.
    pub(crate) fn grouped_pods(&self, assumed: impl Fn(&Arc<str>) -> bool) -> GroupedPods {
        let mut found = GroupedPods::default();
        let mut indices: HashMap<Arc<str>, usize> = HashMap::new();
        for (name, group) in &self.groups {
            let Some(as_victim) = self.as_victim(name, group) else {
                continue;
            };
            let atomic = as_victim.atomic.and_then(|name| {
                let object = self.group_object(&name)?;
                Some(*indices.entry(name).or_insert_with(|| {
                    found.atomic.push(object);
                    found.atomic.len() - 1
                }))
            });
            let member = GroupedPod {
                atomic,
                priority: as_victim.priority,
            };
            let assumed = group.waiting.iter().filter(|pod| assumed(pod));
            let pods = group.bound.keys().chain(assumed);
            found.pods.extend(pods.map(|pod| (Arc::clone(pod), member)));
        }
        found
    }

    /// The effect of a group on its pods as victims; `None` without an object.
    pub(crate) fn of_victims(&self, namespace: &str, name: &str) -> Option<VictimGroup> {
        // Most clusters have no groups, and a preemption asks for each kind of pods.
        if self.groups.is_empty() {
            return None;
        }
        let name: Arc<str> = format!("{namespace}/{name}").into();
        self.as_victim(&name, self.groups.get(&name)?)
    }

    /// The priority of the root counts, and the highest group with the mode `all` is evicted as a whole (S7-121).
    fn as_victim(&self, name: &Arc<str>, group: &Group) -> Option<VictimGroup> {
        let spec = &group.object.as_ref()?.spec;
        let alone = VictimGroup {
            priority: spec.priority.unwrap_or(0),
            atomic: spec.disruption_mode.all.is_some().then(|| Arc::clone(name)),
        };
        let mut found = alone.clone();
        let mut next = group.parent();
        for _ in 1..MAX_LEVELS {
            // Above a missing group nothing is known.
            let composite = next.as_ref().and_then(|name| self.composites.get(name));
            let object = composite.and_then(|composite| composite.object());
            let (Some(composite), Some(object), Some(name)) = (composite, object, &next) else {
                return Some(found);
            };
            found.priority = object.spec.priority.unwrap_or(0);
            if object.spec.disruption_mode.all.is_some() {
                found.atomic = Some(composite_root(name));
            }
            next = composite.parent();
        }
        // In a tree without a root, or with too many levels, a pod could be in several victims.
        Some(if next.is_none() { found } else { alone })
    }

    /// The object of a group, or of a composite root.
    pub(crate) fn group_object(&self, name: &str) -> Option<GroupObject> {
        match as_composite(name) {
            None => self.object(name).cloned().map(GroupObject::PodGroup),
            Some(name) => {
                let object = self.composites.get(name)?.object();
                object.cloned().map(GroupObject::CompositePodGroup)
            }
        }
    }
}

/// Views of one group.
impl Groups {
    pub(crate) fn object(&self, group: &str) -> Option<&Arc<wire::PodGroup>> {
        self.groups.get(group)?.object.as_ref()
    }

    /// How many pods of a group must be placed at once. `None` if the group has no object.
    pub(crate) fn min_count(&self, group: &str) -> Option<usize> {
        self.groups.get(group)?.min_count()
    }

    /// The facts that the bound pods of a group share, once for pods that share it.
    pub(crate) fn common_of_bound(&self, group: &str) -> Vec<Arc<CommonFields>> {
        let group = self.groups.get(group).into_iter();
        let mut common: Vec<Arc<CommonFields>> = group
            .flat_map(|group| group.bound.values())
            .map(|member| Arc::clone(&member.common))
            .collect();
        common.dedup_by(|one, other| Arc::ptr_eq(one, other));
        common
    }

    /// The groups with pods that have no node, with the keys of these pods.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeSet<Arc<str>>)> {
        let groups = self.groups.iter();
        let groups = groups.map(|(name, group)| (name, &group.waiting));
        groups.filter(|(_, waiting)| !waiting.is_empty())
    }

    /// The keys of the pods of a group that have no node.
    pub(crate) fn waiting(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        let group = self.groups.get(group).into_iter();
        group.flat_map(|group| &group.waiting)
    }

    /// The keys of the bound pods of a group, with their nodes.
    pub(crate) fn pods_with_nodes(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        let group = self.groups.get(group).into_iter();
        group.flat_map(|group| {
            let bound = group.bound.iter();
            bound.map(|(pod, member)| (pod, &member.node))
        })
    }
}
