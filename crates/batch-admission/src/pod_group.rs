//! Pod groups: their queue, and how near their pods have to be to each other (S6-060, S6-074).

use super::job::topology::has_both_tiers;
use super::patch::PatchOperation;
use super::{Known, job};
use evictd_batch_objects::{NetworkTopology, PodGroup, QueueState};
use serde::Deserialize;

/// The queue of groups that name none, which a namespace can replace.
const QUEUE: &str = "default";

/// A group in the default queue moves to the queue that its namespace names.
pub(super) fn patch(group: &PodGroup, namespace: &str, known: &Known) -> Vec<PatchOperation> {
    let named = known.queue_of_namespace(namespace);
    let named = named.filter(|_| group.spec.queue == QUEUE);
    let patch = named.map(|queue| PatchOperation::add("/spec/queue", queue));
    patch.into_iter().collect()
}

/// Everything that is wrong with a new group; nothing if it is right.
pub(super) fn check(group: &PodGroup, known: &Known) -> String {
    let mut wrong: Vec<String> = queue(&group.spec.queue, known).into_iter().collect();
    let of_network = network(group);
    if !of_network.is_empty() {
        wrong.push(of_network);
    }
    wrong.join("; ")
}

fn queue(name: &str, known: &Known) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    match known.queue(name) {
        Err(not_found) => Some(format!("unable to find queue: {not_found}")),
        Ok(queue) if queue.status.state != QueueState::Open => Some(format!(
            "can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{}`.",
            queue.status.state
        )),
        Ok(_) => None,
    }
}

/// The group's own, and that of the first part of it where that is wrong.
fn network(group: &PodGroup) -> String {
    let spec = &group.spec;
    let spec_error = spec
        .network_topology
        .as_ref()
        .filter(|topology| has_both_tiers(topology));
    let mut parts = spec.sub_group_policy.iter();
    let part = parts.find(|part| {
        let topology = NetworkTopology::deserialize(&part["networkTopology"]);
        topology.is_ok_and(|topology| has_both_tiers(&topology))
    });
    let both = job::topology::BOTH_TIERS;
    let both_error = spec_error.map(|_| format!("{both}."));
    let part = part.map(|part| {
        format!(
            "in subGroupPolicy '{}': {both}.",
            part["name"].as_str().unwrap_or_default()
        )
    });
    let all: Vec<_> = both_error.into_iter().chain(part).collect();
    all.join(" ")
}
