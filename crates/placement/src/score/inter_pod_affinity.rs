//! `InterPodAffinity`: preferred affinity of the pod, and terms of existing pods about it (S5-089).

use crate::cluster::Cluster;
use crate::filter::{Here, selects};
use crate::group::Group;
use crate::id::NodeId;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::PodTerm;
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
    let mut keys: Vec<Symbol> = Vec::new();
    let rows = cluster.groups().iter();
    let rows = rows.map(|other| weights(cluster, pod, other, hard, &mut keys));
    let rows: Vec<Vec<(usize, i64)>> = rows.collect();
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
    for (group, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        for (id, counts) in cluster.nodes_of(group) {
            let pods = counts.running + counts.terminating;
            for (column, weight) in row {
                any |= columns[*column].add(id, *weight * pods);
            }
        }
    }
    any.then(|| Box::new(InterPodAffinity(columns)) as _)
}

/// The weight of a group's pod in each column.
fn weights(
    cluster: &Cluster,
    pod: &Pod,
    other: &Group,
    hard: i64,
    keys: &mut Vec<Symbol>,
) -> Vec<(usize, i64)> {
    let template = cluster.template(pod);
    let selects_other = |term: &PodTerm| selects(cluster, term, other.namespace, &other.labels);
    let selects_own = |term: &PodTerm| selects(cluster, term, template.namespace, pod.labels());
    let mine = template
        .preferred
        .iter()
        .filter(|(_, term)| selects_other(term));
    let theirs = other.preferred.iter().filter(|(_, term)| selects_own(term));
    let near = other
        .affinity
        .iter()
        .filter(|term| hard > 0 && selects_own(term));
    let all = mine.chain(theirs).map(|(weight, term)| (*weight, term));
    let all = all.chain(near.map(|term| (hard, term)));
    let mut weights: Vec<(usize, i64)> = Vec::new();
    for (weight, term) in all {
        let key = term.topology_key;
        let column = keys
            .iter()
            .position(|known| *known == key)
            .unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
        match weights.iter_mut().find(|(known, _)| *known == column) {
            Some((_, sum)) => *sum += weight,
            None => weights.push((column, weight)),
        }
    }
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
