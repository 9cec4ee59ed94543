//! The possible changes of nodes.

use super::change::{Change, NodeNames};
use super::search::{Proposal, Search};
use crate::session::{JobDiagnosis, NearMiss};
use evictd_placement::Pod;
use evictd_pod::resources::{self, units};
use evictd_pod::{Quantity, wire};
use evictd_scheduling::{Framework, Verdict, suggestions};
use evictd_what_if::{Limits, Options, Propose, Scaled, Suggestion, alternatives};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most changes of nodes in one proposal.
const COMBINED: usize = 6;
/// The most nodes that are added.
const ADDED: usize = 512;
/// A node that would have to be so many times larger is of no use.
const LARGER: i64 = 2;
/// How many nodes are tried for each proposal.
const TRIED: usize = 3;
/// How many nodes are analyzed.
const ASKED: usize = 8;
/// The most pods of earlier jobs for which room is sought.
const AHEAD: i64 = 256;

/// The shortfall of a node for so many pods.
fn for_pods(near: &NearMiss, request: &BTreeMap<String, Quantity>, pods: i64) -> Vec<Change> {
    let lacks = request.iter().filter_map(|(resource, one)| {
        let free = near.free.get(resource).copied().unwrap_or(Quantity::ZERO);
        let shortfall = times(resource, *one, free, pods)?;
        let resource = resource.clone();
        Some(Change::of(
            &near.node,
            Suggestion::AddCapacity {
                resource,
                amount: shortfall,
            },
        ))
    });
    lacks.collect()
}

/// How many pods of earlier jobs are pending.
fn waiting_ahead(diagnosis: &JobDiagnosis) -> i64 {
    let ahead = diagnosis.ahead.iter().map(|ahead| i64::from(ahead.waiting));
    ahead.fold(0, i64::saturating_add)
}

/// The excess of a multiple of an amount over the free amount.
fn times(resource: &str, one: Quantity, free: Quantity, count: i64) -> Option<Quantity> {
    let wanted = units(resource, one).saturating_mul(count);
    let shortfall = wanted.saturating_sub(units(resource, free));
    (shortfall > 0).then(|| resources::quantity(resource, shortfall))
}

impl Search<'_, '_> {
    /// The shortfall on one node, larger than the job's own request if other jobs come first.
    pub(super) fn more_on_a_node(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let places = &diagnosis.feasibility;
        let lacking = places.waiting - places.now - places.later;
        let most =
            i64::try_from(lacking).unwrap_or(AHEAD) + 2 * waiting_ahead(diagnosis).min(AHEAD);
        for near in places.nearest.iter().take(TRIED) {
            let more = |pods: i64| for_pods(near, &places.request, pods);
            if let Some(proposal) = self.smallest(vec![Scaled::new(most, more)]) {
                return Some(proposal).filter(|proposal| self.is_of_use(proposal));
            }
        }
        None
    }

    /// Whether no node has to become much larger than it is.
    fn is_of_use(&self, proposal: &Proposal) -> bool {
        proposal.changes.iter().all(|change| {
            let Change::Node {
                node,
                suggestion: Suggestion::AddCapacity { resource, amount },
                ..
            } = change
            else {
                return true;
            };
            let now = self
                .what_if
                .nodes
                .get(node)
                .and_then(|node| node.status.allocatable.get(resource));
            now.is_some_and(|now| units(resource, *amount) / LARGER <= units(resource, *now))
        })
    }

    /// The fewest nodes more that are like one that is there.
    pub(super) fn more_nodes(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let waiting = diagnosis
            .feasibility
            .waiting
            .max(self.subject.pending.pods.len());
        let ahead = usize::try_from(waiting_ahead(diagnosis)).unwrap_or(ADDED);
        let count = waiting.saturating_add(ahead).clamp(1, ADDED);
        let near = diagnosis
            .feasibility
            .nearest
            .iter()
            .map(|near| near.node.clone());
        let mut kinds: Vec<String> = near.collect();
        kinds.extend(self.largest());
        for like in kinds.into_iter().take(TRIED) {
            let proposal = self.proposal(vec![Change::MoreNodes { like, count }]);
            if proposal.is_some() {
                return proposal;
            }
        }
        None
    }

