//! Questions to extenders, and attempts that continue with their answers.

use super::Engine;
use crate::extender::pod_of;
use evictd_cluster_client::lease::Role;
use evictd_pod::wire;
use evictd_scheduling::{ExtenderRequest, ExtenderResponse, NodeVictims};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

impl Engine {
    /// Asks the extenders. Meanwhile other pods are tried.
    pub(super) fn ask(&self, key: Arc<str>, pod: Arc<wire::Pod>, question: ExtenderRequest) {
        match question {
            ExtenderRequest::Nodes(nodes) => self.extenders.ask_nodes(key, pod, nodes),
            ExtenderRequest::Victims {
                extender,
                candidates,
            } => {
                let victims = self.described(extender, &candidates);
                let question = (extender, candidates, victims);
                self.extenders.ask_victims(key, pod, question);
            }
        }
    }

    /// The victims in the request to an extender: only UIDs if the extender caches the cluster itself.
    fn described(&self, extender: usize, candidates: &[NodeVictims]) -> Value {
        let cluster = self.scheduler.cluster();
        let by_name = self.extenders.knows_cluster(extender);
        let nodes = candidates.iter().map(|offer| {
            let id = cluster.find_node(&offer.node);
            let pods = id.map_or(&[][..], |id| &cluster.node(id).pods);
            let victims = offer.victims.iter().map(|uid| {
                let pod = pods.iter().find(|pod| cluster.pod_key(pod) == *uid);
                match pod.filter(|_| !by_name) {
                    Some(pod) => pod_of(cluster, pod, &offer.node),
                    None => json!({ "UID": &**uid }),
                }
            });
            let victims: Vec<Value> = victims.collect();
            let node_victims = json!({ "Pods": victims, "NumPDBViolations": offer.violations });
            (offer.node.to_string(), node_victims)
        });
        json!(nodes.collect::<BTreeMap<String, Value>>())
    }

    /// Continues an attempt with the answer of the extenders.
    pub(super) fn answered(&mut self, key: &Arc<str>, reply: ExtenderResponse) {
        if *self.role.borrow() != Role::Leader {
            return;
        }
        let (now, began) = ((self.now)(), Instant::now());
        self.deadline.begin();
        let attempt = self
            .scheduler
            .on_extender_response(self.steady.now(), key, reply);
        if let Some(attempt) = attempt {
            self.carry_out(now, began, attempt);
        }
    }
}
