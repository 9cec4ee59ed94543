//! `PodTopologySpread`: domains with fewer matching pods score higher (S5-091).

use crate::cluster::Cluster;
use crate::filter::{Here, Inclusion, selected_groups};
use crate::id::NodeId;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::template::Spread;
use crate::topology::TopologyDomains;
use std::sync::Arc;

struct TopologySpread {
    constraints: Box<[Constraint]>,
    /// For each compared node, whether it is ignored because it lacks a topology key.
    ignored: Box<[bool]>,
    /// Whether nodes that lack any topology key are ignored.
    all_keys: bool,
}

struct Constraint {
    topology: Arc<TopologyDomains>,
    /// For the hostname key each node is a domain, so pods are counted per node.
    is_hostname: bool,
    /// Matching pods in each domain, or on each node.
    pods: Box<[i64]>,
    /// The weight of a pod: it grows with the number of domains.
    weight: f64,
    allowance: f64,
}

/// `all_keys` is whether nodes that lack a topology key are ignored.
pub(crate) fn new(
    cluster: &Cluster,
    pod: &Pod,
    nodes: &[NodeId],
    spread: &[Spread],
    all_keys: bool,
) -> Option<Box<dyn Score>> {
    if spread.is_empty() || nodes.is_empty() {
        return None;
    }
    let topologies = spread.iter();
    let topologies: Vec<Arc<TopologyDomains>> = topologies
        .map(|constraint| cluster.topology(constraint.topology_key))
        .collect();
    let lacks =
        |id: NodeId| all_keys && topologies.iter().any(|topology| topology.of(id).is_none());
    let ignored: Box<[bool]> = nodes.iter().map(|id| lacks(*id)).collect();
    let compared = || nodes.iter().zip(&ignored).filter(|(_, ignored)| !**ignored);
    let hostname = cluster.symbols().get("kubernetes.io/hostname");
    let constraints = spread
        .iter()
        .zip(&topologies)
        .map(|(constraint, topology)| {
            let is_hostname = hostname == Some(constraint.topology_key);
            let mut known = vec![false; topology.count];
            let mut size = 0;
            // Nodes that lack the label count as one more domain without pods.
            let mut nowhere = false;
            for (id, _) in compared() {
                match topology.of(*id) {
                    _ if is_hostname => size += 1,
                    Some(domain) if !std::mem::replace(&mut known[domain], true) => size += 1,
                    None if !std::mem::replace(&mut nowhere, true) => size += 1,
                    Some(_) | None => {}
                }
            }
            (is_hostname, known, size)
        });
    let sized: Vec<(bool, Vec<bool>, u32)> = constraints.collect();
    let namespace = cluster.template(pod).namespace;
    let counts = selected_groups(cluster, namespace, spread, |constraint, labels| {
        // As in kube-scheduler, an empty selector counts no pod here.
        !constraint.selector.is_empty() && constraint.selector.matches(cluster.symbols(), labels)
    });
    let inclusion = Inclusion::new(cluster, pod, spread);
    let mut pods: Vec<Vec<i64>> = Vec::new();
    for (index, constraint) in spread.iter().enumerate() {
        let (is_hostname, known, _) = &sized[index];
        let topology = &topologies[index];
        let size = if *is_hostname {
            cluster.nodes().len()
        } else {
            topology.count
        };
        let mut sums = vec![0; size];
        let matching = counts.iter().skip(index).step_by(spread.len()).enumerate();
        for (group, _) in matching.filter(|(_, counts)| **counts) {
            for (id, found) in cluster.nodes_of(group) {
                if *is_hostname {
                    sums[id.index()] += found.running;
                } else if let Some(domain) = topology.of(id)
                    && known[domain]
                    && inclusion.contains(id, constraint)
                    && !lacks(id)
                {
                    sums[domain] += found.running;
                }
            }
        }
        pods.push(sums);
    }
    let parts = topologies.into_iter().zip(sized).zip(pods).zip(spread);
    let constraints =
        parts.map(
            |(((topology, (is_hostname, _, size)), pods), constraint)| Constraint {
                topology,
                is_hostname,
                pods: pods.into(),
                weight: f64::from(size + 2).ln(),
                #[expect(clippy::cast_precision_loss, reason = "a skew is 32 bits wide")]
                allowance: (constraint.max_skew - 1) as f64,
            },
        );
    Some(Box::new(TopologySpread {
        constraints: constraints.collect(),
        ignored,
        all_keys,
    }))
}

impl Score for TopologySpread {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as kube-scheduler computes it"
    )]
    fn raw(&self, here: Here<'_>) -> i64 {
        let lacks = |constraint: &Constraint| constraint.topology.of(here.id).is_none();
        if self.all_keys && self.constraints.iter().any(lacks) {
            return 0;
        }
        let mut sum = 0.0;
        for constraint in &self.constraints {
            let Some(domain) = constraint.topology.of(here.id) else {
                continue;
            };
            let index = if constraint.is_hostname {
                here.id.index()
            } else {
                domain
            };
            sum += constraint.pods[index] as f64 * constraint.weight + constraint.allowance;
        }
        sum.round() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        let compared = || {
            scores
                .iter()
                .zip(&self.ignored)
                .filter(|(_, ignored)| !**ignored)
        };
        let least = compared().map(|(score, _)| *score).min().unwrap_or(0);
        let most = compared().map(|(score, _)| *score).max().unwrap_or(0);
        for (score, ignored) in scores.iter_mut().zip(&self.ignored) {
            *score = match most {
                _ if *ignored => 0,
                0 => MAX_SCORE,
                _ => MAX_SCORE * (most + least - *score) / most,
            };
        }
    }
}
