//! `NodeAffinity`: the pod's node selector and the nodes it may be on.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::template::TemplateId;

struct NodeAffinity(TemplateId);

pub(super) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let template = cluster.template(pod);
    let any = template.node_selector.is_empty() && template.node_affinity.is_none();
    (!any).then(|| Box::new(NodeAffinity(pod.template)) as _)
}

/// Whether the template's node selector and affinity allow this node.
pub(super) fn allows(here: Here<'_>, template: TemplateId) -> bool {
    let (node, symbols) = (here.node, here.cluster.symbols());
    let template = &here.cluster.templates()[template.index()];
    let mut selector = template.node_selector.iter();
    let affinity = &template.node_affinity;
    selector.all(|(key, value)| node.labels.get(key) == Some(value))
        && affinity
            .as_ref()
            .is_none_or(|affinity| affinity.matches(symbols, node.name, &node.labels))
}

impl Filter for NodeAffinity {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if allows(here, self.0) {
            return Ok(());
        }
        Err(Rejection::unresolvable(
            "node(s) didn't match Pod's node affinity/selector",
        ))
    }
}
