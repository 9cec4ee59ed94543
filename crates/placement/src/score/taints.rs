//! `TaintToleration`: nodes with fewer untolerated soft taints score higher (S5-083).

use crate::cluster::Cluster;
use crate::filter::Here;
use crate::plugin::{Score, normalize_by_highest};
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::Toleration;

struct Taints {
    tolerations: Box<[Toleration]>,
    /// `PreferNoSchedule`, if any node has such a taint.
    soft: Option<Symbol>,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Box<dyn Score> {
    let soft = cluster.symbols().get("PreferNoSchedule");
    let tolerations = cluster.template(pod).tolerations.iter();
    // Only tolerations of this effect, or of all effects, match; `covers` compares the effect.
    Box::new(Taints {
        tolerations: tolerations.cloned().collect(),
        soft,
    })
}

impl Score for Taints {
    fn is_local(&self) -> bool {
        true
    }

    fn raw(&self, here: Here<'_>) -> i64 {
        let Some(soft) = self.soft else { return 0 };
        let taints = here.node.taints.iter().filter(|taint| taint.effect == soft);
        let untolerated = taints.filter(|taint| {
            let mut tolerations = self.tolerations.iter();
            !tolerations.any(|toleration| toleration.covers(taint.key, taint.value, taint.effect))
        });
        // The number of a node's taints fits into `i64`.
        i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_highest(scores, true);
    }
}
