//! The requests and responses of extender/v1, whose keys are the names of Go fields. As in Go, the case of a key in a response
//! does not matter.

use super::super::pod_ref::PodRef;
use super::nodes::Nodes;
use evictd_cluster_client::{Actions, CALL_TIMEOUT};
use evictd_placement::Code;
use evictd_scheduling::NodeVictims;
use evictd_scheduling::config::Extender;
use hyper::{Request, header};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a response beyond those of its request.
const LONGEST_REASONS: usize = 8 << 20;

/// An extender with its address.
#[derive(Clone)]
pub(super) struct HttpExtender {
    pub(super) config: Extender,
    pub(super) actions: Actions,
}

/// The nodes that passed Filter, and the code and reason of rejected ones.
type Filtered = (Vec<Arc<str>>, HashMap<Arc<str>, (Code, String)>);

/// `ExtenderArgs`: a pod, and nodes whole or by name.
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

/// A node with the JSON of the API server.
struct Whole(Arc<RawValue>);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl HttpExtender {
    fn timeout(&self) -> Duration {
        Duration::try_from(self.config.timeout).unwrap_or(CALL_TIMEOUT)
    }

    async fn send(&self, verb: &str, body: &impl Serialize) -> Result<Value, String> {
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let wrong = |problem: String| format!("extender {url}: {problem}");
        let body = serde_json::to_vec(body).map_err(|error| wrong(error.to_string()))?;
        // A response repeats at most the nodes of the request, and adds reasons.
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

/// The value of a field, whatever the case of its key is.
fn field<'v>(object: &'v Value, name: &str) -> &'v Value {
    let mut fields = object.as_object().into_iter().flatten();
    let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map_or(&Value::Null, |(_, value)| value)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Filter.
pub(super) async fn filter(
    extender: &HttpExtender,
    pod: &Value,
    names: &[Arc<str>],
    nodes: Option<&Nodes>,
) -> Result<Filtered, String> {
    let config = &extender.config;
    let arguments = extender.arguments(pod, names, nodes);
    let answer = extender.send(&config.filter_verb, &arguments).await?;
    let error = text(field(&answer, "Error"));
    if !error.is_empty() {
        return Err(extender.wrong(error));
    }
    let by_name = field(&answer, "NodeNames").as_array();
    let by_name = by_name.filter(|_| config.node_cache_capable);
    let left: Vec<&str> = if let Some(names) = by_name {
        names.iter().map(text).collect()
    } else {
        let items = field(field(&answer, "Nodes"), "items").as_array();
        let items = items.into_iter().flatten();
        items.map(|node| text(&node["metadata"]["name"])).collect()
    };
    let known = |name: &&str| {
        let sent = names.iter().find(|sent| ***sent == **name);
        let claims =
            format!("claims a filtered node {name:?} which is not in the list it was sent");
        sent.map(Arc::clone).ok_or_else(|| extender.wrong(&claims))
    };
    let left = left.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let mut rejected = HashMap::new();
    // The second map wins for a node that is in both: preemption does not help there.
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

/// Prioritize. The scores are multiplied by the extender's weight.
pub(super) async fn prioritize(
    extender: &HttpExtender,
    pod: &Value,
    names: &[Arc<str>],
    nodes: Option<&Nodes>,
) -> Result<Vec<(Arc<str>, i64)>, String> {
    let config = &extender.config;
    let arguments = extender.arguments(pod, names, nodes);
    let answer = extender.send(&config.prioritize_verb, &arguments).await?;
    let list = answer
        .as_array()
        .ok_or_else(|| extender.wrong("answered no list of scores"))?;
    let scores = list.iter().filter_map(|host_priority| {
        let score = field(host_priority, "Score").as_i64()?;
        let host = Arc::from(text(field(host_priority, "Host")));
        Some((host, score.saturating_mul(config.weight)))
    });
    Ok(scores.collect())
}

/// `ProcessPreemption`. Returns the victims that the extender agrees to.
pub(super) async fn preempt(
    extender: &HttpExtender,
    pod: Value,
    victims: Value,
    candidates: &[NodeVictims],
) -> Result<Vec<NodeVictims>, String> {
    let kind = if extender.config.node_cache_capable {
        "NodeNameToMetaVictims"
    } else {
        "NodeNameToVictims"
    };
    let mut arguments = json!({
        "Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": null,
    });
    arguments[kind] = victims;
    let verb = &extender.config.preempt_verb;
    let answer = extender.send(verb, &arguments).await?;
    let accepted = field(&answer, "NodeNameToMetaVictims").as_object();
    let offered: BTreeMap<&str, &NodeVictims> = candidates
        .iter()
        .map(|candidate| (&*candidate.node, candidate))
        .collect();
    let accepted = accepted.into_iter().flatten().map(|(node, meta_victims)| {
        let known = offered.get(node.as_str());
        let known =
            known.ok_or_else(|| extender.wrong(&format!("node {node:?} was not offered")))?;
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

/// Bind.
pub(super) async fn bind(extender: &HttpExtender, pod: &PodRef, node: &str) -> Result<(), String> {
    let arguments = json!({
        "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": *pod.uid, "Node": node,
    });
    let verb = &extender.config.bind_verb;
    let answer = extender.send(verb, &arguments).await?;
    match text(field(&answer, "Error")) {
        "" => Ok(()),
        error => Err(extender.wrong(error)),
    }
}
