//! Gangs in the queue: their pods are gated until there are enough, and are popped together.

use super::entities::Entities;
use super::{Failure, Nomination, SchedulingQueue};
use crate::change::{Delta, is_same};
use crate::events::ClusterEvent;
use crate::gang::{
    CommonFields, GroupNames, GroupObject, GroupTree, GroupedPods, ScheduledPods, group_of,
    is_same_composite, is_same_group, title,
};
use crate::not_tried::NotTried;
use crate::plugins::PluginSet;
use crate::queue::{Moved, Pool, Popped, Scope};
use evictd_pod::wire;
use evictd_preemption::{VictimGroup, VictimGroups};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

const NOT_ALL: &str = " has not all its pods yet";
const AWAITS_VICTIMS: &str = " waits for its victims to terminate";

/// The pods of a tree of groups that are tried now. They are in flight.
#[derive(Debug)]
pub(crate) struct Gang {
    /// The name of its root.
    pub(crate) name: Arc<str>,
    /// Without groups if the gang must wait.
    pub(crate) tree: GroupTree,
    /// The pods in flight, in the order in which they are tried.
    pub(crate) members: Vec<Popped>,
    /// Why it must not be tried: its object was deleted, it has too few pods, its victims are still being deleted, or the tree is
    /// invalid.
    pub(crate) must_wait: Option<String>,
}

impl SchedulingQueue {
    /// A group was added, changed or deleted: its pods are tried again.
    pub(crate) fn on_group(&mut self, now: Timestamp, delta: &Delta<wire::PodGroup>) -> Vec<Moved> {
        let Some(group) = delta.new.as_ref().or(delta.old.as_ref()) else {
            return Vec::new();
        };
        let name = self
            .hints
            .groups
            .set(&group.metadata, delta.new.as_ref().map(Arc::clone));
        // A condition of a group must not wake its whole tree (S7-025).
        if let (Some(old), Some(new)) = (&delta.old, &delta.new)
            && is_same(&old.metadata, &new.metadata)
            && is_same_group(old, new)
        {
            return Vec::new();
        }
        self.retry_group(now, &name)
    }

    /// A pod with a node was added. It may be the last one that the others of its group have waited for (S7-025).
    pub(super) fn on_new_member(&mut self, now: Timestamp, pod: &Arc<wire::Pod>) -> Vec<Moved> {
        let Some(group) = group_of(pod) else {
            return Vec::new();
        };
        let groups = &mut self.hints.groups;
        let (began, node) = (groups.may_begin(&group), &pod.spec.node_name);
        groups.bind(Arc::clone(&group), &pod.metadata.key(), pod, node);
        if began || !groups.may_begin(&group) {
            return Vec::new();
        }
        self.retry_group(now, &group)
    }

    /// A composite group was added, changed or deleted: the pods of its tree are tried again (S7-114). Returns the composite
    /// groups that can have no pods from now on, too, with the reasons (S7-123).
    pub(crate) fn on_composite_group(
        &mut self,
        now: Timestamp,
        delta: &Delta<wire::CompositePodGroup>,
    ) -> (Vec<Moved>, Vec<(GroupObject, String)>) {
        let Some(group) = delta.new.as_ref().or(delta.old.as_ref()) else {
            return (Vec::new(), Vec::new());
        };
        let new = delta.new.as_ref().map(Arc::clone);
        let groups = &mut self.hints.groups;
        let name = groups.set_composite(&group.metadata, new);
        if let (Some(old), Some(new)) = (&delta.old, &delta.new)
            && is_same(&old.metadata, &new.metadata)
            && is_same_composite(old, new)
        {
            return (Vec::new(), Vec::new());
        }
        let invalid = groups.composites().invalid_below(&name);
        // Without the deleted object its tree is in parts, each with a root or none.
        let leaves = groups.composites().leaves(&name).into_iter();
        let mut roots: Vec<Arc<str>> = leaves
            .map(|leaf| groups.root(&leaf).unwrap_or(leaf))
            .collect();
        roots.sort_unstable();
        roots.dedup();
        let moved = roots.iter().flat_map(|root| self.retry_tree(now, root));
        (moved.collect(), invalid)
    }

