//! The possible victims on one node. Each is a pod, or all pods of an atomic group, which may be on many nodes.

use crate::groups::{KnownGroups, Victim};
use evictd_placement::{NodeId, Trial};
use hashbrown::HashSet;
use std::cmp::Reverse;
use std::ops::Range;

/// Possible victims, the most important first.
#[derive(Default)]
pub(crate) struct Units {
    /// Ranges of `pods`.
    units: Vec<Range<usize>>,
    pods: Vec<Victim>,
}

/// The sort key of importance (S7-065): priority, the pods of a group or 0 for a pod without one, start, index on the node.
type Importance = (Reverse<i32>, Reverse<usize>, i64, usize);

impl Units {
    /// Collects the pods below a priority on the node of a trial. A pod that is removed already, and the group that it is in, are no
    /// victims: it is the preemptor itself.
    pub(crate) fn collect(
        &mut self,
        trial: &Trial<'_, '_>,
        priority: i32,
        groups: &mut KnownGroups<'_>,
    ) {
        self.units.clear();
        self.pods.clear();
        let (node, pods) = (trial.node(), trial.pods());
        if groups.has_any(pods) {
            return self.collect_groups(trial, priority, groups);
        }
        // The pods of a node are sorted by importance.
        for index in trial.first_below(priority)..pods.len() {
            self.push([Victim::new(node, index)]);
        }
    }

    fn collect_groups(
        &mut self,
        trial: &Trial<'_, '_>,
        priority: i32,
        groups: &mut KnownGroups<'_>,
    ) {
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
        for ((.., index), atomic) in found {
            match atomic {
                Some(atomic) => self.push(groups.atomic[atomic].pods.iter().copied()),
                None => self.push([Victim::new(node, index)]),
            }
        }
    }

    fn push(&mut self, pods: impl IntoIterator<Item = Victim>) {
        let start = self.pods.len();
        self.pods.extend(pods);
        self.units.push(start..self.pods.len());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// The pods of one.
    pub(crate) fn pods(&self, unit: usize) -> &[Victim] {
        &self.pods[self.units[unit].clone()]
    }

    /// Takes one off its nodes.
    pub(crate) fn remove(&self, trial: &mut Trial<'_, '_>, unit: usize) {
        let (node, pods) = (trial.node(), self.pods(unit));
        for victim in pods.iter().filter(|victim| victim.node == node) {
            trial.remove(victim.index());
        }
        if let Some(elsewhere) = elsewhere(pods, node) {
            trial.remove_elsewhere(elsewhere);
        }
    }

    /// Puts one back.
    pub(crate) fn put_back(&self, trial: &mut Trial<'_, '_>, unit: usize) {
        let (node, pods) = (trial.node(), self.pods(unit));
        for victim in pods.iter().filter(|victim| victim.node == node) {
            trial.put_back(victim.index());
        }
        if let Some(elsewhere) = elsewhere(pods, node) {
            trial.put_back_elsewhere(elsewhere);
        }
    }
}

/// The pods on other nodes. `None` for a single pod, which is on this one.
fn elsewhere(pods: &[Victim], node: NodeId) -> Option<impl Iterator<Item = (NodeId, usize)>> {
    let others = pods.iter().filter(move |victim| victim.node != node);
    (pods.len() > 1).then(|| others.map(|victim| (victim.node, victim.index())))
}
