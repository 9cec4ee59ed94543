//! `VolumeBinding`: volumes that cannot be reached from everywhere, and claims that get theirs where the pod goes.

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
    /// Those that want least first.
    waiting: Box<[Waiting]>,
}

/// A claim whose volume cannot be reached from everywhere.
struct Bound {
    claim: String,
    affinity: NodeSelector,
}

/// A claim that gets its volume where the pod goes.
struct Waiting {
    claim: String,
    requested: i64,
    /// Where its volume is being made already.
    selected_node: Option<Symbol>,
    /// Volumes that would do where they can be reached, the smallest first.
    volumes: Box<[(Symbol, Option<NodeSelector>)]>,
    /// Whether one can be made.
    can_be_made: bool,
    /// And where.
    topologies: Option<NodeSelector>,
    /// Nodes for which enough room is told, where that is asked for.
    room: Option<Box<[Selector]>>,
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
    let waiting = known().filter(|claim| claim.state == ClaimState::Unbound);
    let waiting = waiting.filter_map(|claim| Waiting::new(cluster, claim));
    let mut waiting: Vec<_> = waiting.collect();
    waiting.sort_by_key(|claim| claim.requested);
    let filter = VolumeBinding {
        bound: bound.collect(),
        waiting: waiting.into(),
    };
    let nothing = filter.bound.is_empty() && filter.waiting.is_empty();
    (!nothing).then(|| Box::new(filter) as _)
}

