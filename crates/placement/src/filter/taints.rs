//! `TaintToleration`: taints of effect `NoSchedule` or `NoExecute` without a toleration.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::node::Taint;
use crate::pod::Pod;
use crate::template::{TemplateId, Toleration};

struct Taints(Box<[Toleration]>);

#[allow(clippy::unnecessary_wraps, reason = "one signature for every filter")]
pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    Some(Box::new(Taints(cluster.template(pod).tolerations.clone())))
}

/// Whether the template tolerates every such taint of the node.
pub(crate) fn tolerates(here: Here<'_>, template: TemplateId) -> bool {
    let template = &here.cluster.templates()[template.index()];
    untolerated(&here.node.taints, &template.tolerations).is_none()
}

/// The first such taint without a toleration.
pub(super) fn untolerated<'n>(
    taints: &'n [Taint],
    tolerations: &[Toleration],
) -> Option<&'n Taint> {
    let tolerated = |taint: &Taint| {
        tolerations
            .iter()
            .any(|toleration| toleration.covers(taint.key, taint.value, taint.effect))
    };
    taints
        .iter()
        .find(|taint| taint.forbids && !tolerated(taint))
}

impl Filter for Taints {
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        match untolerated(&here.node.taints, &self.0) {
            None => Ok(()),
            Some(_) => Err(Rejection::unresolvable("node(s) had untolerated taint(s)")),
        }
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let taint = untolerated(&here.node.taints, &self.0)?;
        let text = |symbol| here.cluster.symbols().text(symbol);
        let (key, value, effect) = (text(taint.key), text(taint.value), text(taint.effect));
        let equals = if value.is_empty() { "" } else { "=" };
        Some(format!("taint {key}{equals}{value}:{effect}"))
    }
}
