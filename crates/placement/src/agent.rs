//! Plugins that use the conditions which evictd's agents report. Pods avoid nodes under pressure, prefer nodes far from
//! a threshold, and do not return to a node that has just evicted their controller's pods.

use crate::cluster::Cluster;
use crate::filter::{Filter, Here, Rejection};
use crate::id::NodeId;
use crate::plugin::{MAX_SCORE, Plugin, Score};
use crate::pod::Pod;
use crate::pressure::CONDITIONS;
use crate::symbol::Symbol;
use hashbrown::HashSet;

/// Rejects nodes on which evictd reports pressure, unless the pod tolerates the taint.
#[derive(Debug)]
pub struct EvictdPressure {
    /// The taint key of each condition. `value` is the empty text and `effect` is `NoSchedule`.
    keys: [Symbol; 3],
    value: Symbol,
    effect: Symbol,
}

impl EvictdPressure {
    /// Interns the taints for this cluster.
    pub fn new(cluster: &mut Cluster) -> Self {
        cluster.keep_for_good(|symbols| Self {
            keys: CONDITIONS.map(|names| symbols.intern(names.taint)),
            value: symbols.intern(""),
            effect: symbols.intern("NoSchedule"),
        })
    }
}

impl Plugin for EvictdPressure {
    fn name(&self) -> &'static str {
        "EvictdPressure"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        let tolerations = &cluster.template(pod).tolerations;
        let tolerated = |key: Symbol| {
            let mut tolerations = tolerations.iter();
            tolerations.any(|toleration| toleration.covers(key, self.value, self.effect))
        };
        let keys = self.keys.into_iter().enumerate();
        let untolerated = keys.filter(|(_, key)| !tolerated(*key));
        let untolerated = untolerated.fold(0, |bits, (index, _)| bits | 1 << index);
        (untolerated != 0).then(|| Box::new(UntoleratedPressure(untolerated)) as _)
    }
}

/// A bit for each condition that the pod does not tolerate.
struct UntoleratedPressure(u8);

impl Filter for UntoleratedPressure {
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if here.node.pressure.agent & self.0 == 0 {
            return Ok(());
        }
        Err(Rejection::unresolvable(
            "node(s) were under pressure as evictd reports",
        ))
    }
}

/// Prefers nodes that are far from their thresholds.
#[derive(Debug, Clone, Copy)]
pub struct EvictdHeadroom;

impl Plugin for EvictdHeadroom {
    fn name(&self) -> &'static str {
        "EvictdHeadroom"
    }

    fn score(&self, _cluster: &Cluster, _pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        Some(Box::new(Self))
    }
}

impl Score for EvictdHeadroom {
    fn is_local(&self) -> bool {
        true
    }

    fn is_normal(&self) -> bool {
        true
    }

    /// Full score without a condition that holds or is close, half with one, zero with several.
    fn raw(&self, here: Here<'_>) -> i64 {
        let pressure = here.node.pressure;
        let close = pressure.close | pressure.agent | pressure.kubelet;
        let close = i64::from(close.count_ones());
        MAX_SCORE - close.min(2) * MAX_SCORE / 2
    }
}

/// Rejects a node under pressure that has evicted a pod of the same controller. The conditions hold until their
/// transition period is over. Only evicted pods that still exist count.
#[derive(Debug, Clone, Copy)]
pub struct EvictdReturn;

impl Plugin for EvictdReturn {
    fn name(&self) -> &'static str {
        "EvictdReturn"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        let evicted = cluster.evicted();
        if evicted.is_empty() {
            return None;
        }
        let template = cluster.template(pod);
        let owner = template.owner.as_ref()?;
        let text = |symbol| Box::from(cluster.symbols().text(symbol));
        let (namespace, kind) = (text(template.namespace), text(owner.kind));
        let nodes = evicted.nodes(&(namespace, kind, text(owner.name)))?;
        Some(Box::new(EvictingNodes(nodes)))
    }
}

/// The names of the nodes that have evicted pods of the controller.
struct EvictingNodes(HashSet<Box<str>>);

impl Filter for EvictingNodes {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let pressure = here.node.pressure;
        let holds = pressure.agent | pressure.kubelet != 0;
        if holds && self.0.contains(here.cluster.node_name(here.id)) {
            return Err(Rejection::unresolvable(
                "node(s) had evicted a pod of the same controller and were still under pressure",
            ));
        }
        Ok(())
    }
}
