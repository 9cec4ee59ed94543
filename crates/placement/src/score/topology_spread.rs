//! `PodTopologySpread`: the fewer of its like are near, the better (S5-091).

use crate::cluster::Cluster;
use crate::filter::{Here, Inclusion};
use crate::id::NodeId;
use crate::places::Places;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::template::Spread;
use std::sync::Arc;

struct TopologySpread {
    constraints: Box<[Constraint]>,
    /// Of each compared node, whether it is left out because it lacks a label.
    ignored: Box<[bool]>,
    /// Whether nodes are left out that lack the label of any constraint.
    all_keys: bool,
}

struct Constraint {
    places: Arc<Places>,
    /// Places of one node each: its own pods are what counts.
    is_hostname: bool,
    /// Pods of each place, or else of each node.
    pods: Box<[i64]>,
    /// How much a pod counts: more where there are more places.
    weight: f64,
    allowance: f64,
}

/// `all_keys` tells whether a node that lacks one of the labels is left out.
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
    let places = spread.iter().map(|own| cluster.places(own.topology_key));
    let places: Vec<Arc<Places>> = places.collect();
    let lacks = |id: NodeId| all_keys && places.iter().any(|places| places.of(id).is_none());
    let ignored: Box<[bool]> = nodes.iter().map(|id| lacks(*id)).collect();
    let compared = || nodes.iter().zip(&ignored).filter(|(_, ignored)| !**ignored);
    let hostname = cluster.symbols().get("kubernetes.io/hostname");
    let constraints = spread.iter().zip(&places).map(|(own, places)| {
        let is_hostname = hostname == Some(own.topology_key);
        let mut known = vec![false; places.count];
        let mut size = 0;
        // Nodes that lack the label are one place more, though nobody is counted there.
        let mut nowhere = false;
        for (id, _) in compared() {
            match places.of(*id) {
                _ if is_hostname => size += 1,
                Some(place) if !std::mem::replace(&mut known[place], true) => size += 1,
                None if !std::mem::replace(&mut nowhere, true) => size += 1,
                Some(_) | None => {}
            }
        }
        (is_hostname, known, size)
    });
    let sized: Vec<(bool, Vec<bool>, u32)> = constraints.collect();
    let namespace = cluster.template(pod).namespace;
    let rows = cluster.groups().iter().flat_map(|group| {
        spread.iter().map(move |own| {
            // An empty selector counts nobody here, though it selects everybody.
            group.namespace == namespace
                && !own.selector.is_empty()
                && own.selector.matches(cluster.symbols(), &group.labels)
        })
    });
    let counts: Box<[bool]> = rows.collect();
    let inclusion = Inclusion::new(cluster, pod, spread);
    let mut pods: Vec<Vec<i64>> = Vec::new();
    for (index, own) in spread.iter().enumerate() {
        let (is_hostname, known, _) = &sized[index];
        let places = &places[index];
        let size = if *is_hostname {
            cluster.nodes().len()
        } else {
            places.count
        };
        let mut sums = vec![0; size];
        let matching = counts.iter().skip(index).step_by(spread.len()).enumerate();
        for (group, _) in matching.filter(|(_, counts)| **counts) {
            for (id, found) in cluster.nodes_of(group) {
                if *is_hostname {
                    sums[id.index()] += found.running;
                } else if let Some(place) = places.of(id)
                    && known[place]
                    && inclusion.contains(id, own)
                    && !lacks(id)
                {
                    sums[place] += found.running;
                }
            }
        }
        pods.push(sums);
    }
    let parts = places.into_iter().zip(sized).zip(pods).zip(spread);
    let constraints = parts.map(
        |(((places, (is_hostname, _, size)), pods), own)| Constraint {
            places,
            is_hostname,
            pods: pods.into(),
            weight: f64::from(size + 2).ln(),
            #[expect(clippy::cast_precision_loss, reason = "a skew is 32 bits wide")]
            allowance: (own.max_skew - 1) as f64,
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
        let lacks = |own: &Constraint| own.places.of(here.id).is_none();
        if self.all_keys && self.constraints.iter().any(lacks) {
            return 0;
        }
        let mut sum = 0.0;
        for own in &self.constraints {
            let Some(place) = own.places.of(here.id) else {
                continue;
            };
            let index = if own.is_hostname {
                here.id.index()
            } else {
                place
            };
            sum += own.pods[index] as f64 * own.weight + own.allowance;
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
