//! Forecasts the cluster without further changes: sessions run one after the other, and their decisions are applied.

use super::subject::Subject;
use super::what_if::WhatIf;
use crate::session::Outcome;
use evictd_batch_objects::{PodGroup, PodGroupStatus};
use evictd_pod::wire::{Pod, PodPhase};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most sessions that are played: one lets the job in, one frees room, one places it, and one to spare.
const SESSIONS: usize = 4;

impl WhatIf<'_> {
    /// How many sessions it takes until the job starts without further changes; `None` if it does not start.
    pub(super) fn starts(&mut self, subject: &Subject) -> Option<usize> {
        let mark = self.mark();
        self.make(subject);
        let mut found = None;
        for count in 1..=SESSIONS {
            let outcome = self.session();
            let group = self.groups.get(&subject.group);
            let min_member = group.map_or(subject.min_member, |group| group.spec.min_member);
            if subject.is_started(&outcome, min_member) {
                found = Some(count);
                break;
            }
            // Between two sessions terminating pods end and the controllers act.
            let gone = self.let_go();
            // Nothing has changed, so every further session would do the same.
            if !self.carry_out(&outcome) && !self.make(subject) && !gone {
                break;
            }
        }
        self.undo(mark);
        found
    }

    /// Adds the pods that the controllers create for an enqueued job. Returns whether there were any.
    fn make(&mut self, subject: &Subject) -> bool {
        if let Some(group) = &subject.pending.group
            && !self.groups.contains_key(&subject.group)
        {
            self.set(&subject.group, Some(Arc::clone(group)));
        }
        let group = self.groups.get(&subject.group);
        let let_in = group.is_some_and(|group| !group.status.phase.is_pending());
        let missing = subject.pending.pods.iter().filter(|_| let_in);
        let missing: Vec<_> = missing
            .filter(|(key, _)| !self.pods.contains_key(*key))
            .map(|(key, pod)| (key.clone(), Arc::clone(pod)))
            .collect();
        for (key, pod) in &missing {
            self.set(key, Some(Arc::clone(pod)));
        }
        !missing.is_empty()
    }

    /// Removes the pods that are being deleted.
    fn let_go(&mut self) -> bool {
        let going = self.pods.iter();
        let going = going.filter(|(_, pod)| pod.metadata.deletion_timestamp.is_some());
        let going: Vec<String> = going.map(|(key, _)| key.clone()).collect();
        for key in &going {
            self.set::<Pod>(key, None);
        }
        !going.is_empty()
    }

    /// Applies the decisions of a session. Returns whether there was any.
    fn carry_out(&mut self, outcome: &Outcome) -> bool {
        for (pod, node) in &outcome.binds {
            self.change(pod, |pod: &mut Pod| {
                pod.spec.node_name.clone_from(node);
                pod.status.phase = PodPhase::Running;
                // The nomination is fulfilled.
                pod.status.nominated_node_name.clear();
            });
        }
        for eviction in &outcome.evicted {
            // Its controller creates it again.
            self.change(&eviction.pod, |pod: &mut Pod| {
                pod.spec.node_name.clear();
                pod.status.phase = PodPhase::Pending;
                pod.status.nominated_node_name.clear();
                pod.metadata.uid = format!("{}-anew", pod.metadata.uid).into();
            });
        }
        // Without the nomination, the victims would take the room that they have made.
        let nominated = outcome.pod_conditions.iter();
        let nominated = nominated
            .filter_map(|(key, condition)| Some((key, condition.nominated_node_name.as_ref()?)));
        let mut changed = !outcome.binds.is_empty() || !outcome.evicted.is_empty();
        for (pod, node) in nominated {
            self.change(pod, |pod: &mut Pod| {
                changed |= pod.status.nominated_node_name != *node;
                pod.status.nominated_node_name.clone_from(node);
            });
        }
        for (key, pod_group) in outcome
            .pod_groups
            .iter()
            .filter(|(_, pod_group)| pod_group.written)
        {
            self.change(key, |group: &mut PodGroup| {
                changed |= !says_the_same(&group.status, &pod_group.status);
                group.status = pod_group.status.clone();
            });
        }
        changed
    }
}

/// Whether sessions treat both alike: a job that failed before is promised no room.
fn says_the_same(one: &PodGroupStatus, other: &PodGroupStatus) -> bool {
    let conditions = |status: &PodGroupStatus| -> BTreeSet<(String, String)> {
        let conditions = status.conditions.iter();
        conditions
            .map(|condition| (condition.kind.to_string(), condition.status.to_string()))
            .collect()
    };
    one.phase == other.phase && conditions(one) == conditions(other)
}
