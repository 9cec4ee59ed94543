//! Whose pods count where pods are spread: nodes that a constraint does not leave out (S5-090).

use super::{Here, allows, tolerates};
use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::pod::Pod;
use crate::template::Spread;

/// Which nodes a pod's node selector, affinity and tolerations leave in.
pub(crate) struct Inclusion {
    /// Of each node; `None`: all.
    reachable: Option<Box<[bool]>>,
    tolerated: Option<Box<[bool]>>,
}

impl Inclusion {
    /// For the constraints of a pod; what none of them asks for is not looked at.
    pub(crate) fn new(cluster: &Cluster, pod: &Pod, spread: &[Spread]) -> Self {
        let template = cluster.template(pod);
        let of_nodes = |is: fn(Here<'_>, _) -> bool| {
            let nodes = cluster
                .node_ids()
                .map(|id| is(Here::new(cluster, id), pod.template));
            nodes.collect::<Box<[bool]>>()
        };
        let selects = !template.node_selector.is_empty() || template.node_affinity.is_some();
        let honors_affinity = spread.iter().any(|own| own.honors_affinity);
        let honors_taints = spread.iter().any(|own| own.honors_taints);
        Self {
            reachable: (selects && honors_affinity).then(|| of_nodes(allows)),
            tolerated: honors_taints.then(|| of_nodes(tolerates)),
        }
    }

    /// Whether it leaves out no node at all.
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
