//! The requests of a pod's special claim: extended resources that devices serve instead of a device plugin.

use crate::inventory::Inventory;
use crate::selectors::Selector;
use crate::slice::{Node, Slice};
use evictd_pod::wire::{DeviceRequest, Metadata, RequestedDevices, ResourceClaim};
use std::collections::BTreeMap;

impl Inventory {
    /// The devices of a class that a node can use (S7-177). A device whose selector fails does not count.
    pub fn devices_of_class(&self, class: &str, node: &dyn Node) -> ClassDevices {
        let mut found = ClassDevices::default();
        let Some(class) = self.class(class) else {
            return found;
        };
        let is_selected = |slice: &Slice, at: usize, cost: &mut u64| {
            class.selectors.iter().all(|selector| {
                let evaluate =
                    |selector: &Selector| self.selectors().evaluate(selector, slice, at, true);
                let verdict = selector.as_deref().and_then(evaluate);
                verdict.is_some_and(|(verdict, units)| {
                    *cost = cost.saturating_add(units);
                    verdict.selects == Ok(true)
                })
            })
        };
        for slice in self.slices_at(node) {
            let pool = self.pool((&slice.spec.driver, &slice.spec.pool.name));
            for (at, device) in slice.spec.devices.iter().enumerate() {
                if slice.allows(device, node) && is_selected(slice, at, &mut found.cost) {
                    found.count += 1;
                    let usage = pool.and_then(|pool| pool.usage(&device.name));
                    found.allocated += i64::from(usage.is_some());
                }
            }
        }
        found
    }
}

/// The devices of a class on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassDevices {
    /// How many there are.
    pub count: i64,
    /// How many of them a claim has.
    pub allocated: i64,
    /// The cost of the selectors that were evaluated for this; 0 if all results were cached.
    pub cost: u64,
}

/// A container with its requests for extended resources.
#[derive(Debug, Clone, Copy)]
pub struct ContainerRequests<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its place among the init containers and then the containers.
    pub place: usize,
    /// Whether it ends before the containers start. Sidecars do not.
    pub ends: bool,
    /// By resource: the place among the container's sorted resources, and the amount.
    pub resources: &'a [(usize, &'a str, u64)],
}

/// Which request serves a container's resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// The container.
    pub container: String,
    /// The extended resource.
    pub resource: String,
    /// The request of the special claim.
    pub request: String,
}

/// The requests of the special claim on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialRequests {
    /// Name, class and count, sorted by name.
    pub requests: Vec<(String, String, u64)>,
    /// Which of them each container has.
    pub mappings: Vec<Mapping>,
}

/// The requests for these resources, which come with their classes. An init container that ends reuses the devices of
/// later containers that stay. The excess is requested once, for the one that needs most.
pub fn special_requests(
    containers: &[ContainerRequests<'_>],
    resources: &BTreeMap<&str, &str>,
) -> SpecialRequests {
    let mut special = SpecialRequests::default();
    for (resource, class) in resources {
        of_resource(containers, (resource, class), &mut special);
    }
    special.requests.sort();
    special
}

/// The special claim of a pod with this UID, with a name that is only shown.
pub fn special_claim((pod, name): (&str, &str), special: &SpecialRequests) -> ResourceClaim {
    let requests = special.requests.iter();
    let requests = requests.map(|(name, class, count)| DeviceRequest {
        name: name.clone(),
        exactly: Some(RequestedDevices {
            device_class_name: class.clone(),
            count: Some(i64::try_from(*count).unwrap_or(i64::MAX)),
            ..RequestedDevices::default()
        }),
        first_available: Vec::new(),
    });
    let mut claim = ResourceClaim {
        metadata: Metadata {
            name: name.to_owned(),
            uid: pod.into(),
            ..Metadata::default()
        },
        ..ResourceClaim::default()
    };
    claim.spec.devices.requests = requests.collect();
    claim
}

/// A container that requests the resource: the name of its request, and the amount.
struct Wanting<'a> {
    container: &'a ContainerRequests<'a>,
    request: String,
    amount: u64,
}

fn of_resource(
    containers: &[ContainerRequests<'_>],
    (resource, class): (&str, &str),
    special: &mut SpecialRequests,
) {
    let wanting = containers.iter().filter_map(|container| {
        let mut resources = container.resources.iter();
        let (place, _, amount) = resources.find(|(_, name, _)| *name == resource)?;
        (*amount > 0).then(|| Wanting {
            container,
            request: format!("container-{}-request-{place}", container.place),
            amount: *amount,
        })
    });
    let (ending, staying): (Vec<Wanting<'_>>, Vec<Wanting<'_>>) =
        wanting.partition(|wanting| wanting.container.ends);
    let mapping = |container: &ContainerRequests<'_>, request: &str| Mapping {
        container: container.name.to_owned(),
        resource: resource.to_owned(),
        request: request.to_owned(),
    };
    for wanting in &staying {
        let name = wanting.request.clone();
        special
            .requests
            .push((name, class.to_owned(), wanting.amount));
        special
            .mappings
            .push(mapping(wanting.container, &wanting.request));
    }
    // The requests that each reuses, and the amount beyond them.
    let reuse = |wanting: &Wanting<'_>| {
        let mut sum = 0_u64;
        let later = staying
            .iter()
            .filter(|other| other.container.place > wanting.container.place);
        let reused = later.take_while(|other| {
            let needed = sum < wanting.amount;
            sum = sum.saturating_add(other.amount);
            needed
        });
        let reused: Vec<&str> = reused.map(|other| other.request.as_str()).collect();
        let later = staying
            .iter()
            .filter(|other| other.container.place > wanting.container.place);
        let there = later.fold(0_u64, |sum, other| sum.saturating_add(other.amount));
        (reused, wanting.amount.saturating_sub(there))
    };
    let excess = |wanting: &Wanting<'_>| reuse(wanting).1;
    let mut most: Option<(&Wanting<'_>, u64)> = None;
    for wanting in &ending {
        let excess = excess(wanting);
        if excess > most.map_or(0, |(_, most)| most) {
            most = Some((wanting, excess));
        }
    }
    if let Some((wanting, count)) = most {
        let name = wanting.request.clone();
        special.requests.push((name, class.to_owned(), count));
    }
    for wanting in &ending {
        let (requests, excess) = reuse(wanting);
        for request in requests {
            special.mappings.push(mapping(wanting.container, request));
        }
        if let Some((most, _)) = most.filter(|_| excess > 0) {
            special
                .mappings
                .push(mapping(wanting.container, &most.request));
        }
    }
}