    /// The node with the most cpu.
    fn largest(&self) -> Option<String> {
        let nodes = self.what_if.nodes.iter();
        let cpu = |node: &evictd_pod::Node| {
            let cpu = node.status.allocatable.get(evictd_pod::resources::CPU);
            cpu.map_or(0, evictd_pod::Quantity::milli_value)
        };
        let largest = nodes.max_by_key(|(_, node)| cpu(node));
        largest.map(|(name, _)| name.clone())
    }

    /// Nodes are uncordoned, labelled or tolerated one after the other until the job starts. Its queue's capability is
    /// raised if it is too small then.
    pub(super) fn reconfigured(&mut self) -> Option<Proposal> {
        let limits = Limits {
            changes: COMBINED,
            sets: 1,
        };
        let changes = alternatives(self, limits).pop()?;
        self.proposal(changes)
    }

    /// The fewest changes of one node that let the first unplaced pod fit, after these changes.
    fn suggestion(&mut self, changes: &[Change]) -> Option<Vec<Change>> {
        let mark = self.what_if.mark();
        for change in self.first.iter().chain(changes) {
            change.apply(self.what_if, self.subject, NodeNames::Last);
        }
        let (_, diagnosis) = self.what_if.diagnosis(&self.subject.group);
        let found = diagnosis.and_then(|diagnosis| self.remedy_for(&diagnosis));
        self.what_if.undo(mark);
        found
    }

    fn remedy_for(&mut self, diagnosis: &JobDiagnosis) -> Option<Vec<Change>> {
        // Every pod has found a node, so that the queue is the limit.
        let Some(first) = &diagnosis.feasibility.first else {
            let lifted = self.lifted(diagnosis);
            // Once it is lifted, it is no longer the limit.
            let higher = |change: &Change| matches!(change, Change::Capability { from, to, .. } if to > from);
            let helps = !diagnosis.blocking_reasons.is_empty() && lifted.iter().any(higher);
            return helps.then_some(lifted);
        };
        let first = self.what_if.pods.get(first)?;
        let waiting = wire::Pod::clone(first);
        for (pod, node) in &diagnosis.feasibility.placed {
            self.what_if.change(pod, |pod: &mut wire::Pod| {
                pod.spec.node_name.clone_from(node);
            });
        }
        let cluster = &mut self.what_if.cluster;
        let framework = Framework::of_default(cluster);
        let pod: Pod = cluster.pod(waiting.clone()).ok()?;
        let mut filtered = framework.filter(cluster, &pod);
        cluster.release(pod);
        // Room is another matter: it is freed, or added.
        for verdict in &mut filtered.verdicts {
            if let Verdict::Rejected(index, _) = verdict
                && framework.filters[*index].name() == "NodeResourcesFit"
            {
                *verdict = Verdict::NotTried;
            }
        }
        let found = suggestions(cluster, &framework, &waiting, &filtered, ASKED);
        let ways = found.into_iter().flat_map(|way| {
            let node: Arc<str> = way.node.into();
            let ways = way.alternatives.into_iter();
            ways.map(move |way| (Arc::clone(&node), way))
        });
        let room = |suggestion: &Suggestion| {
            matches!(
                suggestion,
                Suggestion::AddCapacity { .. } | Suggestion::RemovePods(_)
            )
        };
        let ways = ways.filter(|(_, way)| !way.iter().any(room));
        // A cluster's administrator can change a node, but not a job.
        let of_pods = |suggestion: &Suggestion| {
            matches!(
                suggestion,
                Suggestion::AddToleration(_)
                    | Suggestion::RemoveNodeSelector(_)
                    | Suggestion::RemoveNodeAffinity
            )
        };
        let (node, way) =
            ways.min_by_key(|(_, way)| way.iter().filter(|change| of_pods(change)).count())?;
        Some(
            way.into_iter()
                .map(|change| Change::of(&node, change))
                .collect(),
        )
    }
}

impl Propose for Search<'_, '_> {
    fn proposals(&mut self, changes: &[Change], (): &()) -> Vec<Options<Change>> {
        vec![self.suggestion(changes).into_iter().collect()]
    }

    /// Sessions do not say how near a job is to its start, so each change counts.
    fn is_progress((): &(), (): &()) -> bool {
        true
    }
}
