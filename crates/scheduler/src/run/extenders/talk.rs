//! What an extender is sent and what it answers: the types of extender/v1, whose keys are the names of Go fields. Answers
//! are read whatever the case of their keys is, as Go does.

use super::super::pod_ref::PodRef;
use super::nodes::Nodes;
use evictd_cluster_client::Actions;
use evictd_placement::Code;
use evictd_scheduling::NodeVictims;
use evictd_scheduling::config::Extender;
use hyper::{Request, header};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// How much an extender may say beside what it was sent, in bytes.
const LONGEST_REASONS: usize = 8 << 20;

/// An extender, and the way to it.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) config: Extender,
    pub(super) actions: Actions,
}

/// Which nodes pass, and of others whether pods that leave could help, and why they do not.
type Passed = (Vec<Arc<str>>, HashMap<Arc<str>, (Code, String)>);

/// A pod and nodes, whole or by name.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Arguments<'a> {
    pod: &'a Value,
    nodes: Option<NodeList>,
    node_names: Option<Vec<&'a str>>,
}

#[derive(Serialize)]
struct NodeList {
    metadata: Map<String, Value>,
    items: Vec<Whole>,
}

/// A node as the API server has told it.
struct Whole(Arc<RawValue>);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl Peer {
    /// Sends this to one of its verbs.
    async fn ask(&self, verb: &str, body: &impl Serialize) -> Result<Value, String> {
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let wrong = |problem: String| format!("extender {url}: {problem}");
        let body = serde_json::to_vec(body).map_err(|error| wrong(error.to_string()))?;
        // It answers with what it was sent, or less, and its reasons.
        let longest = 2 * body.len() + LONGEST_REASONS;
        let request = Request::post(format!("/{verb}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        let what = format!("extender {url}");
        let limits = (self.timeout(), longest);
        let answer = self.actions.request_at_most(&what, limits, request).await;
        answer.map_err(|error| error.to_string())
    }

    fn wrong(&self, problem: &str) -> String {
        format!("extender {}: {problem}", self.config.url_prefix)
    }

    fn arguments<'a>(
        &self,
        pod: &'a Value,
        names: &'a [Arc<str>],
        nodes: Option<&Nodes>,
    ) -> Arguments<'a> {
        let by_name = self.config.node_cache_capable;
        let whole = nodes.filter(|_| !by_name);
        Arguments {
            pod,
            nodes: whole.map(|nodes| NodeList {
                metadata: Map::new(),
                items: nodes.of(names).into_iter().map(Whole).collect(),
            }),
            node_names: by_name.then(|| names.iter().map(|name| &**name).collect()),
        }
    }
}

/// A value of an object, whatever the case of its key is.
fn field<'v>(object: &'v Value, name: &str) -> &'v Value {
    let mut fields = object.as_object().into_iter().flatten();
    let own = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
    own.map_or(&Value::Null, |(_, value)| value)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Asks which of these nodes will do.
pub(super) async fn filter(
    peer: &Peer,
    pod: &Value,
    names: &[Arc<str>],
    nodes: Option<&Nodes>,
) -> Result<Passed, String> {
    let arguments = peer.arguments(pod, names, nodes);
    let answer = peer.ask(&peer.config.filter_verb, &arguments).await?;
    let error = text(field(&answer, "Error"));
    if !error.is_empty() {
        return Err(peer.wrong(error));
    }
    let by_name = field(&answer, "NodeNames").as_array();
    let by_name = by_name.filter(|_| peer.config.node_cache_capable);
    let left: Vec<&str> = if let Some(names) = by_name {
        names.iter().map(text).collect()
    } else {
        let items = field(field(&answer, "Nodes"), "items").as_array();
        let items = items.into_iter().flatten();
        items.map(|node| text(&node["metadata"]["name"])).collect()
    };
    let known = |name: &&str| {
        let own = names.iter().find(|own| ***own == **name);
        let claims =
            format!("claims a filtered node {name:?} which is not in the list it was sent");
        own.map(Arc::clone).ok_or_else(|| peer.wrong(&claims))
    };
    let left = left.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let mut rejected = HashMap::new();
    // Who is in both maps cannot be helped.
    let kinds = [
        ("FailedNodes", Code::Unschedulable),
        (
            "FailedAndUnresolvableNodes",
            Code::UnschedulableAndUnresolvable,
        ),
    ];
    for (kind, code) in kinds {
        for (node, why) in field(&answer, kind).as_object().into_iter().flatten() {
            rejected.insert(Arc::from(node.as_str()), (code, text(why).to_owned()));
        }
    }
    Ok((left, rejected))
}

/// Asks how good these nodes are; each score times the extender's weight.
pub(super) async fn prioritize(
    peer: &Peer,
    pod: &Value,
    names: &[Arc<str>],
    nodes: Option<&Nodes>,
) -> Result<Vec<(Arc<str>, i64)>, String> {
    let arguments = peer.arguments(pod, names, nodes);
    let answer = peer.ask(&peer.config.prioritize_verb, &arguments).await?;
    let list = answer
        .as_array()
        .ok_or_else(|| peer.wrong("answered no list of scores"))?;
    let scores = list.iter().filter_map(|own| {
        let score = field(own, "Score").as_i64()?;
        let host = Arc::from(text(field(own, "Host")));
        Some((host, score.saturating_mul(peer.config.weight)))
    });
    Ok(scores.collect())
}

/// Asks which of these victims may go.
pub(super) async fn preempt(
    peer: &Peer,
    pod: Value,
    victims: Value,
    candidates: &[NodeVictims],
) -> Result<Vec<NodeVictims>, String> {
    let kind = if peer.config.node_cache_capable {
        "NodeNameToMetaVictims"
    } else {
        "NodeNameToVictims"
    };
    let mut arguments = json!({
        "Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": null,
    });
    arguments[kind] = victims;
    let answer = peer.ask(&peer.config.preempt_verb, &arguments).await?;
    let accepted = field(&answer, "NodeNameToMetaVictims").as_object();
    let offered: BTreeMap<&str, &NodeVictims> =
        candidates.iter().map(|own| (&*own.node, own)).collect();
    let accepted = accepted.into_iter().flatten().map(|(node, own)| {
        let known = offered.get(node.as_str());
        let known = known.ok_or_else(|| peer.wrong(&format!("node {node:?} was not offered")))?;
        let victims = field(own, "Pods").as_array().into_iter().flatten();
        let violations = field(own, "NumPDBViolations").as_u64().unwrap_or(0);
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

/// Asks to bind a pod.
pub(super) async fn bind(peer: &Peer, pod: &PodRef, node: &str) -> Result<(), String> {
    let arguments = json!({
        "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": *pod.uid, "Node": node,
    });
    let answer = peer.ask(&peer.config.bind_verb, &arguments).await?;
    match text(field(&answer, "Error")) {
        "" => Ok(()),
        error => Err(peer.wrong(error)),
    }
}
