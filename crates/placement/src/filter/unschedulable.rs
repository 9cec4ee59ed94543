//! `NodeUnschedulable`: a cordoned node accepts only pods that tolerate the taint.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;

struct Unschedulable;

#[allow(clippy::unnecessary_wraps, reason = "one signature for every filter")]
pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let tolerations = &cluster.template(pod).tolerations;
    let (mut tolerations, cordon) = (tolerations.iter(), cluster.cordon());
    (!tolerations.any(|toleration| toleration.covers(cordon.key, cordon.value, cordon.effect)))
        .then(|| Box::new(Unschedulable) as _)
}

impl Filter for Unschedulable {
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if here.node.unschedulable {
            return Err(Rejection::unresolvable("node(s) were unschedulable"));
        }
        Ok(())
    }
}
