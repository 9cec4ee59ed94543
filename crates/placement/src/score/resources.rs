//! `NodeResourcesFit` and `NodeResourcesBalancedAllocation`: the utilization of a node and how even it is (S5-086,
//! S5-087).

use crate::cluster::{Cluster, NodeView};
use crate::filter::Here;
use crate::node::Node;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::resources::find;
use crate::symbol::Symbol;
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};

/// The scoring strategy of `NodeResourcesFit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// Low utilization scores higher.
    LeastAllocated,
    /// High utilization scores higher.
    MostAllocated,
    /// Interpolates between points of utilization in percent and a score from 0 to 10.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// A resource to score and its weight.
pub type WeightedResource = (String, i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Symbol),
}

/// The amount that the pod adds to one resource.
struct Wanted {
    resource: Resource,
    weight: i64,
    amount: i64,
}

/// Whether containers without a request count with kube-scheduler's default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Amount {
    Asked,
    Scored,
}

/// The amounts that the pod adds to each scored resource. Scalar resources count only if the pod requests them.
fn wanted(cluster: &Cluster, pod: &Pod, resources: &[WeightedResource], by: Amount) -> Vec<Wanted> {
    let (asked, scored) = match (by, &pod.identity.of_containers) {
        // As in kube-scheduler, scoring ignores pod-level requests.
        (Amount::Scored, Some(of_containers)) => **of_containers,
        _ => (pod.amounts, pod.scored),
    };
    let scalars = cluster.scalars(asked.scalars);
    let wanted = resources.iter().filter_map(|(name, weight)| {
        let (resource, amount) = match (name.as_str(), by) {
            (CPU, Amount::Asked) => (Resource::Cpu, asked.cpu),
            (CPU, Amount::Scored) => (Resource::Cpu, scored.cpu),
            (MEMORY, Amount::Asked) => (Resource::Memory, asked.memory),
            (MEMORY, Amount::Scored) => (Resource::Memory, scored.memory),
            (EPHEMERAL_STORAGE, _) => (Resource::EphemeralStorage, asked.ephemeral_storage),
            (name, _) => {
                let name = cluster.symbols().get(name)?;
                let (_, amount) = scalars.iter().find(|(known, _)| *known == name)?;
                (Resource::Scalar(name), *amount)
            }
        };
        Some(Wanted {
            resource,
            weight: *weight,
            amount,
        })
    });
    wanted.collect()
}

impl Resource {
    /// The node's allocatable amount and the amount its pods use.
    #[inline]
    fn of(self, cluster: &Cluster, node: &Node, by: Amount) -> (i64, i64) {
        let (there, asked) = (&node.allocatable, &node.requested);
        match (self, by) {
            (Self::Cpu, Amount::Asked) => (there.cpu, asked.cpu),
            (Self::Cpu, Amount::Scored) => (there.cpu, node.scored.cpu),
            (Self::Memory, Amount::Asked) => (there.memory, asked.memory),
            (Self::Memory, Amount::Scored) => (there.memory, node.scored.memory),
            (Self::EphemeralStorage, _) => (there.ephemeral_storage, asked.ephemeral_storage),
            (Self::Scalar(name), _) => scalar(cluster, node, name),
        }
    }
}

/// A function of its own, so that `Resource::of` stays small enough to be inlined: it runs for every node.
#[inline(never)]
fn scalar(cluster: &Cluster, node: &Node, name: Symbol) -> (i64, i64) {
    let there = find(cluster.scalars(node.allocatable.scalars), name);
    let of_devices = if there == 0 {
        devices(cluster, node, name)
    } else {
        None
    };
    of_devices.unwrap_or_else(|| (there, node.requested_scalars.get(name)))
}

/// The devices that serve an extended resource on a node, and how many of them claims have (S7-177). `None` if there are none.
fn devices(cluster: &Cluster, node: &Node, resource: Symbol) -> Option<(i64, i64)> {
    let (known, symbols) = (cluster.devices(), cluster.symbols());
    let class = known.class_of_resource(symbols.text(resource))?;
    let found = known.devices_of_class(class, &NodeView { symbols, node });
    // A score cannot be continued by the next attempt, so that the cost ends no attempt.
    cluster.interrupt().charge_work(found.cost);
    (found.count > 0).then_some((found.count, found.allocated))
}

struct Fit {
    wanted: Vec<Wanted>,
    strategy: Strategy,
}

pub(crate) fn fit(
    cluster: &Cluster,
    pod: &Pod,
    strategy: &Strategy,
    resources: &[WeightedResource],
) -> Box<dyn Score> {
    Box::new(Fit {
        wanted: wanted(cluster, pod, resources, Amount::Scored),
        strategy: strategy.clone(),
    })
}

