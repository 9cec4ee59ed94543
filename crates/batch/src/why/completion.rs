//! Completions that would start the job: jobs and pods whose end is expected.

use super::change::Change;
use super::queue_changes::before_all;
use super::search::{Proposal, Search};
use super::subject::{group_of_pod, is_in};
use crate::session::JobDiagnosis;
use evictd_pod::wire::{Pod, full_name};
use evictd_what_if::Trial;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most jobs that are looked at together, and alone.
const TOGETHER: usize = 256;
const ALONE: usize = 48;
/// The most jobs that are listed.
const LISTED: usize = 3;
/// The most jobs in one proposal.
const MOST: usize = 12;

/// Pods that end together.
#[derive(Debug, Clone)]
struct Unit {
    /// The job, or the owner of pods that belong to none.
    name: String,
    /// Its pod group.
    group: String,
    /// Its pods that hold room.
    pods: Vec<String>,
    /// Whether it is in the queue of the job.
    same_queue: bool,
}

impl Unit {
    fn end(&self) -> Change {
        Change::JobsEnd {
            jobs: vec![self.name.clone()],
            groups: vec![self.group.clone()],
            pods: self.pods.clone(),
        }
    }
}

/// The jobs that suffice alone, fewest pods first; otherwise the fewest jobs together. Then the fewest pods of the
/// first, if not all are needed.
pub(super) fn ends(search: &mut Search<'_, '_>) -> Vec<Proposal> {
    let mut units = units(search);
    units.sort_by_key(|unit| {
        (
            !unit.same_queue,
            Reverse(unit.pods.len()),
            unit.name.clone(),
        )
    });
    units.truncate(TOGETHER);
    let all: Vec<Change> = units.iter().map(Unit::end).collect();
    // If all ends together do not suffice, no part of them does.
    if all.is_empty() || !search.suffices(&all) {
        return Vec::new();
    }
    let mut proposals = alone(search, units);
    if proposals.is_empty() {
        // A longer list is no help to a reader.
        let needed = search.necessary(all).filter(|needed| needed.len() <= MOST);
        proposals.extend(needed.and_then(|needed| search.proposal(needed)));
    }
    let first = proposals.first().map(|proposal| pods_of(&proposal.changes));
    proposals.extend(first.and_then(|pods| pods_end(search, &pods)));
    proposals
}

/// Fewer completed pods, if the job comes before all others of its queue; `fewest` suffice without that.
pub(super) fn ends_before_all(
    search: &mut Search<'_, '_>,
    diagnosis: &JobDiagnosis,
    fewest: Option<usize>,
) -> Option<Proposal> {
    let priority = before_all(diagnosis)?;
    if search.suffices(std::slice::from_ref(&priority)) {
        return None;
    }
    search.first.push(priority);
    let found = ends(search);
    // The priority is part of each proposal, but not of later searches.
    search.first.pop();
    let best = found
        .into_iter()
        .min_by_key(|proposal| ending(&proposal.changes))?;
    let fewer = fewest.is_none_or(|fewest| ending(&best.changes) < fewest);
    fewer.then_some(best)
}

fn alone(search: &mut Search<'_, '_>, mut units: Vec<Unit>) -> Vec<Proposal> {
    units.sort_by_key(|unit| (unit.pods.len(), !unit.same_queue, unit.name.clone()));
    let mut found = Vec::new();
    for end in units.iter().take(ALONE).map(Unit::end) {
        if found.len() < LISTED && search.suffices(std::slice::from_ref(&end)) {
            found.extend(search.proposal(vec![end]));
        }
    }
    found
}

/// The fewest pods whose end suffices, if not all are needed.
fn pods_end(search: &mut Search<'_, '_>, pods: &[String]) -> Option<Proposal> {
    let ends = pods.iter().map(|pod| Change::PodsEnd {
        pods: vec![pod.clone()],
    });
    let needed = search.necessary(ends.collect())?;
    if needed.len() == pods.len() {
        return None;
    }
    search.proposal(needed)
}

/// All pods that hold room and may end, by their group or owner.
fn units(search: &Search<'_, '_>) -> Vec<Unit> {
    let what_if = &*search.what_if;
    let queue = |group: &str| {
        let group = what_if.groups.get(group);
        group.map(|group| group.spec.queue.clone())
    };
    let own_queue = queue(&search.subject.group);
    let mut units: BTreeMap<String, Unit> = BTreeMap::new();
    for (key, pod) in &what_if.pods {
        if !holds_room(pod) || is_in(what_if, pod, &search.subject.group) {
            continue;
        }
        let Some(group) = unit_of(key, pod) else {
            continue;
        };
        let unit = units.entry(group.clone()).or_insert_with(|| Unit {
            same_queue: own_queue.is_some() && queue(&group) == own_queue,
            name: what_if.job_of(&group),
            group,
            pods: Vec::new(),
        });
        unit.pods.push(key.clone());
    }
    units.into_values().collect()
}

/// How many pods end.
pub(super) fn ending(changes: &[Change]) -> usize {
    pods_of(changes).len()
}

/// The pods that end.
fn pods_of(changes: &[Change]) -> Vec<String> {
    let pods = changes.iter().map(|change| match change {
        Change::JobsEnd { pods, .. } | Change::PodsEnd { pods } => pods.as_slice(),
        _ => &[],
    });
    pods.flatten().cloned().collect()
}

fn holds_room(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty() && !pod.status.phase.has_ended()
}

/// The owner whose end would be the pod's. Pods of a node or of the cluster itself never end.
fn unit_of(key: &str, pod: &Pod) -> Option<String> {
    let metadata = &pod.metadata;
    let namespace = metadata.namespace_or_default();
    if let Some(group) = group_of_pod(pod) {
        return Some(group);
    }
    let mut owners = metadata.owner_references.iter();
    match owners.find(|owner| owner.controller) {
        // No administrator would end these for a job.
        _ if namespace == "kube-system" => None,
        Some(owner) if matches!(&*owner.kind, "DaemonSet" | "Node") => None,
        Some(owner) => Some(full_name(namespace, &owner.name)),
        None => Some(key.to_owned()),
    }
}
