//! `VolumeBinding`: volumes that only some nodes reach, and claims that are bound when their pod is scheduled.

use super::claims;
use super::{Code, Filter, Here, Reason, Rejection};
use crate::cluster::{ChosenVolume, Cluster};
use crate::id::NodeId;
use crate::pod::Pod;
use crate::selector::{NodeSelector, Selector};
use crate::storage::{ClaimState, PersistentClaim, PersistentVolume};
use crate::symbol::Symbol;
use crate::volumes::VolumeChoice;

const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
const TOO_LITTLE_ROOM: &str = "node(s) did not have enough free storage";
const NOTHING_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";

struct VolumeBinding {
    bound: Box<[Bound]>,
    /// Delayed claims, the smallest request first.
    delayed: Box<[DelayedClaim]>,
}

/// A claim whose bound volume is reachable from some nodes only.
struct Bound {
    claim: String,
    affinity: NodeSelector,
}

/// A claim that waits for its first consumer.
pub(crate) struct DelayedClaim {
    claim: String,
    pub(crate) class: Symbol,
    pub(crate) requested: i64,
    /// The node on which its volume is being provisioned.
    pub(crate) selected_node: Option<Symbol>,
    /// Volumes that match the claim where they are reachable, the smallest first.
    volumes: Box<[(Symbol, Option<NodeSelector>)]>,
    /// Whether a volume can be provisioned.
    can_be_provisioned: bool,
    /// The nodes where it can be provisioned.
    topologies: Option<NodeSelector>,
    /// The nodes with enough storage capacity, if the driver publishes capacities.
    capacity_nodes: Option<Box<[CapacityNodes]>>,
}

/// Nodes with enough storage capacity.
struct CapacityNodes {
    nodes: Selector,
    /// Bytes that are left there; `None` is unknown.
    total: Option<i64>,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let known = || claims::known(cluster, cluster.template(pod)).map(|(_, claim)| claim);
    let bound = known().filter(|claim| claim.state == ClaimState::Bound);
    let bound = bound.filter_map(|claim| {
        let volume = claims::volume(cluster, claim)?;
        Some(Bound {
            claim: claims::full_name(cluster, claim),
            affinity: volume.affinity.clone()?,
        })
    });
    let filter = VolumeBinding {
        bound: bound.collect(),
        delayed: delayed(cluster, pod),
    };
    let nothing = filter.bound.is_empty() && filter.delayed.is_empty();
    (!nothing).then(|| Box::new(filter) as _)
}

/// The claims of a pod that wait for it. The smallest comes first, as in kube-scheduler: a large volume is left for a large claim.
pub(crate) fn delayed(cluster: &Cluster, pod: &Pod) -> Box<[DelayedClaim]> {
    let known = claims::known(cluster, cluster.template(pod)).map(|(_, claim)| claim);
    let delayed = known.filter(|claim| claim.state == ClaimState::Unbound);
    let delayed = delayed.filter_map(|claim| DelayedClaim::new(cluster, claim));
    let mut delayed: Vec<_> = delayed.collect();
    delayed.sort_by_key(|claim| claim.requested);
    delayed.into()
}

/// The claim updates for a pod that fits on this node.
pub fn volume_choices(cluster: &Cluster, pod: &Pod, node: NodeId) -> Vec<VolumeChoice> {
    let here = Here::new(cluster, node);
    let known = claims::known(cluster, cluster.template(pod)).map(|(_, claim)| claim);
    let delayed = known.filter(|claim| claim.state == ClaimState::Unbound);
    let delayed = delayed.filter_map(|claim| Some((claim, DelayedClaim::new(cluster, claim)?)));
    let mut delayed: Vec<_> = delayed.collect();
    delayed.sort_by_key(|(_, delayed)| delayed.requested);
    let text = |symbol| cluster.symbols().text(symbol).to_owned();
    let mut taken = Vec::new();
    let choices = delayed.into_iter().map(|(claim, delayed)| {
        let found = match delayed.selected_node {
            // A claim with a selected node is being provisioned, so no existing volume is looked for.
            None => delayed.find(here, &taken),
            Some(_) => None,
        };
        taken.extend(found);
        let claim = text(claim.name);
        match found {
            Some(volume) => VolumeChoice::Bind {
                claim,
                volume: text(volume),
            },
            None => VolumeChoice::Provision { claim },
        }
    });
    choices.collect()
}

