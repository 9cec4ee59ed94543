//! Requests of the scheduler to its extenders.

use crate::http_extender::victims_of;
use crate::run::extenders::{Extenders, PreemptRequest};
use evictd_placement::Cluster;
use evictd_pod::wire;
use evictd_scheduling::ExtenderRequest;
use std::sync::Arc;

/// Sends a request. Other pods are tried until the answer is there.
pub(super) fn send(
    extenders: &Extenders,
    cluster: &Cluster,
    (key, pod): (Arc<str>, Arc<wire::Pod>),
    request: ExtenderRequest,
) {
    match request {
        ExtenderRequest::Nodes(nodes) => extenders.filter_and_prioritize(key, pod, nodes),
        ExtenderRequest::Victims {
            extender,
            candidates,
        } => {
            let by_uid = extenders.is_node_cache_capable(extender);
            let victims = victims_of(cluster, &candidates, by_uid);
            let request = PreemptRequest {
                extender,
                candidates,
                victims,
            };
            extenders.process_preemption(key, pod, request);
        }
    }
}
