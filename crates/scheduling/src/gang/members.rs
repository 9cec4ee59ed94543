//! Which pods belong to which group, and whether a group is complete.

use evictd_pod::wire;
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
    /// The pods with a node: their keys and the names of their nodes.
    bound: BTreeMap<Arc<str>, Arc<str>>,
}

/// The groups whose pods are preempted all together or not at all (`disruptionMode: all`).
#[derive(Debug, Default)]
pub(crate) struct AtomicGroups {
    pub(crate) groups: Vec<Arc<wire::PodGroup>>,
    /// Their pods that have a node, by key.
    pub(crate) pods: HashMap<Arc<str>, AtomicMember>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AtomicMember {
    /// Index of its group.
    pub(crate) group: usize,
    /// The priority of the group.
    pub(crate) priority: i32,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.object.is_none() && self.waiting.is_empty() && self.bound.is_empty()
    }

    /// `None` if its pods are placed one by one.
    fn min_count(&self) -> Option<usize> {
        let gang = self.object.as_ref()?.spec.scheduling_policy.gang.as_ref()?;
        // No API server accepts a count below one.
        Some(usize::try_from(gang.min_count).unwrap_or(0))
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
    pub(crate) fn bind(&mut self, group: Arc<str>, pod: &Arc<str>, node: &str) {
        let group = self.0.entry(group).or_default();
        group.waiting.remove(pod);
        group.bound.insert(Arc::clone(pod), node.into());
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

    /// How many pods of a group must be placed at once. `None` if they are placed one by one, or the group has no object.
    pub(crate) fn min_count(&self, group: &str) -> Option<usize> {
        self.0.get(group)?.min_count()
    }

    /// Whether the pods of a group may be tried: it has an object, and as many pods as must be placed at once (S5-096).
    pub(crate) fn may_begin(&self, group: &str) -> bool {
        let Some(group) = self.0.get(group) else {
            return false;
        };
        let count = group.waiting.len() + group.bound.len();
        group.object.is_some() && group.min_count().is_none_or(|min_count| count >= min_count)
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

    pub(crate) fn atomic(&self) -> AtomicGroups {
        let mut atomic = AtomicGroups::default();
        for group in self.0.values() {
            let Some(object) = &group.object else {
                continue;
            };
            if object.spec.disruption_mode.all.is_none() {
                continue;
            }
            let member = AtomicMember {
                group: atomic.groups.len(),
                priority: object.spec.priority.unwrap_or(0),
            };
            let pods = group.bound.keys().map(|pod| (Arc::clone(pod), member));
            atomic.pods.extend(pods);
            atomic.groups.push(Arc::clone(object));
        }
        atomic
    }

    /// The keys of the pods of a group that have no node.
    pub(crate) fn waiting(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        let group = self.0.get(group).into_iter();
        group.flat_map(|group| &group.waiting)
    }

    /// The nodes of the bound pods of a group.
    pub(crate) fn nodes(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        let group = self.0.get(group).into_iter();
        group.flat_map(|group| group.bound.values())
    }
}
