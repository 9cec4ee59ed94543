//! Gangs in the queue: their pods are gated until there are enough, and are popped together.

use super::{Failure, Nomination, SchedulingQueue};
use crate::change::Delta;
use crate::events::ClusterEvent;
use crate::gang::{CommonFields, GroupedPods, Quorum, group_of};
use crate::not_tried::NotTried;
use crate::plugins::PluginSet;
use crate::queue::{Moved, Pool, Popped, Scope};
use evictd_pod::wire;
use evictd_preemption::{VictimGroup, VictimGroups};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::sync::Arc;

/// The pods of a gang that are tried now. They are in flight.
#[derive(Debug)]
pub(crate) struct Gang {
    /// `namespace/name` of its group.
    pub(crate) name: Arc<str>,
    pub(crate) object: Arc<wire::PodGroup>,
    pub(crate) quorum: Quorum,
    /// The pods in flight, in the order in which they are tried.
    pub(crate) members: Vec<Popped>,
    /// Whether it must not be tried: its object was deleted, it has too few pods, or its victims are still being deleted.
    pub(crate) must_wait: bool,
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
        self.retry_group(now, &name)
    }

    /// Tries the unschedulable and gated pods of a group again.
    pub(crate) fn retry_group(&mut self, now: Timestamp, group: &str) -> Vec<Moved> {
        let waits = |pod: &Arc<str>| {
            let pool = self.lifecycles.queue().pool(pod);
            matches!(pool, Some(Pool::Gated | Pool::Unschedulable))
        };
        let pods: Vec<Arc<str>> = self
            .hints
            .groups
            .waiting(group)
            .filter(|pod| waits(pod))
            .cloned()
            .collect();
        self.activate(now, pods.iter().map(|pod| &**pod))
    }

    /// The group of a popped pod, with all its waiting pods, which are popped from any pool. `None` if it is in no group.
    pub(crate) fn take_gang(&mut self, popped: &Popped) -> Option<Gang> {
        let name = group_of(self.hints.pods.get(&popped.pod)?)?;
        let groups = &self.hints.groups;
        let others: Vec<Arc<str>> = groups
            .waiting(&name)
            .filter(|pod| **pod != popped.pod)
            .cloned()
            .collect();
        let mut members = vec![popped.clone()];
        members.extend(others.iter().filter_map(|pod| self.lifecycles.take(pod)));
        Some(self.gang(name, members))
    }

    /// The gang of these pods in flight, with the present state of its group.
    pub(crate) fn gang(&self, name: Arc<str>, mut members: Vec<Popped>) -> Gang {
        let groups = &self.hints.groups;
        let object = groups.object(&name).map(Arc::clone);
        let quorum = Quorum {
            min_count: groups.min_count(&name).unwrap_or(1),
            scheduled: self.nodes_of_group(&name).count(),
        };
        let preempts = groups
            .waiting(&name)
            .any(|pod| self.lifecycles.awaits_victims(pod));
        let is_there = |member: &&Popped| self.hints.pods.contains_key(&member.pod);
        let there = members.iter().filter(is_there).count();
        let too_few = !quorum.is_possible(0, there);
        // The order decides which pods fit, so it must not depend on which pod was popped.
        members.sort_by_cached_key(|member| self.turn(&member.pod));
        Gang {
            must_wait: preempts || too_few || object.is_none(),
            name,
            object: object.unwrap_or_default(),
            quorum,
            members,
        }
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

    /// Why a gated pod is not tried.
    pub(crate) fn gate(&self, pod: &wire::Pod) -> String {
        let by_itself = NotTried::of(pod).map(|reason| reason.to_string());
        let of_group = || self.hints.groups.waits_for(&group_of(pod)?);
        by_itself
            .or_else(|| self.hints.missing_claim(pod))
            .or_else(of_group)
            .unwrap_or_default()
    }

    /// The object of a group.
    pub(crate) fn group(&self, name: &str) -> Option<&Arc<wire::PodGroup>> {
        self.hints.groups.object(name)
    }

    /// Whether enough pods of a group are bound or assumed.
    pub(crate) fn is_whole(&self, group: &str) -> bool {
        let least = self.hints.groups.min_count(group);
        least.is_none_or(|least| self.nodes_of_group(group).count() >= least)
    }

    /// The order in which the pods of a gang are tried: by priority, then by name.
    fn turn(&self, pod: &Arc<str>) -> (Reverse<i32>, String) {
        let wire = self.hints.pods.get(pod);
        let priority = wire.and_then(|pod| pod.spec.priority).unwrap_or(0);
        let name = wire.map_or(String::new(), |pod| pod.metadata.name.clone());
        (Reverse(priority), name)
    }

    /// The keys of the bound and of the assumed pods of a group, with their nodes.
    pub(crate) fn nodes_of_group(&self, group: &str) -> impl Iterator<Item = (&str, &str)> {
        let groups = &self.hints.groups;
        let assumed = groups
            .waiting(group)
            .filter_map(|pod| Some((&**pod, &**self.lifecycles.assumed_node(pod)?)));
        groups.pods_with_nodes(group).chain(assumed)
    }

    /// What the bound and the assumed pods of a group have in common.
    pub(crate) fn common_of_scheduled(&self, group: &str) -> Vec<Arc<CommonFields>> {
        let groups = &self.hints.groups;
        let assumed = groups
            .waiting(group)
            .filter(|pod| self.lifecycles.assumed_node(pod).is_some())
            .filter_map(|pod| Some(Arc::new(CommonFields::of(self.hints.pods.get(pod)?))));
        let mut common = groups.common_of_bound(group);
        common.extend(assumed);
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

    fn pods(&self, atomic: &str) -> Vec<Arc<str>> {
        let pods = self.nodes_of_group(atomic);
        pods.map(|(pod, _)| Arc::from(pod)).collect()
    }
}