    /// Whether the pods of a group may be tried.
    pub(super) fn is_ready(&self, group: Option<&Arc<str>>) -> bool {
        group.is_some_and(|group| self.hints.groups.may_begin(group))
    }

    /// Tries the pods of a group again that a new member has completed. In a group that lacks pods the others stay gated. In one that
    /// was complete the attempt for the new pod takes them along. A visit to each would be in vain.
    pub(super) fn retry_ready(&mut self, now: Timestamp, group: Option<&Arc<str>>) -> Vec<Moved> {
        match group {
            Some(group) if self.is_ready(Some(group)) => self.retry_group(now, group),
            _ => Vec::new(),
        }
    }

    /// Tries the unschedulable and gated pods of a group again, with all pods of its tree.
    pub(crate) fn retry_group(&mut self, now: Timestamp, group: &Arc<str>) -> Vec<Moved> {
        let root = self.hints.groups.root(group);
        // No pod of an incomplete tree can be tried, but those of this group may have to leave the queue.
        self.retry_tree(now, &root.unwrap_or_else(|_| Arc::clone(group)))
    }

    /// Tries the unschedulable and gated pods below a root again.
    pub(crate) fn retry_tree(&mut self, now: Timestamp, root: &Arc<str>) -> Vec<Moved> {
        let waits = |pod: &Arc<str>| {
            let pool = self.lifecycles.queue().pool(pod);
            matches!(pool, Some(Pool::Gated | Pool::Unschedulable))
        };
        let groups = &self.hints.groups;
        let leaves = groups.leaves(root);
        let pods: Vec<Arc<str>> = leaves
            .iter()
            .flat_map(|leaf| groups.waiting(leaf))
            .filter(|pod| waits(pod))
            .cloned()
            .collect();
        self.activate(now, pods.iter().map(|pod| &**pod))
    }

    /// The tree of a popped pod, with all its waiting pods, which are popped from any pool. `None` if it is in no group.
    pub(crate) fn take_gang(&mut self, popped: &Popped) -> Option<Gang> {
        let name = group_of(self.hints.pods.get(&popped.pod)?)?;
        let groups = &self.hints.groups;
        let root = groups.root(&name).unwrap_or(name);
        let leaves = groups.leaves(&root);
        let others: Vec<Arc<str>> = leaves
            .iter()
            .flat_map(|leaf| groups.waiting(leaf))
            .filter(|pod| **pod != popped.pod)
            .cloned()
            .collect();
        let mut members = vec![popped.clone()];
        members.extend(others.iter().filter_map(|pod| self.lifecycles.take(pod)));
        Some(self.gang(root, members))
    }

    /// The gang of these pods in flight, with the present state of its groups.
    pub(crate) fn gang(&self, name: Arc<str>, mut members: Vec<Popped>) -> Gang {
        let scheduled = |group: &str| self.scheduled_pods(group);
        let tree = GroupTree::of(&self.hints.groups, &name, &scheduled);
        let (tree, problem) = match tree {
            Ok(Some(tree)) => {
                let problem = self.must_wait(&name, &tree, &members);
                (tree, problem)
            }
            Ok(None) => (GroupTree::default(), Some(NOT_ALL.to_owned())),
            Err(problem) => (GroupTree::default(), Some(format!(": {problem}"))),
        };
        // The order decides which pods fit, so it must not depend on which pod was popped.
        let mut names = GroupNames::default();
        members.sort_by_cached_key(|member| self.turn(&tree, &member.pod, &mut names));
        Gang {
            must_wait: problem.map(|problem| title(&name) + &problem),
            name,
            tree,
            members,
        }
    }

