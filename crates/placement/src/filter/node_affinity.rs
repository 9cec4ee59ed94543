//! `NodeAffinity`: the pod's node selector and required node affinity.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::selector::NodeSelector;
use crate::template::TemplateId;

struct NodeAffinity {
    template: TemplateId,
    /// The profile's `addedAffinity`.
    added: Option<NodeSelector>,
}

pub(crate) fn new(
    cluster: &Cluster,
    pod: &Pod,
    added: Option<&NodeSelector>,
) -> Option<Box<dyn Filter>> {
    let template = cluster.template(pod);
    let nothing =
        template.node_selector.is_empty() && template.node_affinity.is_none() && added.is_none();
    (!nothing).then(|| {
        Box::new(NodeAffinity {
            template: pod.template,
            added: added.cloned(),
        }) as _
    })
}

/// Whether the template's node selector and affinity match this node.
pub(crate) fn allows(here: Here<'_>, template: TemplateId) -> bool {
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
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let (node, symbols) = (here.node, here.cluster.symbols());
        let is_added = |added: &NodeSelector| added.matches(symbols, node.name, &node.labels);
        if !self.added.as_ref().is_none_or(is_added) {
            return Err(Rejection::unresolvable(
                "node(s) didn't match scheduler-enforced node affinity",
            ));
        }
        if allows(here, self.template) {
            return Ok(());
        }
        Err(Rejection::unresolvable(
            "node(s) didn't match Pod's node affinity/selector",
        ))
    }
}
