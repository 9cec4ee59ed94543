//! The tree of groups whose pods are tried together. A group without a parent is a tree of one group.

use super::forest::{Child, GroupObject, MAX_GROUPS, MAX_LEVELS, as_composite, min_group_count};
use super::{Groups, Member, Quorum};
use evictd_placement::{Cluster, Domains};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The groups in depth-first order, the root first. A parent's children are in the order of their creation (S7-115).
#[derive(Debug, Default)]
pub(crate) struct GroupTree {
    pub(crate) groups: Vec<TreeGroup>,
    /// The groups that have pods, by `namespace/name`.
    leaves: BTreeMap<Arc<str>, usize>,
}

/// A group of a tree.
#[derive(Debug)]
pub(crate) struct TreeGroup {
    pub(crate) object: GroupObject,
    /// How many of its pods, or of its groups, must be placed at once. Those that have a node count as scheduled.
    pub(crate) quorum: Quorum,
    pub(crate) children: Vec<usize>,
    /// The index after the last group of its subtree.
    pub(crate) end: usize,
    /// Whether it needs no further pod.
    pub(crate) is_satisfied: bool,
    /// The pods with a node, each with its node. Empty for a composite group.
    pub(crate) scheduled: Vec<(Arc<str>, Arc<str>)>,
}

/// The nodes of the pods of a group that count as scheduled.
pub(crate) type ScheduledPods = Vec<(Arc<str>, Arc<str>)>;

impl GroupTree {
    /// The tree of a root; `None` if it has no object. `scheduled` are the pods of a pod group with their nodes.
    ///
    /// # Errors
    /// It has too many groups.
    pub(crate) fn of(
        groups: &Groups,
        root: &str,
        scheduled: &impl Fn(&str) -> ScheduledPods,
    ) -> Result<Option<Self>, String> {
        let mut tree = Self::default();
        let root = match as_composite(root) {
            Some(name) => Child::Composite(name.into()),
            None => Child::PodGroup(root.into()),
        };
        let is_there = tree.add(groups, &root, 1, scheduled)?;
        Ok(is_there.map(|_| tree))
    }

    /// Adds a group with those below it. Returns its index.
    fn add(
        &mut self,
        groups: &Groups,
        child: &Child,
        level: usize,
        scheduled: &impl Fn(&str) -> ScheduledPods,
    ) -> Result<Option<usize>, String> {
        let index = self.groups.len();
        if index >= MAX_GROUPS {
            return Err(format!("the tree has more than {MAX_GROUPS} groups"));
        }
        match child {
            Child::PodGroup(name) => {
                let Some(object) = groups.object(name) else {
                    return Ok(None);
                };
                let scheduled = scheduled(name);
                let quorum = Quorum {
                    min_count: groups.min_count(name).unwrap_or(1),
                    scheduled: scheduled.len(),
                };
                self.leaves.insert(Arc::clone(name), index);
                self.groups.push(TreeGroup {
                    object: GroupObject::PodGroup(Arc::clone(object)),
                    quorum,
                    children: Vec::new(),
                    end: index + 1,
                    is_satisfied: quorum.scheduled >= quorum.min_count,
                    scheduled,
                });
            }
            Child::Composite(name) => {
                let composite = groups.composites().get(name);
                let Some((composite, object)) =
                    composite.and_then(|one| Some((one, one.object()?)))
                else {
                    return Ok(None);
                };
                self.groups.push(TreeGroup {
                    object: GroupObject::CompositePodGroup(Arc::clone(object)),
                    quorum: Quorum::default(),
                    children: Vec::new(),
                    end: index + 1,
                    is_satisfied: false,
                    scheduled: Vec::new(),
                });
                let mut children = Vec::new();
                // A group at the last level can have pods only.
                if level < MAX_LEVELS {
                    for child in in_order(groups, composite.children()) {
                        children.extend(self.add(groups, &child, level + 1, scheduled)?);
                    }
                }
                let quorum = Quorum {
                    min_count: min_group_count(object),
                    scheduled: self.satisfied(&children),
                };
                let end = self.groups.len();
                let group = &mut self.groups[index];
                group.is_satisfied = quorum.scheduled >= quorum.min_count;
                (group.quorum, group.children, group.end) = (quorum, children, end);
            }
        }
        Ok(Some(index))
    }

    /// How many of these groups need no further pod. Unlike in kube-scheduler they count, although they are not tried again
    /// (S7-116).
    fn satisfied(&self, groups: &[usize]) -> usize {
        groups
            .iter()
            .filter(|index| self.groups[**index].is_satisfied)
            .count()
    }

    /// The group of a pod.
    pub(crate) fn leaf(&self, name: &str) -> Option<usize> {
        self.leaves.get(name).copied()
    }

    /// The names of the groups that have pods.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Arc<str>> {
        self.leaves.keys()
    }

    pub(crate) fn root(&self) -> Option<&TreeGroup> {
        self.groups.first()
    }

    /// The pods with a node below a group.
    pub(crate) fn scheduled(&self, group: usize) -> impl Iterator<Item = (&str, &str)> {
        self.groups[group..self.groups[group].end]
            .iter()
            .flat_map(|group| &group.scheduled)
            .map(|(pod, node)| (&**pod, &**node))
    }

    /// The members below each group. Members are sorted by their groups.
    pub(crate) fn members(&self, members: &[Member]) -> Vec<Range<usize>> {
        let first = |group: usize| members.partition_point(|member| member.group < group);
        self.groups
            .iter()
            .enumerate()
            .map(|(index, group)| first(index)..first(group.end))
            .collect()
    }

    /// The topology domains of each group.
    pub(crate) fn domains(&self, cluster: &Cluster) -> Vec<Domains> {
        self.groups
            .iter()
            .map(|group| {
                let keys = group.object.topology();
                if keys.len() > 0 {
                    let nodes = cluster.nodes().len();
                    cluster.interrupt().charge_steps(nodes);
                }
                Domains::new(cluster, keys)
            })
            .collect()
    }
}

/// The children of a composite group by their creation, then by name.
fn in_order<'c>(groups: &Groups, children: impl Iterator<Item = &'c Child>) -> Vec<Child> {
    let created = |child: &Child| match child {
        Child::PodGroup(name) => groups
            .object(name)
            .and_then(|group| group.metadata.creation_timestamp),
        Child::Composite(name) => groups
            .composites()
            .get(name)
            .and_then(|composite| composite.object())
            .and_then(|group| group.metadata.creation_timestamp),
    };
    let mut children: Vec<Child> = children.take(MAX_GROUPS + 1).cloned().collect();
    children.sort_by_cached_key(|child| (created(child), child.clone()));
    children
}
