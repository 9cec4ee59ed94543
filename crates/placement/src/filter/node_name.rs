//! `NodeName`: the pod names its node in its spec.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::symbol::Symbol;

struct NodeName(Symbol);

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let name = cluster.template(pod).node_name?;
    Some(Box::new(NodeName(name)))
}

impl Filter for NodeName {
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if here.node.name == self.0 {
            return Ok(());
        }
        Err(Rejection::unresolvable(
            "node(s) didn't match the requested node name",
        ))
    }
}
