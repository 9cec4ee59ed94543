//! `DynamicResources`: the node can serve the pod's unallocated claims, and the allocated devices are usable there.

mod freed;
mod group;
mod nominated;

pub use self::freed::FreedClaims;
pub use self::group::share_claims_of_group;

use self::freed::Freed;
use self::nominated::NominatedPods;
use super::{Code, Filter, Here, Reason, Rejection};
use crate::cluster::{Cluster, NodeView};
use crate::devices::DeviceChoice;
use crate::extended_resources::{SPECIAL_CLAIM, Special, left_over};
use crate::id::NodeId;
use crate::interrupt::INTERRUPTED;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::ClaimSource;
use evictd_devices::{
    Demand, Problem, SpecialRequests, Without, needs_binding, preference, selects, special_claim,
    special_key,
};
use evictd_pod::resource_claims::{ClaimUser, PodClaim, StoredClaim};
use evictd_pod::wire::{Allocation, NodeSelector, ResourceClaim};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const NOT_ENOUGH: &str = "cannot allocate all claims";
/// The message of a node whose device search was interrupted. The next attempt continues it.
pub const DEVICES_GO_ON: &str = "the search for devices goes on with the next attempt";
/// Obstacles where the search reached a limit of cost.
const NOT_FOUND_OUT: &str =
    "too few devices are free; what is short was not found out within the limit of cost";
const GIVEN_UP: &str = "the search for devices was given up at its limit of cost: selectors are costly, or constraints and \
    counters leave too many ways to try; fewer devices in one claim or cheaper selectors help";
const UNFINISHED: &str = "the selectors of the claims cost more than one attempt may; the search goes on with the next attempt";
/// The message of a node whose device search reached the limit of cost: that of kube-scheduler, which has one of time.
pub const DEVICES_GIVEN_UP: &str = "timed out trying to allocate devices";
const NOT_HERE: &str = "resourceclaim not available on the node";
const LEFT_OVER: &str = "cannot schedule extended resource claim";

/// The claims of a pod, in the order of its spec.
///
/// # Errors
/// The problem with one of them.
fn claims<'c>(cluster: &'c Cluster, pod: &Pod) -> Result<Vec<&'c ResourceClaim>, String> {
    let template = cluster.template(pod);
    if template.device_claims.is_empty() {
        return Ok(Vec::new());
    }
    let symbols = cluster.symbols();
    let namespace = symbols.text(template.namespace);
    let user = ClaimUser {
        namespace,
        name: pod.name(),
        uid: pod.uid(),
        group: group::name_of(cluster, pod),
    };
    let claims = template.device_claims.iter().filter_map(|claim| {
        let claim = match claim.claim {
            ClaimSource::Shared(name) => PodClaim::Shared(symbols.text(name)),
            ClaimSource::Own(name) => PodClaim::Own(symbols.text(name)),
            ClaimSource::NotMade => PodClaim::NotMade,
            ClaimSource::Unknown(name) => PodClaim::Unknown(symbols.text(name)),
        };
        let known = claim.name();
        let known = known.and_then(|name| cluster.devices().claim(namespace, name));
        let stored = known.map(|known| StoredClaim::of(&known.metadata));
        match claim.problem(user, stored) {
            Some(problem) => Some(Err(problem)),
            None => known.map(Ok),
        }
    });
    claims.collect()
}

/// The claims of a pod, and at last its special claim if an earlier attempt has created one. Nothing after a problem.
fn claims_and_special<'c>(
    cluster: &'c Cluster,
    pod: &Pod,
) -> impl Iterator<Item = &'c ResourceClaim> {
    let special = Special::of(cluster, pod).and_then(|_| left_over(cluster, pod));
    let claims = claims(cluster, pod).ok();
    claims
        .into_iter()
        .flat_map(move |claims| claims.into_iter().chain(special))
}

/// The devices of a claim: its allocation, or those assumed for another pod of the same gang.
fn allocation<'c>(cluster: &'c Cluster, claim: &'c ResourceClaim) -> Option<&'c Allocation> {
    let allocated = claim.status.allocation.as_ref();
    allocated.or_else(|| Some(cluster.devices().shared(&claim.metadata.uid)?.0))
}

/// How many pods can reserve a claim (API limit).
const MOST_CONSUMERS: usize = 256;

