//! Errors of filters. kube-scheduler ends an attempt with the first one. Here another node may still do, so that only a pod
//! without any feasible node has the error.

use crate::cycle::{Filtered, Verdict, is_unfinished};
use crate::framework::Framework;
use evictd_placement::{Cluster, Code, DEVICES_GIVEN_UP, DEVICES_GO_ON, NodeId, Pod, Reason};

impl Filtered {
    /// Why no node of these can be decided about, as kube-scheduler says it: the error of the first one (S7-134, S7-136,
    /// S7-196). `None` if there is none, or another node is feasible.
    pub fn error(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        among: &dyn Fn(NodeId) -> bool,
    ) -> Option<String> {
        if !self.feasible.is_empty() {
            return None;
        }
        let nodes = cluster.node_ids().zip(&self.verdicts);
        let mut nodes = nodes.filter(|(id, _)| among(*id));
        nodes.find_map(|(id, verdict)| match verdict {
            Verdict::Rejected(filter, rejection) if is_unfinished(*rejection) => {
                Some(error_of(framework, *filter, DEVICES_GO_ON))
            }
            verdict => error_on(framework, (cluster, pod), id, *verdict),
        })
    }

    /// Why a node is not feasible, as messages.
    pub fn reasons_on(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        id: NodeId,
    ) -> Vec<String> {
        let verdict = self.verdicts[id.index()];
        match error_on(framework, (cluster, pod), id, verdict) {
            Some(error) => vec![error],
            None => self.reasons(cluster, pod, verdict),
        }
    }
}

/// The error of a filter on a node, with the name of its plugin. `None` if the node was decided about.
fn error_on(
    framework: &Framework,
    (cluster, pod): (&Cluster, &Pod),
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
        framework.obstacle(cluster, pod, id)?
    };
    Some(error_of(framework, filter, &error))
}

fn error_of(framework: &Framework, filter: usize, error: &str) -> String {
    let plugin = framework.filters[filter].name();
    format!("running {plugin:?} filter plugin: {error}")
}
