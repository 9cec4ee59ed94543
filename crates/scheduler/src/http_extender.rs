//! The client of extenders, with the API extender/v1 of kube-scheduler over HTTP. The keys of requests and responses are the
//! names of Go fields. As in Go, the case of a key in a response does not matter.

use evictd_cluster_client::{Access, Actions, ApiError, CALL_TIMEOUT};
use evictd_placement::{Cluster, Pod};
use evictd_preemption::ExtenderError;
use evictd_scheduling::NodeVictims;
use evictd_scheduling::config::{Extender, Tls};
use hyper::{Request, header};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a response beyond those of its request.
const LONGEST_REASONS: usize = 8 << 20;

/// An extender with its address.
#[derive(Clone)]
pub(crate) struct HttpExtender {
    pub(crate) config: Extender,
    actions: Actions,
}

impl HttpExtender {
    /// Reads its certificates. Sends nothing yet.
    pub(crate) async fn connect(config: Extender) -> Result<Self, ApiError> {
        let origin = format!("extender {}", config.url_prefix);
        let (cluster, user) = kubeconfig(&config);
        let access = Access::to_server(&origin, &cluster, &user).await?;
        let actions = access.actions()?;
        Ok(Self { config, actions })
    }

    fn timeout(&self) -> Duration {
        Duration::try_from(self.config.timeout).unwrap_or(CALL_TIMEOUT)
    }

    pub(crate) async fn send(
        &self,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<Value, ExtenderError> {
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let body = serde_json::to_vec(body).map_err(|error| self.wrong(&error.to_string()))?;
        // A response repeats at most the nodes of the request, and adds reasons.
        let longest = 2 * body.len() + LONGEST_REASONS;
        let request = Request::post(format!("/{verb}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        let what = format!("extender {url}");
        let limits = (self.timeout(), longest);
        let answer = self.actions.request_at_most(&what, limits, request).await;
        answer.map_err(|error| {
            let text = error.to_string();
            let problem = text
                .strip_prefix(&what)
                .and_then(|rest| rest.strip_prefix(": "));
            let problem = problem.unwrap_or(&text).to_owned();
            ExtenderError { name: url, problem }
        })
    }

    pub(crate) fn wrong(&self, problem: &str) -> ExtenderError {
        ExtenderError {
            name: self.config.url_prefix.clone(),
            problem: problem.to_owned(),
        }
    }

    /// `ProcessPreemption`. Returns the victims that the extender agrees to.
    pub(crate) async fn preempt(
        &self,
        pod: Value,
        victims: Value,
        candidates: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, ExtenderError> {
        let kind = if self.config.node_cache_capable {
            "NodeNameToMetaVictims"
        } else {
            "NodeNameToVictims"
        };
        let mut arguments = json!({
            "Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": null,
        });
        arguments[kind] = victims;
        let verb = &self.config.preempt_verb;
        let answer = self.send(verb, &arguments).await?;
        let accepted = field(&answer, "NodeNameToMetaVictims").as_object();
        let offered: BTreeMap<&str, &NodeVictims> = candidates
            .iter()
            .map(|candidate| (&*candidate.node, candidate))
            .collect();
        let accepted = accepted.into_iter().flatten().map(|(node, meta_victims)| {
            let known = offered.get(node.as_str());
            let known =
                known.ok_or_else(|| self.wrong(&format!("node {node:?} was not offered")))?;
            let victims = field(meta_victims, "Pods").as_array().into_iter().flatten();
            let violations = field(meta_victims, "NumPDBViolations")
                .as_u64()
                .unwrap_or(0);
            Ok(NodeVictims {
                node: Arc::clone(&known.node),
                victims: victims
                    .map(|pod| Arc::from(text(field(pod, "UID"))))
                    .collect(),
                violations: usize::try_from(violations).unwrap_or(usize::MAX),
            })
        });
        accepted.collect()
    }
}

/// The value of a field, whatever the case of its key is.
pub(crate) fn field<'v>(object: &'v Value, name: &str) -> &'v Value {
    let mut fields = object.as_object().into_iter().flatten();
    let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map_or(&Value::Null, |(_, value)| value)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// The extender's address and credentials as `cluster` and `user` of a kubeconfig.
fn kubeconfig(extender: &Extender) -> (Value, Value) {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let tls = extender.tls.clone().unwrap_or_default();
    let Tls {
        insecure,
        server_name,
        cert_file,
        key_file,
        ca_file,
        cert_data,
        key_data,
        ca_data,
    } = &tls;
    // As in kube-scheduler: without an authority the certificate of the extender is not verified.
    let unchecked = extender.enable_https && ca_file.is_empty() && ca_data.is_empty();
    let cluster = json!({
        "server": extender.url_prefix.trim_end_matches('/'), "tls-server-name": some(server_name),
        "certificate-authority": some(ca_file), "certificate-authority-data": some(ca_data),
        "insecure-skip-tls-verify": *insecure || unchecked,
    });
    let user = json!({
        "client-certificate": some(cert_file), "client-certificate-data": some(cert_data),
        "client-key": some(key_file), "client-key-data": some(key_data),
    });
    (cluster, user)
}

/// The victims by node, as an extender gets them. One that caches the cluster gets only UIDs.
pub(crate) fn victims_of(cluster: &Cluster, candidates: &[NodeVictims], by_uid: bool) -> Value {
    let nodes = candidates.iter().map(|candidate| {
        let victims = candidate.victims.iter().map(|uid| {
            let found = cluster.find_pod(uid).filter(|_| !by_uid);
            match found {
                Some((id, index)) => {
                    let pod = &cluster.node(id).pods[index];
                    pod_of(cluster, pod, cluster.node_name(id))
                }
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

/// A v1 Pod with the fields that the cluster keeps.
pub(crate) fn pod_of(cluster: &Cluster, pod: &Pod, node: &str) -> Value {
    let symbols = cluster.symbols();
    let template = cluster.template(pod);
    let labels = pod.labels().iter();
    let labels: BTreeMap<&str, &str> = labels
        .map(|(key, value)| (symbols.text(key), symbols.text(value)))
        .collect();
    let amounts = &pod.amounts;
    let mut requests = json!({
        "cpu": format!("{}m", amounts.cpu),
        "memory": amounts.memory.to_string(),
        "ephemeral-storage": amounts.ephemeral_storage.to_string(),
    });
    for (name, amount) in cluster.scalars(amounts.scalars) {
        requests[symbols.text(*name)] = json!(amount.to_string());
    }
    json!({
        "metadata": {
            "namespace": symbols.text(template.namespace), "name": pod.name(),
            "uid": pod.uid(), "labels": labels,
        },
        "spec": {
            "priority": pod.priority, "nodeName": node,
            "schedulerName": symbols.text(pod.identity.scheduler),
            // One container with the sum of all requests, because single containers are not kept.
            "containers": [{ "name": "all", "resources": { "requests": requests } }],
        },
    })
}
