//! `nodeAffinityPolicy` and `nodeTaintsPolicy`: nodes whose pods count for a spread constraint (S5-090).

use super::{Here, allows, tolerates};
use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::pod::Pod;
use crate::template::Spread;

/// The nodes that the pod's node selector, affinity and tolerations include.
pub(crate) struct Inclusion {
    /// For each node, whether the affinity matches; `None` includes all nodes.
    reachable: Option<Box<[bool]>>,
    tolerated: Option<Box<[bool]>>,
}

impl Inclusion {
    /// Evaluates only the policies that some constraint uses.
    pub(crate) fn new(cluster: &Cluster, pod: &Pod, spread: &[Spread]) -> Self {
        let template = cluster.template(pod);
        let of_nodes = |is: fn(Here<'_>, _) -> bool| {
            let nodes = cluster
                .node_ids()
                .map(|id| is(Here::new(cluster, id), pod.template));
            nodes.collect::<Box<[bool]>>()
        };
        let selects = !template.node_selector.is_empty() || template.node_affinity.is_some();
        let honors_affinity = spread.iter().any(|constraint| constraint.honors_affinity);
        let honors_taints = spread.iter().any(|constraint| constraint.honors_taints);
        Self {
            reachable: (selects && honors_affinity).then(|| of_nodes(allows)),
            tolerated: honors_taints.then(|| of_nodes(tolerates)),
        }
    }

    /// Whether all nodes are included.
    pub(crate) const fn is_all(&self) -> bool {
        self.reachable.is_none() && self.tolerated.is_none()
    }

    /// Whether a node's pods count for a constraint.
    pub(crate) fn contains(&self, id: NodeId, spread: &Spread) -> bool {
        let is = |nodes: &Option<Box<[bool]>>| nodes.as_ref().is_none_or(|nodes| nodes[id.index()]);
        (!spread.honors_affinity || is(&self.reachable))
            && (!spread.honors_taints || is(&self.tolerated))
    }
}