/// Whether a claim that pods of this gang share is reserved by the maximum number of pods. kube-scheduler leaves that to the
/// API server, but here no pod of the gang would be bound.
fn is_full(cluster: &Cluster, pod: &Pod, claim: &ResourceClaim) -> bool {
    let reserved = &claim.status.reserved_for;
    let coming = cluster.devices().shared(&claim.metadata.uid);
    coming.is_some_and(|(_, pods)| reserved.len() + pods >= MOST_CONSUMERS)
        && group::consumer(cluster, pod, &claim.metadata.name).is_none()
        && reserved
            .iter()
            .all(|consumer| !group::is_user(cluster, pod, consumer))
}

/// The `DynamicResources` score of the claims that are allocated already.
pub(crate) fn preference_of_allocated(cluster: &Cluster, pod: &Pod) -> i64 {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let allocated = claims.filter_map(|claim| Some(preference(claim, allocation(cluster, claim)?)));
    allocated.sum()
}

/// Whether a claim of the pod lists alternatives, so that nodes can differ in their score.
pub(crate) fn has_alternatives(cluster: &Cluster, pod: &Pod) -> bool {
    let claims = claims(cluster, pod).unwrap_or_default();
    let mut requests = claims.iter().flat_map(|claim| &claim.spec.devices.requests);
    requests.any(|request| !request.first_available.is_empty())
}

/// The claims of a pod that need devices.
///
/// # Errors
/// Why no node can serve the pod now.
pub(crate) fn demand(cluster: &Cluster, pod: &Pod) -> Result<Demand, String> {
    let known = cluster.devices();
    let claims = claims(cluster, pod)?;
    if claims.iter().any(|claim| is_full(cluster, pod, claim)) {
        return Err("resourceclaim in use".to_owned());
    }
    let waiting = claims
        .iter()
        .filter(|claim| allocation(cluster, claim).is_none());
    let waiting: Vec<_> = waiting.collect();
    if let Some(claim) = waiting
        .iter()
        .find(|claim| known.is_assumed(&claim.metadata.uid))
    {
        let name = claim.metadata.full_name();
        return Err(format!(
            "resource claim {name} is in the process of being allocated"
        ));
    }
    let namespace = cluster.symbols().text(cluster.template(pod).namespace);
    let names = waiting.iter().map(|claim| claim.metadata.name.as_str());
    Demand::new(known, namespace, names)
}

/// Whether the pod has claims, also a special one for extended resources.
pub fn has_claims(cluster: &Cluster, pod: &Pod) -> bool {
    !cluster.template(pod).device_claims.is_empty() || Special::of(cluster, pod).is_some()
}

/// The special claim that an earlier attempt has left. It must be deleted before the pod can be tried, also if it has devices.
pub fn left_over_claim<'c>(cluster: &'c Cluster, pod: &Pod) -> Option<&'c ResourceClaim> {
    Special::of(cluster, pod)?;
    left_over(cluster, pod)
}

struct Devices {
    namespace: Symbol,
    demand: Demand,
    /// The extended resources that devices may serve, unless an earlier attempt has allocated them.
    special: Option<Special>,
    pod: Pod,
    /// The demand with the special claim, by the resources that devices serve.
    with_special: Mutex<BTreeMap<u64, Arc<Demand>>>,
    /// Whether a special claim was left over.
    is_left_over: bool,
    reaches: Vec<NodeSelector>,
    /// Whether a claim has devices that cannot be bound.
    has_failed: bool,
    /// The devices that removed pods give back, if they do.
    freed: Option<Freed>,
    /// The pods for which devices are kept.
    nominated: NominatedPods,
}

/// A claim's namespace and name.
type ClaimName = (String, String);

fn claim_of<'c>(cluster: &'c Cluster, (namespace, name): &ClaimName) -> Option<&'c ResourceClaim> {
    cluster.devices().claim(namespace, name)
}

impl Devices {
    fn of(cluster: &Cluster, pod: &Pod) -> Option<Self> {
        let special = Special::of(cluster, pod);
        if cluster.template(pod).device_claims.is_empty() && special.is_none() {
            return None;
        }
        // On an error PreFilter has rejected the pod, or the claim counts as unchecked.
        let demand = demand(cluster, pod).ok()?;
        let known = special.as_ref().and_then(|_| left_over(cluster, pod));
        let allocated = claims_and_special(cluster, pod);
        let allocated = allocated.filter_map(|claim| Some((claim, allocation(cluster, claim)?)));
        let mut reaches = Vec::new();
        let mut has_failed = false;
        for (claim, allocation) in allocated {
            has_failed |= cluster.devices().has_failed_binding(claim, allocation);
            reaches.extend(allocation.node_selector.clone());
        }
        let is_left_over = known.is_some();
        let special = special.filter(|_| known.is_none());
        let nothing = demand.is_empty()
            && special.is_none()
            && reaches.is_empty()
            && !has_failed
            && !is_left_over;
        (!nothing).then(|| Self {
            namespace: cluster.template(pod).namespace,
            demand,
            special,
            pod: pod.clone(),
            with_special: Mutex::default(),
            is_left_over,
            reaches,
            has_failed,
            freed: None,
            nominated: NominatedPods::default(),
        })
    }

