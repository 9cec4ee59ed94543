//! `NodeDeclaredFeatures`: a pod that needs optional features of the kubelet.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::features::Features;
use crate::pod::Pod;

struct DeclaredFeatures(Features);

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let needed = cluster.template(pod).features;
    (!needed.is_empty()).then(|| Box::new(DeclaredFeatures(needed)) as _)
}

impl Filter for DeclaredFeatures {
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if here.node.features.contain(self.0) {
            return Ok(());
        }
        Err(Rejection::unresolvable(
            "node(s) didn't match Pod's required features",
        ))
    }
}