    /// Why a tree must not be tried, if it has too few pods, is incomplete, or its victims are still being deleted.
    fn must_wait(&self, name: &Arc<str>, tree: &GroupTree, members: &[Popped]) -> Option<String> {
        let groups = &self.hints.groups;
        let mut names = GroupNames::default();
        let there: Vec<Arc<str>> = members
            .iter()
            .filter_map(|member| names.of(self.hints.pods.get(&member.pod)?))
            .collect();
        for group in there.chunk_by(Arc::ptr_eq).filter_map(|same| same.first()) {
            match groups.root(group) {
                Ok(root) if root == *name => {}
                Ok(_) => return Some(NOT_ALL.to_owned()),
                Err(problem) => return Some(format!(": {problem}")),
            }
        }
        let preempts = tree
            .leaves()
            .flat_map(|leaf| groups.waiting(leaf))
            .any(|pod| self.lifecycles.awaits_victims(pod));
        if preempts {
            return Some(AWAITS_VICTIMS.to_owned());
        }
        // A composite group finds out itself which of its groups has too few pods.
        let too_few = tree.root().is_none_or(|root| {
            root.children.is_empty() && !root.quorum.is_possible(0, there.len())
        });
        too_few.then(|| NOT_ALL.to_owned())
    }

    /// Plugins have rejected the assumed pods of a gang. Their room is free again, which is an event for other pods only:
    /// pods of the gang would wake each other.
    pub(crate) fn gang_rejected(
        &mut self,
        now: Timestamp,
        pods: &[Arc<str>],
        rejectors: PluginSet,
    ) -> Vec<Moved> {
        let failure = Failure {
            rejectors,
            nomination: Nomination::Cleared,
            ..Failure::default()
        };
        let freed: Vec<ClusterEvent> = pods
            .iter()
            .filter_map(|pod| self.forget(now, pod))
            .collect();
        let mut moved = Vec::new();
        for pod in pods {
            // A pod that is not in flight any more has been deleted meanwhile.
            moved.extend(self.failed(now, pod, &failure).ok().flatten());
        }
        for event in freed {
            moved.extend(self.raise(now, event, Scope::Except(pods.into())));
        }
        moved
    }

    /// Why a gated pod is not tried. Empty if it is not gated.
    pub fn gate(&self, pod: &wire::Pod) -> String {
        let by_itself = NotTried::of(pod).map(|reason| reason.to_string());
        let of_group = || self.hints.groups.waits_for(&group_of(pod)?);
        by_itself
            .or_else(|| self.hints.missing_claim(pod))
            .or_else(of_group)
            .unwrap_or_default()
    }

    /// The object of a group, or of a composite root.
    pub(crate) fn group_object(&self, name: &str) -> Option<GroupObject> {
        self.hints.groups.group_object(name)
    }

