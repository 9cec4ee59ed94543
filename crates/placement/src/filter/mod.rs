//! The filters of kube-scheduler 1.36, each compiled for one pod. Order and messages are kube-scheduler's.

pub(crate) mod blockers;
pub(crate) mod claims;
pub(crate) mod declared_features;
pub(crate) mod devices;
pub(crate) mod fit;
mod inclusion;
pub(crate) mod inter_pod_affinity;
pub(crate) mod node_affinity;
pub(crate) mod node_name;
pub(crate) mod ports;
pub(crate) mod taints;
#[cfg(test)]
mod tests;
pub(crate) mod topology_spread;
mod unchecked;
pub(crate) mod unschedulable;
pub(crate) mod volume_binding;
pub(crate) mod volume_limits;
pub(crate) mod volume_restrictions;
pub(crate) mod volume_zone;

use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::node::Node;
use crate::pod::Pod;
use crate::symbol::Symbol;

pub use devices::{
    DEVICES_GIVEN_UP, DEVICES_GO_ON, FreedClaims, device_choices, has_claims, left_over_claim,
    share_claims_of_group, shared_claims, unavailable_claim,
};
pub use fit::Ignored;
pub(crate) use inclusion::Inclusion;
pub(crate) use inter_pod_affinity::{for_each_selected, terms_selecting};
pub(crate) use node_affinity::allows;
pub(crate) use taints::tolerates;
pub use topology_spread::SpreadCounts;
pub(crate) use topology_spread::selected_groups;
pub use volume_binding::volume_choices;

/// kube-scheduler's status codes of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Evicting pods may help.
    Unschedulable,
    /// Evicting pods does not help.
    UnschedulableAndUnresolvable,
    /// The node cannot be checked. kube-scheduler ends the whole attempt; here only this node is lost.
    Error,
}

impl Code {
    /// The code's name in kube-scheduler.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Error => "Error",
        }
    }
}

/// The cause of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A fixed message.
    Message(&'static str),
    /// Two fixed messages.
    Messages(&'static str, &'static str),
    /// The claim with this index, among the pod's known ones, is lost or being deleted.
    Claim(u32),
    /// Insufficient resources: a bit each for pods, cpu, memory, ephemeral storage and every scalar resource of the
    /// pod.
    Insufficient(u64),
    /// This CSI driver is not registered on the node.
    NoDriver(Symbol),
}

/// The message of a node with a pod whose spec could not be read.
pub const UNKNOWN_REQUESTS: &str = "node(s) had a pod whose requests are unknown";

/// Why a filter rejects a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rejection {
    /// Whether evicting pods may help.
    pub code: Code,
    /// The cause.
    pub reason: Reason,
}

impl Rejection {
    /// A rejection that evicting pods may change.
    pub const fn unschedulable(message: &'static str) -> Self {
        Self {
            code: Code::Unschedulable,
            reason: Reason::Message(message),
        }
    }

    /// Whether evicting pods may help (S3-014, S4-014).
    pub fn is_resolvable(self) -> bool {
        self.code == Code::Unschedulable
    }

    /// Whether the node has too few free devices. kube-scheduler does not evict pods for devices.
    pub fn is_for_devices(self) -> bool {
        devices::is_for_devices(self.reason)
    }

    /// A rejection that evicting pods cannot change.
    pub const fn unresolvable(message: &'static str) -> Self {
        Self {
            code: Code::UnschedulableAndUnresolvable,
            reason: Reason::Message(message),
        }
    }
}

/// The node that is filtered or scored.
#[derive(Debug, Clone, Copy)]
pub struct Here<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The node's id.
    pub id: NodeId,
    /// The node.
    pub node: &'c Node,
}

impl<'c> Here<'c> {
    /// A node of a cluster.
    pub fn new(cluster: &'c Cluster, id: NodeId) -> Self {
        Self {
            cluster,
            id,
            node: cluster.node(id),
        }
    }
}

/// One filter, compiled for one pod. The caller enters a node before it checks it. Pods may then be added and removed,
/// and the caller undoes that before it enters another node.
pub trait Filter: Send + Sync {
    /// Whether pods of the node affect the result. If not, a trial checks once per node.
    fn changes(&self) -> bool {
        false
    }

    /// Whether the result depends only on the entered node, so that it can be cached while other nodes change.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether the filter keeps state about other nodes, so that a trial must undo its removals at the end.
    fn keeps_state(&self) -> bool {
        self.changes()
    }

    /// Prepares the filter for this node and its actual pods.
    fn enter(&mut self, _here: Here<'_>) {}

    /// Adds a pod to the node (`times` 1) or removes it (-1).
    fn change(&mut self, _here: Here<'_>, _pod: &Pod, _times: i64) {}

    /// Adds pods to other nodes than the entered one (`times` 1), or removes them (-1). A filter that compares nodes counts them.
    fn change_elsewhere(&mut self, _pods: &[(NodeId, &Pod)], _times: i64) {}

    /// Adds a pod until [`Filter::end_visit`]. No other pod is removed in between.
    fn visit(&mut self, here: Here<'_>, pod: &Pod) {
        self.change(here, pod, 1);
    }

    /// Removes a pod that [`Filter::visit`] added.
    fn end_visit(&mut self, here: Here<'_>, pod: &Pod) {
        self.change(here, pod, -1);
    }

    /// From now on a pod that is removed gives back the devices that only removed pods use. Returns whether that can change the
    /// result.
    fn free_devices(&mut self, _cluster: &Cluster) -> bool {
        false
    }

    /// Checks whether the pod may be on the node.
    fn check(&self, here: Here<'_>) -> Result<(), Rejection>;

    /// Whether [`Filter::check`] accepts the node. The search for victims asks only this, after each pod that it puts back.
    fn accepts(&self, here: Here<'_>) -> bool {
        self.check(here).is_ok()
    }

    /// More detail than the rejection has, if there is any. Call it only after a rejection. `away` returns whether a
    /// pod of the node is removed.
    fn obstacle(&self, _here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        None
    }

    /// The matching pods of each domain, one item for each spread constraint; empty for other filters.
    fn spread(&self, _cluster: &Cluster) -> Vec<SpreadCounts> {
        Vec::new()
    }
}

/// The checks that lack an object in the input, one line each.
pub(crate) fn unchecked(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    unchecked::of(cluster, pod)
}

/// The obstacle that a claim's volume is reachable only from these zones or nodes.
fn reach(claim: &str, places: &str) -> String {
    if places.is_empty() {
        return format!("volume {claim} cannot be reached from here");
    }
    format!("volume {claim} can only be reached from {places}")
}

/// The messages of a reason, sorted. `pod` is the rejected pod.
pub fn messages(cluster: &Cluster, pod: &Pod, reason: Reason) -> Vec<String> {
    let mut messages = messages_in_order(cluster, pod, reason);
    messages.sort_unstable();
    messages
}

/// The messages in the order of the filter.
pub fn messages_in_order(cluster: &Cluster, pod: &Pod, reason: Reason) -> Vec<String> {
    match reason {
        Reason::Message(message) => vec![message.to_owned()],
        Reason::Messages(one, other) => vec![one.to_owned(), other.to_owned()],
        Reason::Claim(index) => vec![claims::messages(cluster, pod, index)],
        Reason::Insufficient(bits) => fit::messages(cluster, pod, bits),
        Reason::NoDriver(driver) => {
            let driver = cluster.symbols().text(driver);
            vec![format!("{driver} CSI driver is not installed on the node")]
        }
    }
}
