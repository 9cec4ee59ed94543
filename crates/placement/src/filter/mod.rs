//! The filters: each one check of whether a pod may be on a node, compiled for one pod, in the order and with the words
//! of kube-scheduler 1.36.

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

pub use devices::{DEVICES_GO_ON, device_choices, shared_claims, unavailable_claim};
pub use fit::Ignored;
pub(crate) use inclusion::Inclusion;
pub(crate) use inter_pod_affinity::selects;
pub(crate) use node_affinity::allows;
pub(crate) use taints::tolerates;
pub use volume_binding::volume_choices;

/// Whether pods that leave can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// They may.
    Unschedulable,
    /// They cannot.
    UnschedulableAndUnresolvable,
}

impl Code {
    /// The code as kube-scheduler names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

/// What is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// In these words.
    Words(&'static str),
    /// In these words and these.
    Both(&'static str, &'static str),
    /// The claim with this index among the pod's known ones is lost, or being deleted.
    Claim(u32),
    /// Too little of something: a bit for the number of pods, cpu, memory and ephemeral storage, and one for each rarer
    /// resource that the pod asks for.
    Insufficient(u64),
}

/// Said of a node with a pod that no watch could read.
pub const UNKNOWN_REQUESTS: &str = "node(s) had a pod whose requests are unknown";

/// Why a pod may not be on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rejection {
    /// Whether pods that leave can help.
    pub code: Code,
    /// What is in the way.
    pub reason: Reason,
}

impl Rejection {
    /// Something that pods that leave may change.
    pub const fn unschedulable(words: &'static str) -> Self {
        Self {
            code: Code::Unschedulable,
            reason: Reason::Words(words),
        }
    }

    /// Whether pods that leave can help (S3-014, S4-014).
    pub fn is_resolvable(self) -> bool {
        self.code == Code::Unschedulable
    }

    /// Something that pods that leave cannot change.
    pub const fn unresolvable(words: &'static str) -> Self {
        Self {
            code: Code::UnschedulableAndUnresolvable,
            reason: Reason::Words(words),
        }
    }
}

/// Where a question is asked.
#[derive(Debug, Clone, Copy)]
pub struct Here<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The node's place in it.
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

/// One check, compiled for one pod. Before a node is asked it is entered; then pods may join it and leave it. Whoever
/// made them do so undoes it before another node is entered.
pub trait Filter: Send + Sync {
    /// Whether pods that join or leave can change the answer. Where not, it is asked for once a node.
    fn changes(&self) -> bool {
        false
    }

    /// Whether its answer for a node depends on nothing but that node as it is when it is entered, so that it may be kept
    /// while the rest of the cluster changes.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether it has to be told at the end that everybody is back. One that looks at a node anew when it enters it has
    /// not.
    fn remembers(&self) -> bool {
        self.changes()
    }

    /// Prepares for questions about this node, with the pods that are really on it.
    fn enter(&mut self, _here: Here<'_>) {}

    /// A pod joins the node (`times` 1) or leaves it (-1).
    fn change(&mut self, _here: Here<'_>, _pod: &Pod, _times: i64) {}

    /// A pod joins the node only until [`Filter::end_visit`]; in between nobody else leaves.
    fn visit(&mut self, here: Here<'_>, pod: &Pod) {
        self.change(here, pod, 1);
    }

    /// A pod that joined for a while leaves again.
    fn end_visit(&mut self, here: Here<'_>, pod: &Pod) {
        self.change(here, pod, -1);
    }

    /// Whether the pod may be here now.
    fn check(&self, here: Here<'_>) -> Result<(), Rejection>;

    /// What is in the way in figures and names, where more can be said than in the rejection; asked only after it.
    /// `away` tells which of the node's pods have left.
    fn obstacle(&self, _here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        None
    }
}

/// What could not be checked for this pod, since the cluster was not told of it.
pub(crate) fn unchecked(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    unchecked::of(cluster, pod)
}

/// That the volume of a claim can be reached only from these places.
fn reach(claim: &str, places: &str) -> String {
    if places.is_empty() {
        return format!("volume {claim} cannot be reached from here");
    }
    format!("volume {claim} can only be reached from {places}")
}

/// The words of a reason, one each and sorted; `pod` is the one that was rejected.
pub fn words(cluster: &Cluster, pod: &Pod, reason: Reason) -> Vec<String> {
    let mut words = words_as_said(cluster, pod, reason);
    words.sort_unstable();
    words
}

/// The same in the order in which the filter says them.
pub fn words_as_said(cluster: &Cluster, pod: &Pod, reason: Reason) -> Vec<String> {
    match reason {
        Reason::Words(words) => vec![words.to_owned()],
        Reason::Both(one, other) => vec![one.to_owned(), other.to_owned()],
        Reason::Claim(index) => vec![claims::words(cluster, pod, index)],
        Reason::Insufficient(bits) => fit::words(cluster, pod, bits),
    }
}
