//! Pods of groups as victims of a single pod (S7-066, S7-080).

use crate::budget::Budget;
use crate::compat::Compat;
use evictd_placement::{Cluster, NO_START, NodeId, Pod, TemplateId};
use evictd_pod::compatibility::Release;
use hashbrown::HashMap;
use std::sync::Arc;

/// A victim: a pod on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Victim {
    /// Its node, which is another one than the candidate's for some pods of a group.
    pub node: NodeId,
    /// Its index among the pods of its node.
    pub index: u32,
}

impl Victim {
    /// A pod by its node and its index there.
    pub fn new(node: NodeId, index: usize) -> Self {
        // No node runs 2^32 pods, so the fallback is never used.
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        Self { node, index }
    }

    /// The pod.
    pub fn pod(self, cluster: &Cluster) -> &Pod {
        &cluster.node(self.node).pods[self.index()]
    }

    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }
}

/// The effect of a group on its pods as victims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VictimGroup {
    /// The priority that counts instead of that of each pod, in a tree that of the root (S7-066, S7-121).
    pub priority: i32,
    /// The name of the highest group above them whose pods are evicted all together or not at all (`disruptionMode: all`).
    pub atomic: Option<Arc<str>>,
}

/// The groups of the pods of a cluster. From Kubernetes 1.37 on a single pod preempts groups as a whole.
pub trait VictimGroups {
    /// The group that a pod of this namespace names; `None` if it does not exist.
    fn group(&self, namespace: &str, name: &str) -> Option<VictimGroup>;

    /// The keys of the pods with a node of an atomic group, as [`Cluster::pod_key`] returns them.
    fn pods(&self, atomic: &Arc<str>) -> Vec<Arc<str>>;
}

/// The limits on victims.
#[derive(Clone, Copy, Default)]
#[allow(
    missing_debug_implementations,
    reason = "the groups are a trait object"
)]
pub struct VictimRules<'a> {
    /// The disruption budgets.
    pub budgets: &'a [Budget],
    /// The groups of the pods. Without them pods are evicted one by one.
    pub groups: Option<&'a dyn VictimGroups>,
}

impl<'a> VictimRules<'a> {
    /// Budgets, and no groups.
    pub const fn of_budgets(budgets: &'a [Budget]) -> Self {
        Self {
            budgets,
            groups: None,
        }
    }
}

impl VictimRules<'_> {
    /// The rules as far as a version has them.
    pub(crate) fn of(self, compat: Compat) -> Self {
        Self {
            groups: self.groups.filter(|_| compat >= Compat::V1_36),
            ..self
        }
    }
}

/// Pods that are evicted all together or not at all.
pub(crate) struct AtomicGroup {
    pub(crate) name: Arc<str>,
    /// Sorted by node and index.
    pub(crate) pods: Vec<Victim>,
    /// The earliest start of its pods.
    pub(crate) start: i64,
}

/// The group of a pod, resolved.
#[derive(Clone, Copy)]
pub(crate) struct Grouped {
    pub(crate) priority: i32,
    /// Its index in [`KnownGroups::atomic`].
    pub(crate) atomic: Option<usize>,
}

/// The groups of one plan. Each is looked up once, because its pods share few templates.
pub(crate) struct KnownGroups<'a> {
    cluster: &'a Cluster,
    groups: Option<&'a dyn VictimGroups>,
    by_template: HashMap<TemplateId, Option<Grouped>>,
    by_name: HashMap<Arc<str>, usize>,
    pub(crate) atomic: Vec<AtomicGroup>,
}

impl<'a> KnownGroups<'a> {
    pub(crate) fn new(cluster: &'a Cluster, groups: Option<&'a dyn VictimGroups>) -> Self {
        // Kubernetes 1.36 has groups, but ignores them in the preemption for a single pod.
        let sees_groups = cluster.compatibility().is_at_least(Release::V1_37);
        Self {
            cluster,
            groups: groups.filter(|_| sees_groups),
            by_template: HashMap::new(),
            by_name: HashMap::new(),
            atomic: Vec::new(),
        }
    }

    /// Whether any of these pods is in a group.
    pub(crate) fn has_any(&mut self, pods: &[Pod]) -> bool {
        self.groups.is_some() && pods.iter().any(|pod| self.of(pod).is_some())
    }

    /// The priority that counts for a pod as a victim.
    pub(crate) fn priority(&mut self, pod: &Pod) -> i32 {
        self.of(pod).map_or(pod.priority, |group| group.priority)
    }

    /// The group of a pod; `None` without an existing one.
    pub(crate) fn of(&mut self, pod: &Pod) -> Option<Grouped> {
        let groups = self.groups?;
        let template = self.cluster.template(pod);
        let name = template.scheduling_group?;
        if let Some(known) = self.by_template.get(&pod.template) {
            return *known;
        }
        let text = |symbol| self.cluster.symbols().text(symbol);
        let group = groups.group(text(template.namespace), text(name));
        let grouped = group.map(|group| Grouped {
            priority: group.priority,
            atomic: group.atomic.map(|name| self.resolve(groups, name)),
        });
        self.by_template.insert(pod.template, grouped);
        grouped
    }

    /// The index of the atomic group with which a pod is evicted. A pod that the group does not list is evicted alone.
    pub(crate) fn atomic(&mut self, victim: Victim) -> Option<usize> {
        let atomic = self.of(victim.pod(self.cluster))?.atomic?;
        let pods = &self.atomic[atomic].pods;
        pods.binary_search(&victim).is_ok().then_some(atomic)
    }

    /// The names of the atomic groups of victims, each once.
    pub(crate) fn evicted(&mut self, victims: &[Victim]) -> Vec<Arc<str>> {
        let mut found: Vec<usize> = victims
            .iter()
            .filter_map(|victim| self.atomic(*victim))
            .collect();
        found.sort_unstable();
        found.dedup();
        let names = found.into_iter().map(|index| &self.atomic[index].name);
        names.map(Arc::clone).collect()
    }

    fn resolve(&mut self, groups: &dyn VictimGroups, name: Arc<str>) -> usize {
        if let Some(index) = self.by_name.get(&name) {
            return *index;
        }
        let cluster = self.cluster;
        let keys = groups.pods(&name).into_iter();
        let found = keys.filter_map(|key| cluster.find_pod(&key));
        let mut pods: Vec<Victim> = found.map(|(id, index)| Victim::new(id, index)).collect();
        pods.sort_unstable();
        let starts = pods.iter().map(|victim| victim.pod(cluster).start);
        let index = self.atomic.len();
        self.by_name.insert(Arc::clone(&name), index);
        self.atomic.push(AtomicGroup {
            start: starts.min().unwrap_or(NO_START),
            name,
            pods,
        });
        index
    }
}
