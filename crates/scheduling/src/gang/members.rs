//! Which pods belong to which group, and whether a group is complete.

use evictd_pod::wire;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The groups of a cluster that have an object or a pod, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Groups(HashMap<Arc<str>, Members>);

/// What is known of a group.
#[derive(Debug, Default)]
struct Members {
    object: Option<Arc<wire::PodGroup>>,
    /// Pods without a node, by what the queue knows them by.
    waiting: BTreeSet<Arc<str>>,
    /// Pods with a node, and its name.
    bound: BTreeMap<Arc<str>, Arc<str>>,
}

/// The groups whose pods can be preempted only all together.
#[derive(Debug, Default)]
pub(crate) struct Together {
    pub(crate) groups: Vec<Arc<wire::PodGroup>>,
    /// Their pods that have a node, by key: the number of the group, and its priority.
    pub(crate) pods: HashMap<Arc<str>, (usize, i32)>,
}

impl Members {
    fn is_empty(&self) -> bool {
        self.object.is_none() && self.waiting.is_empty() && self.bound.is_empty()
    }

    /// How many pods have to be placed at once; `None` where each is placed by itself.
    fn min_count(&self) -> Option<usize> {
        let gang = self.object.as_ref()?.spec.scheduling_policy.gang.as_ref()?;
        // A count below one asks for nothing, which no API server lets pass.
        Some(usize::try_from(gang.min_count).unwrap_or(0))
    }
}

/// `namespace/name` of the group that a pod names.
pub(crate) fn group_of(pod: &wire::Pod) -> Option<Arc<str>> {
    let group = pod.spec.scheduling_group.as_ref()?;
    let name = Some(&group.pod_group_name).filter(|name| !name.is_empty())?;
    Some(full_name(pod.metadata.namespace_or_default(), name))
}

fn full_name(namespace: &str, name: &str) -> Arc<str> {
    format!("{namespace}/{name}").into()
}

impl Groups {
    /// A group's object appeared or changed (`Some`) or went; its name.
    pub(crate) fn set(
        &mut self,
        metadata: &wire::Metadata,
        object: Option<Arc<wire::PodGroup>>,
    ) -> Arc<str> {
        let name = full_name(metadata.namespace_or_default(), &metadata.name);
        self.0.entry(Arc::clone(&name)).or_default().object = object;
        self.tidy(&name);
        name
    }

    /// A pod without a node came or changed.
    pub(crate) fn wait(&mut self, group: Arc<str>, pod: &Arc<str>) {
        let members = self.0.entry(group).or_default();
        members.waiting.insert(Arc::clone(pod));
    }

    /// A pod got a node.
    pub(crate) fn bind(&mut self, group: Arc<str>, pod: &Arc<str>, node: &str) {
        let members = self.0.entry(group).or_default();
        members.waiting.remove(pod);
        members.bound.insert(Arc::clone(pod), node.into());
    }

    /// A pod is gone.
    pub(crate) fn leave(&mut self, group: &str, pod: &str) {
        if let Some(members) = self.0.get_mut(group) {
            members.waiting.remove(pod);
            members.bound.remove(pod);
        }
        self.tidy(group);
    }

    fn tidy(&mut self, group: &str) {
        if self.0.get(group).is_some_and(Members::is_empty) {
            self.0.remove(group);
        }
    }

    /// The object of a group.
    pub(crate) fn object(&self, group: &str) -> Option<&Arc<wire::PodGroup>> {
        self.0.get(group)?.object.as_ref()
    }

    /// How many pods of a group have to be placed at once; `None` if each is placed by itself or the group has no object.
    pub(crate) fn min_count(&self, group: &str) -> Option<usize> {
        self.0.get(group)?.min_count()
    }

    /// Whether the pods of a group may be tried: it has an object, and as many pods as have to be placed at once (S5-096).
    pub(crate) fn may_begin(&self, group: &str) -> bool {
        let Some(members) = self.0.get(group).filter(|own| own.object.is_some()) else {
            return false;
        };
        let count = members.waiting.len() + members.bound.len();
        members.min_count().is_none_or(|least| count >= least)
    }

    /// The groups whose pods can be preempted only all together.
    pub(crate) fn together(&self) -> Together {
        let mut together = Together::default();
        for members in self.0.values() {
            let object = members.object.as_ref();
            let Some(object) = object.filter(|own| own.spec.disruption_mode.all.is_some()) else {
                continue;
            };
            let own = (together.groups.len(), object.spec.priority.unwrap_or(0));
            let pods = members.bound.keys();
            together.pods.extend(pods.map(|pod| (Arc::clone(pod), own)));
            together.groups.push(Arc::clone(object));
        }
        together
    }

    /// The pods of a group that have no node, by key.
    pub(crate) fn waiting(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0
            .get(group)
            .into_iter()
            .flat_map(|own| own.waiting.iter())
    }

    /// The nodes of the pods of a group that have one.
    pub(crate) fn nodes(&self, group: &str) -> impl Iterator<Item = &Arc<str>> {
        let members = self.0.get(group).into_iter();
        members.flat_map(|own| own.bound.values())
    }
}
