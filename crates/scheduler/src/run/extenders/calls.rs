//! Filter, Prioritize and Bind.

use super::nodes::Nodes;
use crate::http_extender::{HttpExtender, field, text};
use crate::run::pod_ref::PodRef;
use evictd_placement::Code;
use evictd_preemption::ExtenderError;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

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

fn arguments<'a>(
    extender: &HttpExtender,
    pod: &'a Value,
    names: &'a [Arc<str>],
    nodes: Option<&Nodes>,
) -> Arguments<'a> {
    let by_name = extender.config.node_cache_capable;
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

/// Filter.
pub(super) async fn filter(
    extender: &HttpExtender,
    pod: &Value,
    names: &[Arc<str>],
    nodes: Option<&Nodes>,
) -> Result<Filtered, ExtenderError> {
    let config = &extender.config;
    let arguments = arguments(extender, pod, names, nodes);
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
) -> Result<Vec<(Arc<str>, i64)>, ExtenderError> {
    let config = &extender.config;
    let arguments = arguments(extender, pod, names, nodes);
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

/// Bind.
pub(super) async fn bind(
    extender: &HttpExtender,
    pod: &PodRef,
    node: &str,
) -> Result<(), ExtenderError> {
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