    /// Whether it needs devices that it does not have yet.
    fn needs_some(&self) -> bool {
        !self.demand.is_empty() || self.special.is_some()
    }

    /// The demand on this node, with the requests of the special claim.
    fn on(&self, here: Here<'_>) -> (Option<Arc<Demand>>, Option<SpecialRequests>) {
        let Some(special) = &self.special else {
            return (None, None);
        };
        let served = special.served_on(here.cluster, here.node);
        if served == 0 {
            return (None, None);
        }
        let requests = special.requests(here.cluster, &self.pod, served);
        let mut known = self
            .with_special
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let demand = known.entry(served).or_insert_with(|| {
            let claim = special_claim((self.pod.uid(), SPECIAL_CLAIM), &requests);
            Arc::new(self.demand.with(here.cluster.devices(), claim))
        });
        (Some(Arc::clone(demand)), Some(requests))
    }

    /// The allocations on a node, and the requests of the special claim.
    fn allocate(
        &self,
        here: Here<'_>,
    ) -> Result<(Vec<Allocation>, Option<SpecialRequests>), Problem> {
        let (demand, special) = self.on(here);
        let demand = demand.as_deref().unwrap_or(&self.demand);
        let allocations = demand.allocate(here.cluster.devices(), &node_view(here))?;
        Ok((allocations, special))
    }
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let devices = Devices::of(cluster, pod)?;
    let nominated = NominatedPods::new(cluster);
    Some(Box::new(Devices {
        nominated,
        ..devices
    }))
}

