//! The possible victims on one node. Each is a pod, or all pods of an atomic group, which may be on many nodes.

use crate::groups::{KnownGroups, Victim};
use evictd_placement::{NodeId, Pod, Trial};
use hashbrown::HashSet;
use std::cmp::Reverse;
use std::ops::Range;

/// Possible victims, the most important first. Most nodes have no groups, and a search over all nodes must not pay for them.
pub(crate) trait Units {
    /// How many there are.
    fn len(&self) -> usize;

    /// The pods of one.
    fn pods<'c>(&self, trial: &Trial<'_, 'c>, unit: usize) -> impl Iterator<Item = &'c Pod>;

    /// The same pods as victims.
    fn victims(&self, node: NodeId, unit: usize) -> impl Iterator<Item = Victim>;

    /// Takes one off its nodes.
    fn remove(&self, trial: &mut Trial<'_, '_>, unit: usize);

    /// Takes several off their nodes.
    fn remove_all(&self, trial: &mut Trial<'_, '_>, units: impl Iterator<Item = usize>) {
        units.for_each(|unit| self.remove(trial, unit));
    }

    /// Puts one back.
    fn put_back(&self, trial: &mut Trial<'_, '_>, unit: usize);
}

/// The possible victims of a node.
pub(crate) enum Collected {
    /// None is in a group.
    Pods(Pods),
    /// Some may be.
    Groups(Groups),
}

/// These pods of the node, by index. Each is a unit of its own.
pub(crate) struct Pods(Range<usize>);

/// Pods and groups of pods.
pub(crate) struct Groups(Vec<Vec<Victim>>);

/// The sort key of importance (S7-065): priority, the pods of a group or 0 for a pod without one, start, index on the node.
type Importance = (Reverse<i32>, Reverse<usize>, i64, usize);

/// Collects the pods below a priority on the node of a trial. A pod that is removed already, and the group that it is in, are no
/// victims: it is the preemptor itself.
pub(crate) fn collect(
    trial: &Trial<'_, '_>,
    priority: i32,
    groups: &mut KnownGroups<'_>,
) -> Collected {
    if groups.has_any(trial.pods()) {
        return Collected::Groups(Groups(with_groups(trial, priority, groups)));
    }
    // The pods of a node are sorted by importance.
    Collected::Pods(Pods(trial.first_below(priority)..trial.pods().len()))
}

impl Units for Pods {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn pods<'c>(&self, trial: &Trial<'_, 'c>, unit: usize) -> impl Iterator<Item = &'c Pod> {
        std::iter::once(&trial.pods()[self.0.start + unit])
    }

    fn victims(&self, node: NodeId, unit: usize) -> impl Iterator<Item = Victim> {
        std::iter::once(Victim::new(node, self.0.start + unit))
    }

    fn remove(&self, trial: &mut Trial<'_, '_>, unit: usize) {
        trial.remove(self.0.start + unit);
    }

    fn remove_all(&self, trial: &mut Trial<'_, '_>, units: impl Iterator<Item = usize>) {
        trial.remove_all(units.map(|unit| self.0.start + unit));
    }

    fn put_back(&self, trial: &mut Trial<'_, '_>, unit: usize) {
        trial.put_back(self.0.start + unit);
    }
}

impl Units for Groups {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn pods<'c>(&self, trial: &Trial<'_, 'c>, unit: usize) -> impl Iterator<Item = &'c Pod> {
        let cluster = trial.cluster();
        self.0[unit].iter().map(move |victim| victim.pod(cluster))
    }

    fn victims(&self, _: NodeId, unit: usize) -> impl Iterator<Item = Victim> {
        self.0[unit].iter().copied()
    }

    fn remove(&self, trial: &mut Trial<'_, '_>, unit: usize) {
        let (node, pods) = (trial.node(), &self.0[unit]);
        for victim in pods.iter().filter(|victim| victim.node == node) {
            trial.remove(victim.index());
        }
        trial.remove_elsewhere(elsewhere(pods, node));
    }

    fn put_back(&self, trial: &mut Trial<'_, '_>, unit: usize) {
        let (node, pods) = (trial.node(), &self.0[unit]);
        for victim in pods.iter().filter(|victim| victim.node == node) {
            trial.put_back(victim.index());
        }
        trial.put_back_elsewhere(elsewhere(pods, node));
    }
}

/// The pods and groups of a node with groups.
fn with_groups(
    trial: &Trial<'_, '_>,
    priority: i32,
    groups: &mut KnownGroups<'_>,
) -> Vec<Vec<Victim>> {
    let node = trial.node();
    let mut found: Vec<(Importance, Option<usize>)> = Vec::new();
    let mut known: HashSet<usize> = HashSet::new();
    let removed = (0..trial.pods().len()).filter(|index| trial.is_removed(*index));
    known.extend(removed.filter_map(|index| groups.of(&trial.pods()[index])?.atomic));
    for (index, pod) in trial.pods().iter().enumerate() {
        let group = groups.of(pod);
        let of_victim = group.map_or(pod.priority, |group| group.priority);
        let atomic = groups.atomic(Victim::new(node, index));
        let is_known = atomic.is_some_and(|atomic| !known.insert(atomic));
        if of_victim >= priority || is_known || trial.is_removed(index) {
            continue;
        }
        let (size, start) = match atomic.map(|atomic| &groups.atomic[atomic]) {
            Some(atomic) => (atomic.pods.len(), atomic.start),
            // A single pod of a group counts as a group of one.
            None => (usize::from(group.is_some()), pod.start),
        };
        found.push(((Reverse(of_victim), Reverse(size), start, index), atomic));
    }
    found.sort_unstable();
    let units = found.into_iter().map(|((.., index), atomic)| match atomic {
        Some(atomic) => groups.atomic[atomic].pods.clone(),
        None => vec![Victim::new(node, index)],
    });
    units.collect()
}

/// The pods on other nodes.
fn elsewhere(pods: &[Victim], node: NodeId) -> impl Iterator<Item = (NodeId, usize)> {
    let others = pods.iter().filter(move |victim| victim.node != node);
    others.map(|victim| (victim.node, victim.index()))
}