fn reaches(here: Here<'_>, affinity: Option<&NodeSelector>) -> bool {
    let (node, symbols) = (here.node, here.cluster.symbols());
    affinity.is_none_or(|affinity| affinity.matches(symbols, node.name, &node.labels))
}

impl DelayedClaim {
    /// `None` if the input does not hold the claim's class.
    fn new(cluster: &Cluster, claim: &PersistentClaim) -> Option<Self> {
        let storage = cluster.storage();
        let class = storage.classes.get(&claim.class?)?;
        let full_name = claims::full_name(cluster, claim);
        let chosen = cluster.chosen();
        let choice = chosen.and_then(|chosen| chosen.of(&full_name));
        // Volumes that other claims have chosen are not available.
        let is_available = |volume: &str| match (choice, chosen) {
            (Some(ChosenVolume::Volume(choice)), _) => choice == volume,
            (_, Some(chosen)) => !chosen.has_volume(volume),
            (_, None) => true,
        };
        let provisioned_on = match choice {
            Some(ChosenVolume::ProvisionedOn(node)) => cluster.symbols().get(node),
            _ => None,
        };
        let same_class = storage.volumes.iter();
        let same_class = same_class.filter(|(_, volume)| volume.class == claim.class);
        let name = |volume: &Symbol| cluster.symbols().text(*volume);
        let mut volumes: Vec<_> = same_class
            .filter(|(_, volume)| matches_claim(cluster, volume, claim))
            .filter(|(symbol, _)| is_available(name(symbol)))
            .collect();
        // A volume with a `claimRef` to this claim is the only match.
        if volumes.iter().any(|(_, volume)| volume.claim.is_some()) {
            volumes.retain(|(_, volume)| volume.claim.is_some());
        }
        // The smallest that suffices is taken; the name makes the choice the same each time.
        volumes.sort_by_key(|(symbol, volume)| (volume.capacity, name(symbol)));
        let volumes = volumes.into_iter();
        Some(Self {
            claim: full_name,
            class: claim.class?,
            requested: claim.requested,
            selected_node: claim.selected_node.or(provisioned_on),
            volumes: volumes
                .map(|(symbol, volume)| (*symbol, volume.affinity.clone()))
                .collect(),
            can_be_provisioned: class.provisioner.is_some(),
            topologies: class.topologies.clone(),
            capacity_nodes: capacity_nodes(cluster, claim, class.provisioner),
        })
    }

    /// A reachable volume that no other claim of the pod uses.
    pub(crate) fn find(&self, here: Here<'_>, taken: &[Symbol]) -> Option<Symbol> {
        let mut volumes = self.volumes.iter();
        let volume = volumes
            .find(|(symbol, affinity)| !taken.contains(symbol) && reaches(here, affinity.as_ref()));
        volume.map(|(symbol, _)| *symbol)
    }

