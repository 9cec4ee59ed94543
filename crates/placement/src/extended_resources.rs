//! Extended resources that devices serve instead of a device plugin: a pod's requests for them, and the special claim
//! that they become on a node.

use crate::cluster::Cluster;
use crate::extended_requests::is_extended;
use crate::node::Node;
use crate::pod::Pod;
use crate::resources::find;
use crate::symbol::Symbol;
use evictd_devices::{ContainerRequests, SpecialRequests, special_requests};
use evictd_pod::wire::ResourceClaim;
use std::collections::BTreeMap;

/// The name of the special claim before it is created.
pub const SPECIAL_CLAIM: &str = "<extended-resources>";

/// The most resources of a pod that devices can serve.
const MOST: usize = 64;

/// The extended resources of a pod that have a class.
pub(crate) struct Special {
    /// The resource by name, and its class. Sorted by name.
    resources: Vec<(Symbol, String, String)>,
}

impl Special {
    /// `None` if the pod requests no such resource.
    pub(crate) fn of(cluster: &Cluster, pod: &Pod) -> Option<Self> {
        let known = cluster.devices();
        let requests = &cluster.template(pod).extended;
        if requests.is_empty() {
            return None;
        }
        let scalars = cluster.scalars(pod.amounts.scalars).iter();
        let requested = scalars
            .filter(|(_, amount)| *amount > 0)
            .filter_map(|(symbol, _)| {
                let name = cluster.symbols().text(*symbol);
                let class = known
                    .class_of_resource(name)
                    .filter(|_| is_extended(name))?;
                Some((*symbol, name.to_owned(), class.to_owned()))
            });
        let mut resources: Vec<_> = requested.collect();
        resources.sort_by(|one, other| one.1.cmp(&other.1));
        resources.truncate(MOST);
        (!resources.is_empty()).then_some(Self { resources })
    }

    /// The resources with their classes.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (&str, &str)> {
        let resources = self.resources.iter();
        resources.map(|(_, resource, class)| (resource.as_str(), class.as_str()))
    }

    /// A bit for each resource that devices serve on the node, because it has none of its own.
    pub(crate) fn served_on(&self, cluster: &Cluster, node: &Node) -> u64 {
        let allocatable = cluster.scalars(node.allocatable.scalars);
        let resources = self.resources.iter().enumerate();
        let served = resources.filter(|(_, (symbol, ..))| find(allocatable, *symbol) == 0);
        served.map(|(index, _)| 1 << index).sum()
    }

    /// The requests of the special claim where devices serve these resources.
    pub(crate) fn requests(&self, cluster: &Cluster, pod: &Pod, served: u64) -> SpecialRequests {
        let resources = self.resources.iter().enumerate();
        let resources = resources.filter(|(index, _)| served & (1 << index) != 0);
        let resources: BTreeMap<&str, &str> = resources
            .map(|(_, (_, name, class))| (name.as_str(), class.as_str()))
            .collect();
        let containers = &cluster.template(pod).extended;
        let lists: Vec<Vec<(usize, &str, u64)>> = containers
            .iter()
            .map(|container| {
                let resources = container.resources.iter();
                resources
                    .map(|(place, name, amount)| (*place, &**name, *amount))
                    .collect()
            })
            .collect();
        // Devices know no symbols, so names are handed over.
        let containers: Vec<ContainerRequests<'_>> = containers
            .iter()
            .zip(&lists)
            .map(|(container, resources)| ContainerRequests {
                name: &container.name,
                place: container.place,
                ends: container.ends,
                resources,
            })
            .collect();
        special_requests(&containers, &resources)
    }
}

/// The special claim that an earlier attempt has created for the pod.
pub(crate) fn left_over<'c>(cluster: &'c Cluster, pod: &Pod) -> Option<&'c ResourceClaim> {
    cluster.devices().special_claim(pod.uid())
}

/// Whether devices may serve a resource on this node, so that `NodeResourcesFit` does not count it.
pub(crate) fn is_served(cluster: &Cluster, resource: Symbol) -> bool {
    let name = cluster.symbols().text(resource);
    is_extended(name) && cluster.devices().class_of_resource(name).is_some()
}
