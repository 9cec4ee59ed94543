//! `InterPodAffinity`: preferred affinity of the pod, and terms of existing pods about it (S5-089).

use crate::cluster::Cluster;
use crate::cost::Meter;
use crate::filter::{Here, for_each_selected, terms_selecting};
use crate::id::NodeId;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::topology::TopologyDomains;
use std::sync::Arc;

struct InterPodAffinity(Box<[Column]>);

/// The summed weights of each domain of one topology key.
struct Column {
    topology: Arc<TopologyDomains>,
    weights: Box<[i64]>,
}

/// `hard` is the weight of a required affinity term of an existing pod. With `ignore_others` a pod without preferred
/// terms is not scored.
pub(crate) fn new(
    cluster: &Cluster,
    pod: &Pod,
    hard: i64,
    ignore_others: bool,
) -> Option<Box<dyn Score>> {
    let template = cluster.template(pod);
    if ignore_others && template.preferred.is_empty() {
        return None;
    }
    let weights = weights(cluster, pod, hard);
    let mut keys: Vec<Symbol> = weights.iter().map(|weight| weight.key).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return None;
    }
    let columns = keys.iter().map(|key| {
        let topology = cluster.topology(*key);
        Column {
            weights: vec![0; topology.count].into(),
            topology,
        }
    });
    let mut columns: Box<[Column]> = columns.collect();
    let mut any = false;
    for of_group in weights.chunk_by(|one, next| one.group == next.group) {
        // Terms of one key count together, so that each node is visited once.
        let of_key = of_group.chunk_by(|one, next| one.key == next.key);
        let sums = of_key.filter_map(|of_key| {
            let column = keys.binary_search(&of_key.first()?.key).ok()?;
            let sum: i64 = of_key.iter().map(|weight| weight.sum).sum();
            Some((column, sum))
        });
        let sums: Vec<(usize, i64)> = sums.collect();
        let group = of_group.first().map_or(0, |weight| weight.group);
        for (id, counts) in cluster.nodes_of(group) {
            let pods = counts.running + counts.terminating;
            for (column, weight) in &sums {
                any |= columns[*column].add(id, *weight * pods);
            }
        }
    }
    any.then(|| Box::new(InterPodAffinity(columns)) as _)
}

/// The weight that a term adds to the domains of a group's pods.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    group: usize,
    key: Symbol,
    sum: i64,
}

/// The weights of the pod's own terms and of those of existing pods, in order.
fn weights(cluster: &Cluster, pod: &Pod, hard: i64) -> Vec<Weight> {
    let mut weights = Vec::new();
    let mut meter = Meter::new(cluster);
    for (weight, term) in &cluster.template(pod).preferred {
        for_each_selected(cluster, term, &mut meter, |group| {
            weights.push(Weight {
                group,
                key: term.topology_key,
                sum: *weight,
            });
            0
        });
    }
    for known in terms_selecting(cluster, pod) {
        for (group, uses) in &known.uses {
            let near = if hard > 0 { uses.affinity } else { 0 };
            if uses.preferred > 0 || near > 0 {
                weights.push(Weight {
                    group: *group as usize,
                    key: known.term.topology_key,
                    sum: uses.weight + hard * near,
                });
            }
        }
    }
    weights.sort_unstable();
    weights
}

impl Column {
    /// Adds a weight to the node's domain. Returns whether the node has one.
    fn add(&mut self, id: NodeId, weight: i64) -> bool {
        let domain = self.topology.of(id);
        if let Some(domain) = domain {
            self.weights[domain] += weight;
        }
        domain.is_some()
    }
}

impl Score for InterPodAffinity {
    fn raw(&self, here: Here<'_>) -> i64 {
        let weights = self.0.iter().filter_map(|column| {
            let domain = column.topology.of(here.id)?;
            Some(column.weights[domain])
        });
        weights.sum()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as kube-scheduler computes it"
    )]
    fn normalize(&self, scores: &mut [i64]) {
        let least = scores.iter().copied().min().unwrap_or(0);
        let range = scores.iter().copied().max().unwrap_or(0) - least;
        for score in scores {
            *score = if range > 0 {
                (MAX_SCORE as f64 * ((*score - least) as f64 / range as f64)) as i64
            } else {
                0
            };
        }
    }
}
