//! Builds the allocation that is written into a claim's status.

use crate::claim::{Claim, ResolvedSubrequest, Subrequest};
use crate::slice::Slice;
use evictd_pod::Quantity;
use evictd_pod::compatibility::Release;
use evictd_pod::wire::{
    self, AllocatedConfiguration, AllocatedDevice, AllocatedDevices, Allocation, Device,
    DeviceConfiguration, NodeSelector, NodeSelectorTerm, Requirement,
};
use std::collections::{BTreeMap, BTreeSet};

/// A device chosen for a subrequest.
pub(crate) struct Given<'a> {
    pub(crate) subrequest: &'a Subrequest,
    pub(crate) slice: &'a Slice,
    pub(crate) device: &'a Device,
    /// The amounts that it consumes of a shared device.
    pub(crate) share: Option<BTreeMap<String, Quantity>>,
}

/// The allocation of a claim. `chosen` holds the chosen alternative of each request, and `given` the devices in the
/// same order.
pub(crate) fn of(
    claim: &Claim,
    chosen: &[ResolvedSubrequest<'_>],
    given: &[Given<'_>],
    (node, release): (&str, Release),
) -> Allocation {
    let results = given.iter().enumerate().map(|(index, given)| {
        let share = given.share.as_ref();
        AllocatedDevice {
            request: given.subrequest.name.clone(),
            driver: given.slice.spec.driver.clone(),
            pool: given.slice.spec.pool.name.clone(),
            device: given.device.name.clone(),
            admin_access: given.subrequest.is_admin.then_some(true),
            tolerations: given.subrequest.tolerations.clone(),
            share_id: share.map(|_| share_id(claim, index, given)),
            consumed_capacity: share.cloned().unwrap_or_default(),
            binding_conditions: given.device.binding_conditions.clone(),
            binding_failure_conditions: given.device.binding_failure_conditions.clone(),
        }
    });
    Allocation {
        devices: AllocatedDevices {
            results: results.collect(),
            config: match release {
                Release::V1_36 => configurations(claim, chosen),
                Release::V1_37 => compacted(claim, chosen, configurations(claim, chosen)),
            },
        },
        node_selector: node_selector(given, node),
        allocation_timestamp: None,
    }
}

/// A UID that no other share of the device has: a hash of the claim, request and device of the share. It is not random, so that an attempt can
/// be repeated.
fn share_id(claim: &Claim, index: usize, given: &Given<'_>) -> String {
    let spec = &given.slice.spec;
    let index = index.to_string();
    let parts: [&str; 7] = [
        &claim.wire.metadata.uid,
        &claim.full_name(),
        &given.subrequest.name,
        &index,
        &spec.driver,
        &spec.pool.name,
        &given.device.name,
    ];
    let hash = parts.iter().fold(FNV_BASIS, |hash, part| {
        let bytes = part.bytes().chain(std::iter::once(0xff));
        bytes.fold(hash, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
        })
    });
    // Version 8 of RFC 9562 is for UIDs that are made in another way.
    let hash = (hash & !(0xf << 76) & !(0x3 << 62)) | (0x8 << 76) | (0x2 << 62);
    let text = format!("{hash:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &text[part]);
    parts.join("-")
}

/// The constants of the FNV-1a hash with 128 bits.
const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The maximum number of alternatives of a request.
const MOST_ALTERNATIVES: i64 = 8;

/// The score of an allocation: earlier alternatives of a request score higher.
pub fn preference(claim: &wire::ResourceClaim, allocation: &Allocation) -> i64 {
    let mut sum = 0;
    for request in &claim.spec.devices.requests {
        let alternatives = request.first_available.iter();
        let got = |alternative: &wire::RequestedDevices| {
            let name = format!("{}/{}", request.name, alternative.name);
            let mut results = allocation.devices.results.iter();
            results.any(|result| result.request == name)
        };
        let ranks = (1..=MOST_ALTERNATIVES).rev();
        let found = alternatives
            .zip(ranks)
            .filter(|(alternative, _)| got(alternative));
        sum += found.map(|(_, rank)| rank).sum::<i64>();
    }
    sum
}

/// The configurations of the classes, each with its requests, then those of the claim that apply to an allocated
/// request.
fn configurations(claim: &Claim, chosen: &[ResolvedSubrequest<'_>]) -> Vec<AllocatedConfiguration> {
    let mut configurations = Vec::new();
    let mut known = BTreeSet::new();
    for resolved in chosen {
        if !known.insert(&resolved.class.name) {
            continue;
        }
        let alike = chosen
            .iter()
            .filter(|other| other.class.name == resolved.class.name);
        let requests: Vec<String> = alike.map(|other| other.subrequest.name.clone()).collect();
        let of_class = resolved
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
        for (request, resolved) in claim.requests.iter().zip(chosen) {
            let names = [&request.name, &resolved.subrequest.name];
            if configuration
                .requests
                .iter()
                .any(|request| names.contains(&request))
            {
                configurations.push(from_claim());
            }
        }
    }
    configurations
}

/// As 1.37 writes them: each once, and without requests where it is for all of the claim (S7-194). One that names another
/// alternative of a request is not for that request.
fn compacted(
    claim: &Claim,
    chosen: &[ResolvedSubrequest<'_>],
    all: Vec<AllocatedConfiguration>,
) -> Vec<AllocatedConfiguration> {
    let mut compacted: Vec<AllocatedConfiguration> = Vec::new();
    for mut configuration in all {
        let named = &configuration.configuration.requests;
        let mut requests = claim.requests.iter().zip(chosen);
        if requests.all(|(request, chosen)| {
            named.contains(&request.name) || named.contains(&chosen.subrequest.name)
        }) {
            configuration.configuration.requests.clear();
        }
        if !compacted.contains(&configuration) {
            compacted.push(configuration);
        }
    }
    compacted
}

/// The nodes that can use the devices: the node of the first node-local device, or the nodes that all devices allow.
fn node_selector(given: &[Given<'_>], node: &str) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for device in given {
        let (name, selector) = device.slice.nodes_of(device.device);
        let name = if device.device.binds_to_node {
            node
        } else {
            name
        };
        if !name.is_empty() {
            let only = NodeSelectorTerm {
                match_fields: vec![Requirement {
                    key: "metadata.name".to_owned(),
                    operator: "In".to_owned(),
                    values: vec![name.to_owned()],
                }],
                ..NodeSelectorTerm::default()
            };
            return Some(NodeSelector {
                node_selector_terms: vec![only],
            });
        }
        // A slice has a single term.
        for allowed in selector
            .iter()
            .filter_map(|selector| selector.node_selector_terms.first())
        {
            add(&mut term.match_fields, &allowed.match_fields);
            add(&mut term.match_expressions, &allowed.match_expressions);
        }
    }
    let selects = !term.match_fields.is_empty() || !term.match_expressions.is_empty();
    selects.then(|| NodeSelector {
        node_selector_terms: vec![term],
    })
}

fn add(to: &mut Vec<Requirement>, from: &[Requirement]) {
    for requirement in from {
        let values = |known: &Requirement| known.values.iter().cloned().collect::<BTreeSet<_>>();
        let is_same = |known: &Requirement| {
            known.key == requirement.key
                && known.operator == requirement.operator
                && values(known) == values(requirement)
        };
        if !to.iter().any(is_same) {
            to.push(requirement.clone());
        }
    }
}
