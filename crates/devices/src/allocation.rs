//! What is written into a claim's status when the search has found devices for it.

use crate::claim::{Ask, Asked, Claim};
use crate::slice::Slice;
use evictd_pod::wire::{
    self, AllocatedConfiguration, AllocatedDevice, AllocatedDevices, Allocation, Device,
    DeviceConfiguration, NodeSelector, NodeSelectorTerm, Requirement,
};
use std::collections::BTreeSet;

/// A device that was found for an ask.
pub(crate) struct Given<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) slice: &'a Slice,
    pub(crate) device: &'a Device,
}

/// The allocation of a claim: of each of its requests the ask that was met, and the devices in the order of the asks.
pub(crate) fn of(claim: &Claim, chosen: &[Asked<'_>], given: &[Given<'_>]) -> Allocation {
    let results = given.iter().map(|own| AllocatedDevice {
        request: own.ask.name.clone(),
        driver: own.slice.spec.driver.clone(),
        pool: own.slice.spec.pool.name.clone(),
        device: own.device.name.clone(),
        admin_access: own.ask.is_admin.then_some(true),
        tolerations: own.ask.tolerations.clone(),
    });
    Allocation {
        devices: AllocatedDevices {
            results: results.collect(),
            config: configurations(claim, chosen),
        },
        node_selector: node_selector(given),
    }
}

/// How many alternatives a request can have.
const MOST_ALTERNATIVES: i64 = 8;

/// How well an allocation suits a claim: the earlier an alternative is in its list, the more it counts.
pub fn preference(claim: &wire::ResourceClaim, allocation: &Allocation) -> i64 {
    let mut sum = 0;
    for request in &claim.spec.devices.requests {
        let alternatives = request.first_available.iter();
        let got = |own: &wire::RequestedDevices| {
            let name = format!("{}/{}", request.name, own.name);
            let mut results = allocation.devices.results.iter();
            results.any(|result| result.request == name)
        };
        let ranks = (1..=MOST_ALTERNATIVES).rev();
        let found = alternatives.zip(ranks).filter(|(own, _)| got(own));
        sum += found.map(|(_, rank)| rank).sum::<i64>();
    }
    sum
}

/// First those of the classes, each once with the requests that it is for, then those of the claim that are about something
/// that was allocated.
fn configurations(claim: &Claim, chosen: &[Asked<'_>]) -> Vec<AllocatedConfiguration> {
    let mut configurations = Vec::new();
    let mut known = BTreeSet::new();
    for asked in chosen {
        if !known.insert(&asked.class.name) {
            continue;
        }
        let alike = chosen
            .iter()
            .filter(|own| own.class.name == asked.class.name);
        let requests: Vec<String> = alike.map(|own| own.ask.name.clone()).collect();
        let of_class = asked
            .class
            .config
            .iter()
            .map(|content| AllocatedConfiguration {
                source: "FromClass".to_owned(),
                configuration: DeviceConfiguration {
                    requests: requests.clone(),
                    content: content.clone(),
                },
            });
        configurations.extend(of_class);
    }
    for configuration in &claim.wire.spec.devices.config {
        let from_claim = || AllocatedConfiguration {
            source: "FromClaim".to_owned(),
            configuration: configuration.clone(),
        };
        if configuration.requests.is_empty() {
            configurations.push(from_claim());
            continue;
        }
        for (request, asked) in claim.requests.iter().zip(chosen) {
            let names = [&request.name, &asked.ask.name];
            if configuration
                .requests
                .iter()
                .any(|own| names.contains(&own))
            {
                configurations.push(from_claim());
            }
        }
    }
    configurations
}

/// Where the devices can be used: on the node of the first that is for one node only, otherwise where all of them can.
fn node_selector(given: &[Given<'_>]) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for own in given {
        let spec = &own.slice.spec;
        if !spec.node_name.is_empty() {
            let only = NodeSelectorTerm {
                match_fields: vec![Requirement {
                    key: "metadata.name".to_owned(),
                    operator: "In".to_owned(),
                    values: vec![spec.node_name.clone()],
                }],
                ..NodeSelectorTerm::default()
            };
            return Some(NodeSelector {
                node_selector_terms: vec![only],
            });
        }
        // A slice has one term.
        let terms = spec.node_selector.iter();
        for own in terms.filter_map(|selector| selector.node_selector_terms.first()) {
            add(&mut term.match_fields, &own.match_fields);
            add(&mut term.match_expressions, &own.match_expressions);
        }
    }
    let selects = !term.match_fields.is_empty() || !term.match_expressions.is_empty();
    selects.then(|| NodeSelector {
        node_selector_terms: vec![term],
    })
}

fn add(to: &mut Vec<Requirement>, from: &[Requirement]) {
    for requirement in from {
        let values = |own: &Requirement| own.values.iter().cloned().collect::<BTreeSet<_>>();
        let is_same = |own: &Requirement| {
            own.key == requirement.key
                && own.operator == requirement.operator
                && values(own) == values(requirement)
        };
        if !to.iter().any(is_same) {
            to.push(requirement.clone());
        }
    }
}