/// What has to be done for the claims of a pod that goes to this node, on which it fits.
pub fn volume_choices(cluster: &Cluster, pod: &Pod, node: NodeId) -> Vec<VolumeChoice> {
    let here = Here::new(cluster, node);
    let known = claims::known(cluster, cluster.template(pod)).map(|(_, claim)| claim);
    let waiting = known.filter(|claim| claim.state == ClaimState::Unbound);
    let waiting = waiting.filter_map(|claim| Some((claim, Waiting::new(cluster, claim)?)));
    let mut waiting: Vec<_> = waiting.collect();
    waiting.sort_by_key(|(_, own)| own.requested);
    let text = |symbol| cluster.symbols().text(symbol).to_owned();
    let mut taken = Vec::new();
    let choices = waiting.into_iter().map(|(claim, own)| {
        let found = match own.selected_node {
            None => own.find(here, &taken),
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

impl Waiting {
    /// `None` for a claim of a class that is not in the input.
    fn new(cluster: &Cluster, claim: &PersistentClaim) -> Option<Self> {
        let storage = cluster.storage();
        let class = storage.classes.get(&claim.class?)?;
        let full_name = claims::full_name(cluster, claim);
        let chosen = cluster.chosen();
        let own = chosen.and_then(|chosen| chosen.of(&full_name));
        // Those that other claims get are as good as gone.
        let is_left = |volume: &str| match (own, chosen) {
            (Some(ChosenVolume::Volume(own)), _) => own == volume,
            (_, Some(chosen)) => !chosen.has_volume(volume),
            (_, None) => true,
        };
        let made_for = match own {
            Some(ChosenVolume::MadeFor(node)) => cluster.symbols().get(node),
            _ => None,
        };
        let same_class = storage.volumes.iter();
        let same_class = same_class.filter(|(_, volume)| volume.class == claim.class);
        let name = |volume: &Symbol| cluster.symbols().text(*volume);
        let mut volumes: Vec<_> = same_class
            .filter(|(_, volume)| suffices(cluster, volume, claim))
            .filter(|(symbol, _)| is_left(name(symbol)))
            .collect();
        // A volume that is promised to it is the only one that will do.
        if volumes.iter().any(|(_, volume)| volume.claim.is_some()) {
            volumes.retain(|(_, volume)| volume.claim.is_some());
        }
        volumes.sort_by_key(|(symbol, volume)| (volume.capacity, name(symbol)));
        let volumes = volumes.into_iter();
        Some(Self {
            claim: full_name,
            requested: claim.requested,
            selected_node: claim.selected_node.or(made_for),
            volumes: volumes
                .map(|(symbol, volume)| (*symbol, volume.affinity.clone()))
                .collect(),
            can_be_made: class.provisioner.is_some(),
            topologies: class.topologies.clone(),
            room: room(cluster, claim, class.provisioner),
        })
    }

    /// A volume for it here that no other claim of the pod has taken.
    fn find(&self, here: Here<'_>, taken: &[Symbol]) -> Option<Symbol> {
        let mut volumes = self.volumes.iter();
        let volume = volumes
            .find(|(symbol, affinity)| !taken.contains(symbol) && reaches(here, affinity.as_ref()));
        volume.map(|(symbol, _)| *symbol)
    }

    /// What keeps its volume from being made here.
    fn why_not_made(&self, here: Here<'_>) -> Option<&'static str> {
        if !self.can_be_made || !reaches(here, self.topologies.as_ref()) {
            return Some(NOTHING_TO_BIND);
        }
        let (symbols, labels) = (here.cluster.symbols(), &here.node.labels);
        let covers = |room: &[Selector]| room.iter().any(|nodes| nodes.matches(symbols, labels));
        let has_room = self.room.as_deref().is_none_or(covers);
        (!has_room).then_some(TOO_LITTLE_ROOM)
    }
}

/// The nodes for which there is enough room for a claim's volume; `None` where the driver does not tell.
fn room(
    cluster: &Cluster,
    claim: &PersistentClaim,
    driver: Option<Symbol>,
) -> Option<Box<[Selector]>> {
    let storage = cluster.storage();
    let tells = driver.and_then(|driver| storage.drivers.get(&driver));
    if tells != Some(&true) || claim.requested == 0 {
        return None;
    }
    let all = storage.capacities.iter().map(|(_, capacity)| capacity);
    let enough = all.filter(|capacity| {
        claim.class == Some(capacity.class)
            && capacity.most.is_some_and(|most| most >= claim.requested)
    });
    Some(enough.map(|capacity| capacity.nodes.clone()).collect())
}

/// Whether a volume would do for a claim, wherever that is used.
fn suffices(cluster: &Cluster, volume: &PersistentVolume, claim: &PersistentClaim) -> bool {
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
    fn out_of_reach(&self, here: Here<'_>) -> Option<&Bound> {
        let mut bound = self.bound.iter();
        bound.find(|bound| !reaches(here, Some(&bound.affinity)))
    }

    /// The first claim that gets no volume here, and why.
    fn unserved(&self, here: Here<'_>) -> Option<(&Waiting, &'static str)> {
        let elsewhere = |claim: &&Waiting| {
            let selected = claim.selected_node;
            selected.is_some_and(|node| node != here.node.name)
        };
        let mut taken = Vec::new();
        let mut why_not = |claim: &Waiting| {
            let found = match claim.selected_node {
                None => claim.find(here, &taken),
                Some(_) => None,
            };
            // Remembering is only needed while there is another claim.
            taken.extend(found.filter(|_| self.waiting.len() > 1));
            match found {
                Some(_) => None,
                None => claim.why_not_made(here),
            }
        };
        let first = self.waiting.iter().find(elsewhere);
        first.map(|claim| (claim, NOTHING_TO_BIND)).or_else(|| {
            let mut all = self.waiting.iter();
            all.find_map(|claim| Some((claim, why_not(claim)?)))
        })
    }
}

impl Filter for VolumeBinding {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let reason = match (self.out_of_reach(here), self.unserved(here)) {
            (None, None) => return Ok(()),
            (Some(_), None) => Reason::Words(OUT_OF_REACH),
            (None, Some((_, why))) => Reason::Words(why),
            (Some(_), Some((_, why))) => Reason::Both(OUT_OF_REACH, why),
        };
        Err(Rejection {
            code: Code::UnschedulableAndUnresolvable,
            reason,
        })
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        if let Some(bound) = self.out_of_reach(here) {
            let values = bound.affinity.values(here.cluster.symbols());
            return Some(super::reach(&bound.claim, &values));
        }
        let (claim, why) = self.unserved(here)?;
        let name = &claim.claim;
        if why == TOO_LITTLE_ROOM {
            return Some(format!("too little storage is left here for volume {name}"));
        }
        Some(match claim.selected_node {
            Some(node) => {
                let node = here.cluster.symbols().text(node);
                format!("volume {name} is being made on {node}")
            }
            None if claim.can_be_made => format!("volume {name} cannot be made here"),
            None => format!("no volume is left here for {name}, and nobody makes one"),
        })
    }
}
