//! Requests of the scheduler to its extenders.

use crate::preempt_extender::pod_of;
use crate::run::extenders::{Extenders, PreemptRequest};
use evictd_placement::Cluster;
use evictd_pod::wire;
use evictd_scheduling::{ExtenderRequest, NodeVictims};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// The victims by node, as an extender gets them. One that caches the cluster gets only UIDs.
fn victims_of(cluster: &Cluster, candidates: &[NodeVictims], by_uid: bool) -> Value {
    let nodes = candidates.iter().map(|candidate| {
        let id = cluster.find_node(&candidate.node);
        let pods = id.map_or(&[][..], |id| &cluster.node(id).pods);
        let victims = candidate.victims.iter().map(|uid| {
            let pod = pods.iter().find(|pod| cluster.pod_key(pod) == *uid);
            match pod.filter(|_| !by_uid) {
                Some(pod) => pod_of(cluster, pod, &candidate.node),
                // A victim that was deleted in the meantime has nothing but its UID left.
                None => json!({ "UID": &**uid }),
            }
        });
        let victims: Vec<Value> = victims.collect();
        let node_victims = json!({ "Pods": victims, "NumPDBViolations": candidate.violations });
        (candidate.node.to_string(), node_victims)
    });
    json!(nodes.collect::<BTreeMap<String, Value>>())
}
