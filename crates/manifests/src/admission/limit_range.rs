//! The plugin `LimitRanger`: default resources of a namespace's containers, and the bounds of all resources.

use super::{Admitted, Refusal};
use crate::wire::{LimitRange, LimitRangeItem};
use evictd_pod::wire::{self, ResourceRequirements};
use evictd_pod::{Quantity, ResourceList};
use std::collections::BTreeMap;

const CONTAINER: &str = "Container";
const POD: &str = "Pod";

impl LimitRange {
    /// The defaults that the API server sets in the object itself.
    fn complete(&mut self) {
        if !self.metadata.uid.is_empty() {
            return;
        }
        let items = self.spec.limits.iter_mut();
        for item in items.filter(|item| item.kind == CONTAINER) {
            fill(&mut item.limits, &item.max);
            fill(&mut item.default_request, &item.limits);
            fill(&mut item.default_request, &item.min);
        }
    }

    fn items(&self, kind: &str) -> impl Iterator<Item = &LimitRangeItem> {
        let items = self.spec.limits.iter();
        items.filter(move |item| item.kind == kind)
    }
}

/// Sets missing amounts. Returns whether any was missing.
fn fill(list: &mut ResourceList, defaults: &ResourceList) -> bool {
    let before = list.len();
    for (name, quantity) in defaults.iter() {
        if !list.contains_key(name) {
            list.insert(name, *quantity);
        }
    }
    list.len() > before
}

/// The limits of a cluster, by namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct LimitRanges(BTreeMap<String, Vec<LimitRange>>);

impl LimitRanges {
    pub(super) fn add(&mut self, mut range: LimitRange) {
        range.complete();
        let namespace = range.metadata.namespace_or_default().to_owned();
        self.0.entry(namespace).or_default().push(range);
    }

    fn ranges(&self, pod: &wire::Pod) -> &[LimitRange] {
        let namespace = pod.metadata.namespace_or_default();
        self.0.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Sets missing requests and limits to the defaults of the namespace.
    pub(super) fn set_defaults(&self, admitted: &mut Admitted) {
        let Admitted { pod, notes, .. } = admitted;
        for range in self.ranges(pod) {
            for item in range.items(CONTAINER) {
                let spec = &mut *pod.spec;
                let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
                let mut changed = false;
                for container in containers {
                    let resources = &mut container.resources;
                    changed |= fill(&mut resources.limits, &item.limits);
                    changed |= fill(&mut resources.requests, &item.default_request);
                }
                if changed {
                    let defaults = super::amounts(&item.default_request);
                    let name = range.metadata.full_name();
                    notes.push(format!(
                        "LimitRange {name} sets missing requests of containers to {defaults}"
                    ));
                }
            }
        }
    }

    /// Refuses a pod with amounts outside the bounds of its namespace.
    pub(super) fn check(&self, pod: &wire::Pod) -> Result<(), Refusal> {
        let mut mistakes = Vec::new();
        for range in self.ranges(pod) {
            let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
            for container in containers {
                for item in range.items(CONTAINER) {
                    item.check(&container.resources, &mut mistakes);
                }
            }
            for item in range.items(POD) {
                item.check(&of_all_containers(&pod.spec), &mut mistakes);
            }
        }
        if mistakes.is_empty() {
            return Ok(());
        }
        Err(Refusal {
            pod: pod.metadata.full_name(),
            field: "spec.containers",
            message: mistakes.join("; "),
        })
    }
}

/// The sums over a pod's containers. An amount of an init container counts where it is larger.
fn of_all_containers(spec: &wire::PodSpec) -> ResourceRequirements {
    let mut sums = ResourceRequirements::default();
    for container in &spec.containers {
        let ResourceRequirements { requests, limits } = &container.resources;
        for (sum, list) in [(&mut sums.requests, requests), (&mut sums.limits, limits)] {
            for (name, quantity) in list.iter() {
                let before = sum.get(name).copied().unwrap_or_default();
                sum.insert(name, before + *quantity);
            }
        }
    }
    // Init containers run before the others, so that only the largest counts.
    for container in &spec.init_containers {
        let ResourceRequirements { requests, limits } = &container.resources;
        for (sum, list) in [(&mut sums.requests, requests), (&mut sums.limits, limits)] {
            for (name, quantity) in list.iter() {
                if sum.get(name).is_none_or(|before| before < quantity) {
                    sum.insert(name, *quantity);
                }
            }
        }
    }
    sums
}

impl LimitRangeItem {
    fn check(&self, resources: &ResourceRequirements, mistakes: &mut Vec<String>) {
        let kind = &self.kind;
        let ResourceRequirements { requests, limits } = resources;
        for (name, bound) in self.min.iter() {
            let of = format!("minimum {name} usage per {kind} is {bound}");
            match (requests.get(name), limits.get(name)) {
                (None, _) => mistakes.push(format!("{of}, but no request is specified")),
                (Some(request), _) if request < bound => {
                    mistakes.push(format!("{of}, but request is {request}"));
                }
                (_, Some(limit)) if limit < bound => {
                    mistakes.push(format!("{of}, but limit is {limit}"));
                }
                _ => {}
            }
        }
        for (name, bound) in self.max.iter() {
            let of = format!("maximum {name} usage per {kind} is {bound}");
            match (limits.get(name), requests.get(name)) {
                (None, _) => mistakes.push(format!("{of}, but no limit is specified")),
                (Some(limit), _) if limit > bound => {
                    mistakes.push(format!("{of}, but limit is {limit}"));
                }
                (_, Some(request)) if request > bound => {
                    mistakes.push(format!("{of}, but request is {request}"));
                }
                _ => {}
            }
        }
        for (name, bound) in self.max_limit_request_ratio.iter() {
            let limit = limits.get(name).copied().unwrap_or_default();
            let request = requests.get(name).copied().unwrap_or_default();
            if exceeds_ratio(limit, request, *bound) {
                mistakes.push(format!(
                    "{name} max limit to request ratio per {kind} is {bound}, but limit is {limit} and request is {request}"
                ));
            }
        }
    }
}

/// Whether limit / request exceeds the ratio. Without a request or a limit any ratio is exceeded.
fn exceeds_ratio(limit: Quantity, request: Quantity, ratio: Quantity) -> bool {
    if !limit.is_positive() || !request.is_positive() {
        return true;
    }
    // Thousandths on both sides keep ratios such as 1.5 exact.
    let scaled = |quantity: Quantity| quantity.nano_value();
    scaled(limit).saturating_mul(1000)
        > scaled(request).saturating_mul(i128::from(ratio.milli_value()))
}