impl Strategy {
    /// The score of one resource that the node has.
    fn score(&self, there: i64, used: i64) -> i64 {
        match self {
            Self::LeastAllocated if used > there => 0,
            Self::LeastAllocated => (there - used).saturating_mul(MAX_SCORE) / there,
            Self::MostAllocated => used.min(there).saturating_mul(MAX_SCORE) / there,
            Self::RequestedToCapacityRatio(points) if used > there => on_line(points, 100),
            Self::RequestedToCapacityRatio(points) => {
                on_line(points, used.saturating_mul(100) / there)
            }
        }
    }

    /// The mean by weight.
    fn mean(&self, sum: i64, weights: i64) -> i64 {
        if weights == 0 {
            return 0;
        }
        match self {
            Self::RequestedToCapacityRatio(_) => {
                // Rounds half up; scores are never negative.
                (2 * sum + weights) / (2 * weights)
            }
            _ => sum / weights,
        }
    }
}

/// Interpolates the line at a point; it is flat outside the points.
pub(super) fn on_line(points: &[(i64, i64)], at: i64) -> i64 {
    let height = |index: usize| points[index].1 * 10;
    let Some(right) = points.iter().position(|(x, _)| at <= *x) else {
        return points.len().checked_sub(1).map_or(0, height);
    };
    let Some(left) = right.checked_sub(1) else {
        return height(right);
    };
    let (x, y) = (points[left].0, height(left));
    y + (height(right) - y) * (at - x) / (points[right].0 - x)
}

impl Score for Fit {
    fn is_local(&self) -> bool {
        true
    }

    fn is_normal(&self) -> bool {
        true
    }

    fn raw(&self, here: Here<'_>) -> i64 {
        let ratio = matches!(self.strategy, Strategy::RequestedToCapacityRatio(_));
        let (mut sum, mut weights) = (0, 0);
        for wanted in &self.wanted {
            let (there, used) = wanted.resource.of(here.cluster, here.node, Amount::Scored);
            if there <= 0 {
                continue;
            }
            let score = self.strategy.score(there, used.wrapping_add(wanted.amount));
            if !ratio || score > 0 {
                sum += score * wanted.weight;
                weights += wanted.weight;
            }
        }
        self.strategy.mean(sum, weights)
    }
}

struct Balanced(Vec<Wanted>);

/// `None` for a pod that requests none of the resources.
pub(crate) fn balanced(
    cluster: &Cluster,
    pod: &Pod,
    resources: &[WeightedResource],
) -> Option<Box<dyn Score>> {
    let wanted = wanted(cluster, pod, resources, Amount::Asked);
    let any = wanted.iter().any(|wanted| wanted.amount != 0);
    any.then(|| Box::new(Balanced(wanted)) as _)
}

/// How even the fractions are, from 0 to [`MAX_SCORE`].
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "as kube-scheduler computes it"
)]
fn evenness(fractions: &[f64]) -> i64 {
    let count = fractions.len();
    let deviation = if count < 2 {
        0.0
    } else {
        let mean = fractions.iter().sum::<f64>() / count as f64;
        let squares = fractions
            .iter()
            .map(|fraction| (fraction - mean) * (fraction - mean));
        (squares.sum::<f64>() / count as f64).sqrt()
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

/// The deviation of two fractions, where kube-scheduler uses a shorter formula.
#[expect(
    clippy::cast_possible_truncation,
    reason = "as kube-scheduler computes it"
)]
fn evenness_of_two(one: f64, other: f64) -> i64 {
    ((1.0 - ((one - other) / 2.0).abs()) * 100.0) as i64
}

impl Score for Balanced {
    fn is_local(&self) -> bool {
        true
    }

    fn is_normal(&self) -> bool {
        true
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "fractions of a node's resources"
    )]
    fn raw(&self, here: Here<'_>) -> i64 {
        let fractions = |wanted: &Wanted| {
            let (there, used) = wanted.resource.of(here.cluster, here.node, Amount::Asked);
            let fraction = |used: i64| (used as f64 / there as f64).min(1.0);
            (there != 0).then(|| (fraction(used), fraction(used.wrapping_add(wanted.amount))))
        };
        let mut all = self.0.iter().filter_map(fractions);
        // Most profiles score cpu and memory only, so two fractions are the common case.
        let (without, with) = if let (Some(one), Some(other), None) =
            (all.next(), all.next(), all.next())
        {
            (
                evenness_of_two(one.0, other.0),
                evenness_of_two(one.1, other.1),
            )
        } else {
            let (without, with): (Vec<f64>, Vec<f64>) = self.0.iter().filter_map(fractions).unzip();
            (evenness(&without), evenness(&with))
        };
        MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2
    }
}