    /// Why no volume can be provisioned here.
    fn provisioning_problem(&self, here: Here<'_>) -> Option<&'static str> {
        if !self.can_be_provisioned || !reaches(here, self.topologies.as_ref()) {
            return Some(NOTHING_TO_BIND);
        }
        let has_capacity = self.capacity_nodes.is_none() || self.capacities(here).next().is_some();
        (!has_capacity).then_some(TOO_LITTLE_ROOM)
    }

    /// The published capacities that suffice here.
    fn capacities<'s>(&'s self, here: Here<'s>) -> impl Iterator<Item = &'s CapacityNodes> {
        let (symbols, labels) = (here.cluster.symbols(), &here.node.labels);
        let all = self.capacity_nodes.iter().flatten();
        all.filter(|capacity| capacity.nodes.matches(symbols, labels))
    }

    /// The bytes that are left here for volumes of its class; of several figures the largest. `None` if none is published.
    pub(crate) fn room(&self, here: Here<'_>) -> Option<i64> {
        let figures = self.capacities(here);
        figures.filter_map(|capacity| capacity.total).max()
    }
}

/// The nodes with enough storage capacity for the claim; `None` if the driver publishes no capacities.
fn capacity_nodes(
    cluster: &Cluster,
    claim: &PersistentClaim,
    driver: Option<Symbol>,
) -> Option<Box<[CapacityNodes]>> {
    let storage = cluster.storage();
    let driver = driver.and_then(|driver| storage.drivers.get(&driver));
    // A driver that publishes no capacity is trusted to provision anywhere.
    if !driver.is_some_and(|driver| driver.publishes_capacity) || claim.requested == 0 {
        return None;
    }
    let all = storage.capacities.iter().map(|(_, capacity)| capacity);
    let enough = all.filter(|capacity| {
        claim.class == Some(capacity.class)
            && capacity
                .largest_volume
                .is_some_and(|largest_volume| largest_volume >= claim.requested)
    });
    let nodes = enough.map(|capacity| CapacityNodes {
        nodes: capacity.nodes.clone(),
        total: capacity.total,
    });
    Some(nodes.collect())
}

/// Whether a volume matches a claim, regardless of the node.
fn matches_claim(cluster: &Cluster, volume: &PersistentVolume, claim: &PersistentClaim) -> bool {
    let selector = claim.selector.as_ref();
    let selected = |selector: &Selector| selector.matches(cluster.symbols(), &volume.labels);
    let fits = volume.capacity >= claim.requested
        && volume.is_block == claim.is_block
        && !volume.is_terminating;
    fits && match volume.claim {
        Some(promised) => promised == (claim.namespace, claim.name),
        None => {
            volume.is_available
                && selector.is_none_or(selected)
                && volume.access.covers(claim.access)
        }
    }
}

impl VolumeBinding {
    fn unreachable(&self, here: Here<'_>) -> Option<&Bound> {
        let mut bound = self.bound.iter();
        bound.find(|bound| !reaches(here, Some(&bound.affinity)))
    }

    /// The first claim without a volume here, and why.
    fn unbound(&self, here: Here<'_>) -> Option<(&DelayedClaim, &'static str)> {
        let elsewhere = |claim: &&DelayedClaim| {
            let selected = claim.selected_node;
            selected.is_some_and(|node| node != here.node.name)
        };
        let mut taken = Vec::new();
        let mut why_not = |claim: &DelayedClaim| {
            let found = match claim.selected_node {
                None => claim.find(here, &taken),
                Some(_) => None,
            };
            // A single claim needs no record of used volumes.
            taken.extend(found.filter(|_| self.delayed.len() > 1));
            match found {
                Some(_) => None,
                None => claim.provisioning_problem(here),
            }
        };
        let first = self.delayed.iter().find(elsewhere);
        first.map(|claim| (claim, NOTHING_TO_BIND)).or_else(|| {
            let mut all = self.delayed.iter();
            all.find_map(|claim| Some((claim, why_not(claim)?)))
        })
    }
}

impl Filter for VolumeBinding {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let reason = match (self.unreachable(here), self.unbound(here)) {
            (None, None) => return Ok(()),
            (Some(_), None) => Reason::Message(OUT_OF_REACH),
            (None, Some((_, why))) => Reason::Message(why),
            (Some(_), Some((_, why))) => Reason::Messages(OUT_OF_REACH, why),
        };
        Err(Rejection {
            code: Code::UnschedulableAndUnresolvable,
            reason,
        })
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        if let Some(bound) = self.unreachable(here) {
            let values = bound.affinity.values(here.cluster.symbols());
            return Some(super::reach(&bound.claim, &values));
        }
        let (claim, why) = self.unbound(here)?;
        let name = &claim.claim;
        if why == TOO_LITTLE_ROOM {
            return Some(format!("too little storage is left here for volume {name}"));
        }
        Some(match claim.selected_node {
            Some(node) => {
                let node = here.cluster.symbols().text(node);
                format!("volume {name} is being made on {node}")
            }
            None if claim.can_be_provisioned => format!("volume {name} cannot be made here"),
            None => format!("no volume is left here for {name}, and no provisioner makes one"),
        })
    }
}
