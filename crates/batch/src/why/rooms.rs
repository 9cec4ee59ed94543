//! What could be changed of nodes.

use super::change::Change;
use super::search::{Proposal, Search};
use crate::session::{Closeup, NearNode};
use evictd_placement::Pod;
use evictd_pod::wire;
use evictd_scheduling::{Framework, Remedy, remedies};
use std::sync::Arc;

/// The most changes of nodes that are told together.
const COMBINED: usize = 6;
/// The most nodes that are added.
const ADDED: usize = 64;
/// How many nodes are tried for each that is told.
const TRIED: usize = 3;

impl Search<'_, '_> {
    /// So much more of what is lacking on one node.
    pub(super) fn more_on_a_node(&mut self, closeup: &Closeup) -> Option<Proposal> {
        let more = |near: &NearNode| -> Vec<Change> {
            let more = near.all.iter().map(|scarce| {
                let (resource, amount) = (scarce.resource.clone(), scarce.amount);
                Change::of(&near.node, Remedy::More { resource, amount })
            });
            more.collect()
        };
        let nearest = closeup.places.nearest.iter().take(TRIED);
        let found = nearest.map(more).find(|changes| self.proves(changes))?;
        self.proposal(found)
    }

    /// The fewest nodes more that are like one that is there.
    pub(super) fn more_nodes(&mut self, closeup: &Closeup) -> Option<Proposal> {
        let waiting = closeup.places.waiting.max(self.subject.made.pods.len());
        let most = waiting.clamp(1, ADDED);
        let near = closeup.places.nearest.iter().map(|near| near.node.clone());
        let mut kinds: Vec<String> = near.collect();
        kinds.extend(self.largest());
        for like in kinds.into_iter().take(TRIED) {
            let change = |count: i64| {
                vec![Change::MoreNodes {
                    like: like.clone(),
                    count: usize::try_from(count).unwrap_or(0),
                }]
            };
            let most = i64::try_from(most).unwrap_or(1);
            if self.proves(&change(most)) {
                let least = self.least((0, most), change);
                return self.proposal(change(least));
            }
        }
        None
    }

    /// The node with the most cpu.
    fn largest(&self) -> Option<String> {
        let nodes = self.world.nodes.iter();
        let cpu = |node: &evictd_pod::Node| {
            let cpu = node.status.allocatable.get(evictd_pod::resources::CPU);
            cpu.map_or(0, evictd_pod::Quantity::milli_value)
        };
        let largest = nodes.max_by_key(|(_, node)| cpu(node));
        largest.map(|(name, _)| name.clone())
    }

    /// Nodes uncordoned, labelled or tolerated, one after the other until the job starts.
    pub(super) fn reconfigured(&mut self) -> Option<Proposal> {
        let mut changes: Vec<Change> = Vec::new();
        while !self.proves(&changes) {
            if changes.len() == COMBINED {
                return None;
            }
            changes.extend(self.remedy(&changes)?);
        }
        let changes = self.needed(changes, <[Change]>::to_vec);
        self.proposal(changes)
    }

    /// The fewest changes of one node that let in the first pod that fits nowhere, after these changes.
    fn remedy(&mut self, changes: &[Change]) -> Option<Vec<Change>> {
        let mark = self.world.mark();
        for change in self.first.iter().chain(changes) {
            change.apply(self.world, self.subject);
        }
        let (_, closeup) = self.world.closeup(&self.subject.group);
        let found = closeup.and_then(|closeup| self.remedy_for(&closeup));
        self.world.undo(mark);
        found
    }

    fn remedy_for(&mut self, closeup: &Closeup) -> Option<Vec<Change>> {
        let first = self.world.pods.get(closeup.places.first.as_ref()?)?;
        let waiting = wire::Pod::clone(first);
        for (pod, node) in &closeup.places.placed {
            self.world
                .change_pod(pod, |pod| pod.spec.node_name.clone_from(node));
        }
        let cluster = &mut self.world.cluster;
        let framework = Framework::of_default(cluster);
        let pod: Pod = cluster.pod(waiting.clone()).ok()?;
        let filtered = framework.filter(cluster, &pod);
        cluster.release(pod);
        let found = remedies(cluster, &framework, &waiting, &filtered, TRIED);
        let mut ways = found.into_iter().flat_map(|own| {
            let node: Arc<str> = own.node.into();
            let ways = own.alternatives.into_iter();
            ways.map(move |way| (Arc::clone(&node), way))
        });
        // Room is another matter: it is freed, or added.
        let room = |remedy: &Remedy| matches!(remedy, Remedy::More { .. } | Remedy::Away(_));
        let (node, way) = ways.find(|(_, way)| !way.iter().any(room))?;
        Some(way.into_iter().map(|own| Change::of(&node, own)).collect())
    }
}
