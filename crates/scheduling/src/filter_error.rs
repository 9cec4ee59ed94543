//! Errors of filters. kube-scheduler ends an attempt with the first one. Here another node may still do, so that only a pod
//! without any feasible node has the error.

use crate::cycle::{Filtered, Verdict};
use crate::framework::Framework;
use evictd_placement::{
    Cluster, Code, DEVICES_GIVEN_UP, DEVICES_GO_ON, NodeId, Pod, Reason, Rejection,
};

impl Framework {
    /// Why no node of these can be decided about, as kube-scheduler says it: the error of the first one (S7-134, S7-136,
    /// S7-196). `None` if there is none, or another node is feasible.
    pub fn filter_error(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        filtered: &Filtered,
        among: &dyn Fn(NodeId) -> bool,
    ) -> Option<String> {
        if !filtered.feasible.is_empty() {
            return None;
        }
        let nodes = cluster.node_ids().zip(&filtered.verdicts);
        let mut nodes = nodes.filter(|(id, _)| among(*id));
        nodes.find_map(|(id, verdict)| match verdict {
            Verdict::Rejected(filter, rejection) if is_unfinished(*rejection) => {
                Some(self.error_of(*filter, DEVICES_GO_ON))
            }
            verdict => self.error_on(cluster, pod, id, *verdict),
        })
    }

    /// The error of a filter on a node, with the name of its plugin. `None` if the node was decided about.
    fn error_on(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        id: NodeId,
        verdict: Verdict,
    ) -> Option<String> {
        let Verdict::Rejected(filter, rejection) = verdict else {
            return None;
        };
        if rejection.code != Code::Error {
            return None;
        }
        let error = if rejection.reason == Reason::Message(DEVICES_GIVEN_UP) {
            format!("node {}: {DEVICES_GIVEN_UP}", cluster.node_name(id))
        } else {
            // The rejection names no object, unlike the obstacle.
            self.obstacle(cluster, pod, id)?
        };
        Some(self.error_of(filter, &error))
    }

    fn error_of(&self, filter: usize, error: &str) -> String {
        let plugin = self.filters[filter].name();
        format!("running {plugin:?} filter plugin: {error}")
    }

    /// Why a node is not feasible, as messages.
    pub fn reasons(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        filtered: &Filtered,
        id: NodeId,
    ) -> Vec<String> {
        let verdict = filtered.verdicts[id.index()];
        match self.error_on(cluster, pod, id, verdict) {
            Some(error) => vec![error],
            None => filtered.reasons(cluster, pod, verdict),
        }
    }
}

/// Whether the search for devices was interrupted. The next attempt may find some.
pub(crate) fn is_unfinished(rejection: Rejection) -> bool {
    rejection.reason == Reason::Message(DEVICES_GO_ON)
}