fn node_view(here: Here<'_>) -> NodeView<'_> {
    NodeView {
        symbols: here.cluster.symbols(),
        node: here.node,
    }
}

/// Whether a node is rejected for devices that another pod may give back.
pub(super) fn is_for_devices(reason: Reason) -> bool {
    reason == Reason::Message(NOT_ENOUGH)
}

impl Filter for Devices {
    fn changes(&self) -> bool {
        self.freed.is_some() || self.nominated.is_awaited()
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn free_devices(&mut self, cluster: &Cluster) -> bool {
        self.freed = self.needs_some().then(|| Freed::new(cluster, &self.pod));
        self.freed.is_some()
    }

    fn enter(&mut self, here: Here<'_>) {
        self.nominated.reset(here.cluster);
        if let Some(freed) = &mut self.freed {
            freed.reset(here.cluster);
        }
    }

    fn change(&mut self, here: Here<'_>, pod: &Pod, times: i64) {
        self.nominated.change(here, &self.pod, pod, times);
        if let Some(freed) = &mut self.freed {
            freed.change(here.cluster, pod, times);
        }
    }

    /// A nominated pod has no devices yet, but it may wait for those of its victims.
    fn visit(&mut self, here: Here<'_>, pod: &Pod) {
        self.nominated.add(here, &self.pod, pod);
    }

    fn end_visit(&mut self, _here: Here<'_>, _pod: &Pod) {
        self.nominated.clear();
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let node = node_view(here);
        if self.is_left_over {
            return Err(Rejection::unresolvable(LEFT_OVER));
        }
        let (special, _) = self.on(here);
        let demand = special.as_deref().unwrap_or(&self.demand);
        if !demand.is_empty() {
            // Searching one node may take as long as all other filters on a thousand nodes.
            let interrupt = here.cluster.interrupt();
            if interrupt.look() {
                return Err(Rejection::unresolvable(INTERRUPTED));
            }
            let left = interrupt.left_for_devices(self.namespace);
            let known = here.cluster.devices();
            let (found, cost) = match &self.freed {
                Some(freed) => {
                    let (found, cost) =
                        demand.allocate_without(known, freed.without(), &node, left);
                    (found.map(|_| ()), cost)
                }
                None => demand.fits_within(known, &node, left),
            };
            interrupt.charge_devices(self.namespace, cost);
            found.map_err(|problem| rejection(&problem))?;
            self.leaves_room(here, demand)?;
        }
        if !self.has_failed && self.reaches.iter().all(|selector| selects(selector, &node)) {
            return Ok(());
        }
        Err(Rejection {
            code: Code::UnschedulableAndUnresolvable,
            reason: Reason::Message(NOT_HERE),
        })
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let interrupt = here.cluster.interrupt();
        if interrupt.look() {
            return None;
        }
        let (special, _) = self.on(here);
        let demand = special.as_deref().unwrap_or(&self.demand);
        let (known, node) = (here.cluster.devices(), node_view(here));
        let left = || interrupt.left_for_devices(self.namespace);
        let (found, cost) = demand.allocate_within(known, &node, left());
        interrupt.charge_devices(self.namespace, cost);
        match found {
            Err(
                Problem::PoolInUpdate(detail)
                | Problem::Constraint(detail)
                | Problem::Selector(detail)
                | Problem::Claim(detail),
            ) => Some(detail),
            Err(Problem::NotEnough | Problem::InvalidPools) => {
                let (shortage, cost) = demand.shortage(known, &node, left());
                interrupt.charge_devices(self.namespace, cost);
                Some(shortage.unwrap_or_else(|| NOT_FOUND_OUT.to_owned()))
            }
            Err(Problem::TooExpensive) => Some(GIVEN_UP.to_owned()),
            Err(Problem::Interrupted) => Some(UNFINISHED.to_owned()),
            Ok(_) => self.unusable(here),
        }
    }
}

impl Devices {
    /// Whether nominated pods still find the devices that they wait for.
    fn leaves_room(&self, here: Here<'_>, demand: &Demand) -> Result<(), Rejection> {
        if self.nominated.is_empty() {
            return Ok(());
        }
        let interrupt = here.cluster.interrupt();
        let mut left = |namespace, cost| {
            interrupt.charge_devices(namespace, cost);
            interrupt.left_for_devices(namespace)
        };
        let (known, nothing) = (here.cluster.devices(), Without::default());
        let without = self.freed.as_ref().map_or(&nothing, Freed::without);
        let (found, cost) =
            demand.allocate_without(known, without, &node_view(here), left(self.namespace, 0));
        left(self.namespace, cost);
        let allocations = found.map_err(|problem| rejection(&problem))?;
        if self
            .nominated
            .have_room_beside(here, &allocations, &mut left)
        {
            Ok(())
        } else {
            Err(Rejection::unresolvable(NOT_ENOUGH))
        }
    }
}

/// The most devices that are named of a claim.
const NAMED: usize = 4;

impl Devices {
    /// The allocated claims of the pod whose devices cannot be used on this node.
    fn unusable(&self, here: Here<'_>) -> Option<String> {
        let claims = claims_and_special(here.cluster, &self.pod);
        let lines = claims.filter_map(|claim| {
            let allocation = allocation(here.cluster, claim)?;
            let has_failed = here.cluster.devices().has_failed_binding(claim, allocation);
            let reach = allocation.node_selector.as_ref();
            let is_here = reach.is_none_or(|reach| selects(reach, &node_view(here)));
            let why = match (has_failed, is_here) {
                (true, _) => "which their driver cannot bind",
                (false, false) => "which this node cannot use",
                (false, true) => return None,
            };
            let devices = allocation.devices.results.iter().take(NAMED);
            let devices = devices.map(|result| format!("{} of {}", result.device, result.pool));
            let devices = devices.collect::<Vec<_>>().join(", ");
            let mut others = claim.status.reserved_for.iter();
            let others = others.any(|consumer| !group::is_user(here.cluster, &self.pod, consumer));
            let until = if others {
                "until its other pods end"
            } else {
                "until it is deallocated"
            };
            let name = claim.metadata.full_name();
            Some(format!("claim {name} has {devices}, {why}, {until}"))
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

/// The rejection of a node. An error, which ends the whole attempt of kube-scheduler, rejects one node only, because other
/// nodes need not suffer.
const fn rejection(problem: &Problem) -> Rejection {
    let (code, message) = match problem {
        Problem::NotEnough => (Code::UnschedulableAndUnresolvable, NOT_ENOUGH),
        Problem::InvalidPools => (
            Code::UnschedulableAndUnresolvable,
            "invalid resource pools were encountered",
        ),
        Problem::PoolInUpdate(_) => (
            Code::Error,
            "resource pool is currently being updated or invalid",
        ),
        Problem::Constraint(_) => (Code::Error, "a claim constraint would not be satisfied"),
        Problem::Selector(_) => (Code::Error, "a selector of devices cannot be evaluated"),
        Problem::Claim(_) => (Code::Error, "a resource claim cannot be allocated"),
        Problem::TooExpensive => (Code::Error, DEVICES_GIVEN_UP),
        Problem::Interrupted => (Code::UnschedulableAndUnresolvable, DEVICES_GO_ON),
    };
    Rejection {
        code,
        reason: Reason::Message(message),
    }
}

/// The claim updates for a pod that fits on this node.
pub fn device_choices(cluster: &Cluster, pod: &Pod, node: NodeId) -> Vec<DeviceChoice> {
    let Some(devices) = Devices::of(cluster, pod) else {
        return reservations(cluster, pod, Vec::new());
    };
    let found = devices.allocate(Here::new(cluster, node));
    let (mut allocations, special) = found.unwrap_or_default();
    // The special claim is the last one.
    let special = special.and_then(|requests| {
        let allocation = allocations.pop()?;
        Some(DeviceChoice {
            claim: SPECIAL_CLAIM.to_owned(),
            uid: special_key(pod.uid()),
            group: None,
            needs_binding: needs_binding(&allocation),
            allocation: Some(allocation),
            special: Some(requests),
        })
    });
    let mut choices = reservations(cluster, pod, allocations);
    choices.extend(special);
    choices
}

/// The updates of the pod's claims. The allocations come in the order of the unallocated claims. A special claim of an earlier
/// attempt is one of them: after a restart its devices may still have to be bound.
fn reservations(cluster: &Cluster, pod: &Pod, allocations: Vec<Allocation>) -> Vec<DeviceChoice> {
    let mut allocations = allocations.into_iter();
    let claims = claims_and_special(cluster, pod);
    let choices = claims.filter_map(|claim| {
        let shared = cluster.devices().shared(&claim.metadata.uid);
        let allocation = match (&claim.status.allocation, shared) {
            (Some(_), _) => None,
            (None, Some((shared, _))) => Some(shared.clone()),
            (None, None) => allocations.next(),
        };
        let devices = allocation.as_ref().or(claim.status.allocation.as_ref());
        let needs_binding = devices.is_some_and(needs_binding);
        let mut reserved = claim.status.reserved_for.iter();
        let is_reserved = reserved.any(|consumer| group::is_user(cluster, pod, consumer));
        if allocation.is_none() && is_reserved && !needs_binding {
            return None;
        }
        Some(DeviceChoice {
            claim: claim.metadata.name.clone(),
            uid: claim.metadata.uid.to_string(),
            allocation,
            group: group::consumer(cluster, pod, &claim.metadata.name).cloned(),
            needs_binding,
            special: None,
        })
    });
    choices.collect()
}

/// The pod's claims, by UID, that are assumed for pods of the same gang and usable only on some nodes. Each comes with
/// these nodes.
pub fn shared_claims(cluster: &Cluster, pod: &Pod) -> Vec<(String, Vec<NodeId>)> {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let shared = claims.filter_map(|claim| {
        let uid = &claim.metadata.uid;
        let (allocation, _) = cluster.devices().shared(uid)?;
        let reach = allocation.node_selector.as_ref()?;
        let nodes = cluster.node_ids();
        let nodes = nodes.filter(|node| selects(reach, &node_view(Here::new(cluster, *node))));
        Some((uid.to_string(), nodes.collect()))
    });
    shared.collect()
}

/// An allocated claim that keeps the pod off these nodes, and that no other pod has reserved; the group of the pod may have.
/// Deallocating it, or deleting a special one, lets the pod be scheduled.
pub fn unavailable_claim<'c>(
    cluster: &'c Cluster,
    pod: &Pod,
    nodes: impl Iterator<Item = (NodeId, Reason)>,
) -> Option<&'c ResourceClaim> {
    // Where devices are missing, kube-scheduler does not look at the claims that have some.
    let nodes = nodes.filter(|(_, reason)| *reason == Reason::Message(NOT_HERE));
    let nodes: Vec<NodeId> = nodes.map(|(node, _)| node).collect();
    claims_and_special(cluster, pod).find(|claim| {
        let Some(allocation) = &claim.status.allocation else {
            return false;
        };
        let has_failed =
            cluster.devices().has_failed_binding(claim, allocation) && !nodes.is_empty();
        let elsewhere = allocation.node_selector.as_ref().is_some_and(|reach| {
            let mut nodes = nodes.iter();
            nodes.any(|node| !selects(reach, &node_view(Here::new(cluster, *node))))
        });
        let reserved = &claim.status.reserved_for;
        (has_failed || elsewhere)
            && reserved
                .iter()
                .all(|consumer| group::is_user(cluster, pod, consumer))
            && reserved.len() < 2
    })
}
