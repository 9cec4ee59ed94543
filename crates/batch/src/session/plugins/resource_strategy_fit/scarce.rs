//! Scarce resources: nodes that have them are kept for the pods that ask for them (S6-212).

use super::{most, names, number};
use crate::conf::field;
use crate::session::snapshot::Node;
use crate::session::snapshot::resource::{Dim, Dims, Resource};
use serde_json::{Map, Value};

/// Prefers nodes without scarce resources.
#[derive(Debug)]
pub(super) struct Scarce {
    weight: f64,
    /// Each resource with its weight; a resource that no object names has no dimension.
    resources: Vec<(Option<Dim>, f64)>,
}

impl Scarce {
    pub(super) fn new(part: &Map<String, Value>, dims: &Dims) -> Self {
        let weights = field(part, "resourceWeight").and_then(Value::as_object);
        let weight = |name: &str| {
            let weight = weights.map_or(1.0, |weights| number(weights, name, 1.0).trunc());
            if weight < 0.0 { 1.0 } else { weight }
        };
        let resources = names(part).into_iter();
        Self {
            weight: field(part, "weight")
                .and_then(Value::as_f64)
                .map_or(0.0, f64::trunc),
            resources: resources
                .map(|name| (dims.find(name), weight(name)))
                .collect(),
        }
    }

    pub(super) fn score(&self, request: &Resource, node: &Node) -> f64 {
        let has = |dim: Dim| node.allocatable.get(dim) > 0.0;
        if request.some().any(|(dim, _)| !has(dim)) {
            return 0.0;
        }
        let all: f64 = self.resources.iter().map(|(_, weight)| weight).sum();
        let there = self.resources.iter();
        let there = there.filter(|(dim, _)| dim.is_some_and(has));
        let there: f64 = there.map(|(_, weight)| weight).sum();
        if all <= 0.0 {
            return 0.0;
        }
        most(self.weight) * (1.0 - there / all)
    }
}

/// Keeps cpu and memory free beside idle devices.
#[derive(Debug)]
pub(super) struct Proportional {
    /// The cpu and memory beside each thousandth of a resource.
    resources: Vec<(Dim, f64, f64)>,
}

impl Proportional {
    pub(super) fn new(part: &Map<String, Value>, dims: &Dims) -> Self {
        let rates = field(part, "resourceProportion").and_then(Value::as_object);
        let rate = |name: &str, of: &str| {
            let rate = rates.map_or(1.0, |rates| number(rates, &format!("{name}.{of}"), 1.0));
            if rate < 0.0 { 1.0 } else { rate }
        };
        let resources = names(part).into_iter().filter_map(|name| {
            let dim = dims.find(name)?;
            Some((dim, rate(name, "cpu"), rate(name, "memory")))
        });
        Self {
            resources: resources.collect(),
        }
    }

    /// The device beside which a node has too little left for a pod that asks for none.
    pub(super) fn lacking(&self, request: &Resource, node: &Node) -> Option<Dim> {
        let asks = |(dim, ..): &(Dim, f64, f64)| request.get(*dim) > 0.0;
        if self.resources.iter().any(asks) {
            return None;
        }
        let mut resources = self.resources.iter();
        let lacking = resources.find(|(dim, cpu, memory)| {
            let Some(idle) = node.idle.named(*dim) else {
                return false;
            };
            // A rate of memory is in gigabytes for each device.
            node.idle.cpu - request.cpu < idle * cpu
                || node.idle.memory - request.memory < idle * memory * 1000.0 * 1000.0
        });
        lacking.map(|(dim, ..)| *dim)
    }
}