    /// The objects of the root of this name, of the groups of these pods and of the groups above them.
    pub(crate) fn groups_of<'p>(
        &self,
        root: &str,
        pods: impl Iterator<Item = &'p wire::Pod>,
    ) -> Vec<GroupObject> {
        let leaves: BTreeSet<Arc<str>> = pods.filter_map(group_of).collect();
        self.hints.groups.with_parents(root, leaves)
    }

    /// Whether the groups below a root have enough bound or assumed pods.
    pub(crate) fn is_whole(&self, root: &str) -> bool {
        let scheduled = |group: &str| self.scheduled_pods(group);
        let tree = GroupTree::of(&self.hints.groups, root, &scheduled);
        let tree = tree.ok().flatten();
        let root = tree.as_ref().and_then(GroupTree::root);
        root.is_none_or(|root| root.is_satisfied)
    }

    /// The order in which the pods of a gang are tried: by group, by priority, then by name.
    fn turn(
        &self,
        tree: &GroupTree,
        pod: &Arc<str>,
        names: &mut GroupNames,
    ) -> (Option<usize>, Reverse<i32>, String) {
        let wire = self.hints.pods.get(pod);
        let group = wire.and_then(|pod| tree.leaf(&names.of(pod)?));
        let priority = wire.and_then(|pod| pod.spec.priority).unwrap_or(0);
        let name = wire.map_or(String::new(), |pod| pod.metadata.name.clone());
        (group, Reverse(priority), name)
    }

    /// The bound and the assumed pods of a group, with their nodes.
    fn scheduled_pods(&self, group: &str) -> ScheduledPods {
        let pods = self.nodes_of_group(group);
        pods.map(|(pod, node)| (Arc::clone(pod), Arc::clone(node)))
            .collect()
    }

    /// The keys of the bound and of the assumed pods of a group, with their nodes.
    fn nodes_of_group(&self, group: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        let groups = &self.hints.groups;
        let assumed = groups
            .waiting(group)
            .filter_map(|pod| Some((pod, self.lifecycles.assumed_node(pod)?)));
        groups.pods_with_nodes(group).chain(assumed)
    }

    fn grouped_entities(&self) -> Entities {
        Entities::of(&self.hints.groups, self.lifecycles.queue())
    }

    /// How many pods are gated because their group, or a group above it, does not exist.
    pub fn incomplete(&self) -> usize {
        self.grouped_entities().incomplete
    }

    /// How many entities wait in each pool, with their type: `pod` without a group, `podgroup` for a tree of groups (S7-021).
    pub fn entities(&self) -> Vec<(Pool, &'static str, usize)> {
        let queue = self.lifecycles.queue();
        self.grouped_entities().counts(queue)
    }

    /// Returns the root of the group of each pod; `None` without a group.
    pub(crate) fn roots(&self) -> impl FnMut(&str) -> Option<Arc<str>> {
        let mut names = GroupNames::default();
        let mut last: Option<(Arc<str>, Arc<str>)> = None;
        move |pod| {
            let group = names.of(self.hints.pods.get(pod)?)?;
            let known = last.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &group));
            if let Some((_, root)) = known {
                return Some(Arc::clone(root));
            }
            let root = self.hints.groups.root(&group);
            let root = root.unwrap_or_else(|_| Arc::clone(&group));
            last = Some((group, Arc::clone(&root)));
            Some(root)
        }
    }

    /// Whether a pod of a group is bound or assumed.
    pub(crate) fn has_scheduled_pods(&self, group: &str) -> bool {
        self.nodes_of_group(group).next().is_some()
    }

    /// The facts that the bound and the assumed pods of a tree share.
    pub(crate) fn common_of_scheduled(&self, tree: &GroupTree) -> Vec<Arc<CommonFields>> {
        let groups = &self.hints.groups;
        let mut common = Vec::new();
        for leaf in tree.leaves() {
            let assumed = groups
                .waiting(leaf)
                .filter(|pod| self.lifecycles.assumed_node(pod).is_some())
                .filter_map(|pod| Some(Arc::new(CommonFields::of(self.hints.pods.get(pod)?))));
            common.extend(groups.common_of_bound(leaf));
            common.extend(assumed);
        }
        common
    }

    /// The pods of groups that have a node, as victims.
    pub(crate) fn grouped_pods(&self) -> GroupedPods {
        self.hints
            .groups
            .grouped_pods(|pod| self.lifecycles.assumed_node(pod).is_some())
    }
}

impl VictimGroups for SchedulingQueue {
    fn group(&self, namespace: &str, name: &str) -> Option<VictimGroup> {
        self.hints.groups.of_victims(namespace, name)
    }

    fn pods(&self, atomic: &Arc<str>) -> Vec<Arc<str>> {
        let leaves = self.hints.groups.leaves(atomic);
        let pods = leaves.iter().flat_map(|leaf| self.nodes_of_group(leaf));
        pods.map(|(pod, _)| Arc::clone(pod)).collect()
    }
}
