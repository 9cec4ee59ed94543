//! One step of the controller on a file instead of a cluster.

use super::changes::{Change, changes};
use super::discovery::{Discovered, Discovery, LabelConfig};
use super::object::HyperNode;
use super::selection::node_count;
use evictd_pod::Node;
use evictd_pod::wire::{Metadata, null_is_default};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A HyperNode whose members are counted, or HyperNodes that a source found, or nodes with labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HyperNodeCase {
    /// `hypernode-count`, `hypernode-reconcile` or `hypernode-discover`.
    pub kind: String,
    /// The HyperNode that is counted.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The nodes of the cluster.
    #[serde(deserialize_with = "null_is_default")]
    pub nodes: Vec<Node>,
    /// The HyperNodes of the cluster.
    #[serde(deserialize_with = "null_is_default")]
    pub hyper_nodes: Vec<HyperNode>,
    /// The source that found HyperNodes.
    #[serde(deserialize_with = "null_is_default")]
    pub source: String,
    /// The HyperNodes that it found.
    #[serde(deserialize_with = "null_is_default")]
    pub found: Vec<HyperNode>,
    /// The configuration of the discovery by label.
    #[serde(deserialize_with = "null_is_default")]
    pub config: LabelConfig,
}

/// The outcome of a step.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum HyperNodeOutcome {
    /// Of a count.
    #[serde(rename_all = "camelCase")]
    Count {
        /// The number, if it is written.
        #[serde(skip_serializing_if = "Option::is_none")]
        node_count: Option<i64>,
    },
    /// Of the HyperNodes that a source found.
    #[serde(rename_all = "camelCase")]
    Reconciled {
        /// The HyperNodes afterwards.
        hyper_nodes: Vec<Value>,
        /// The calls: verb, name and subresource.
        writes: Vec<String>,
    },
    /// Of a discovery.
    Discovered {
        /// The HyperNodes that were found.
        found: Vec<Value>,
        /// The types of networks that were left out, and why.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ignored: Vec<String>,
    },
}

/// A file that is no step of the controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none; there are hypernode-count, hypernode-reconcile and hypernode-discover")]
pub struct UnknownKind(pub String);

impl HyperNodeCase {
    /// Whether files of this kind are such cases.
    pub fn has_kind(kind: &str) -> bool {
        kind.starts_with("hypernode")
    }

    /// The outcome; with `volcano` that of Volcano's controller.
    ///
    /// # Errors
    /// If the kind is none of these.
    pub fn answer(&self, volcano: bool) -> Result<HyperNodeOutcome, UnknownKind> {
        let nodes: Vec<&Metadata> = self.nodes.iter().map(|node| &node.metadata).collect();
        let known: Vec<&HyperNode> = self.hyper_nodes.iter().collect();
        Ok(match self.kind.as_str() {
            "hypernode-count" => {
                let named = known.iter().find(|known| known.metadata.name == self.name);
                let count = named.map(|known| (known.status.node_count, node_count(known, &nodes)));
                let count = count.filter(|(before, now)| before != now);
                HyperNodeOutcome::Count {
                    node_count: count.map(|(_, now)| now),
                }
            }
            "hypernode-reconcile" => self.reconcile(&known, volcano),
            "hypernode-discover" => {
                let discovery = Discovery::new(&self.config);
                let found = discovery.discover(&nodes, &known);
                let ignored = discovery.ignored().to_vec();
                let mut found: Vec<Value> = found.iter().map(|one| shown(one, &found)).collect();
                found.sort_by_key(Value::to_string);
                HyperNodeOutcome::Discovered {
                    found,
                    ignored: if volcano { Vec::new() } else { ignored },
                }
            }
            other => return Err(UnknownKind(other.to_owned())),
        })
    }

    fn reconcile(&self, known: &[&HyperNode], volcano: bool) -> HyperNodeOutcome {
        let mut after: BTreeMap<&str, HyperNode> = known
            .iter()
            .map(|known| (known.metadata.name.as_str(), (*known).clone()))
            .collect();
        let calls = changes(&self.source, known, &self.found, volcano);
        let mut writes = Vec::new();
        for call in &calls {
            match call {
                Change::Create(object) => {
                    let name = object.metadata.name.as_str();
                    writes.push(format!("create {name}"));
                    // The API server refuses a name that is taken.
                    after.entry(name).or_insert_with(|| object.clone());
                }
                Change::Update(object) => {
                    let name = object.metadata.name.as_str();
                    writes.push(format!("update {name}"));
                    if volcano {
                        writes.push(format!("update {name} status"));
                    }
                    after.insert(name, object.clone());
                }
                Change::Delete(name) => {
                    writes.push(format!("delete {name}"));
                    after.remove(name.as_str());
                }
            }
        }
        writes.sort();
        HyperNodeOutcome::Reconciled {
            hyper_nodes: after.into_values().map(|object| stored(&object)).collect(),
            writes,
        }
    }
}

/// A HyperNode as the API server stores it.
fn stored(object: &HyperNode) -> Value {
    let mut metadata = Map::new();
    for (field, map) in [
        ("annotations", &object.metadata.annotations),
        ("labels", &object.metadata.labels),
    ] {
        if !map.is_empty() {
            metadata.insert(field.to_owned(), json!(map));
        }
    }
    metadata.insert("name".to_owned(), json!(object.metadata.name));
    json!({"metadata": metadata, "spec": object.spec, "status": object.status})
}

/// A discovered HyperNode. A new one has `*` and its label in place of the random letters of its name.
fn shown(one: &Discovered, all: &[Discovered]) -> Value {
    let name_of = |label: &(String, String)| {
        let of_label = all.iter().find(|other| other.label == *label);
        let name = of_label.map(|other| {
            let (key, value) = &other.label;
            let new = || format!("{}-*({key}={value})", other.prefix);
            other.name.clone().unwrap_or_else(new)
        });
        name.unwrap_or_default()
    };
    let object = one.object(&name_of);
    let members = object.spec.members.iter().map(|member| {
        let exact = member.selector.exact_match.as_ref();
        let name = exact.map_or("", |exact| exact.name.as_str());
        format!("{} {name}", member.kind.as_str())
    });
    let mut members: Vec<String> = members.collect();
    members.sort();
    json!({
        "labels": object.metadata.labels,
        "members": members,
        "name": object.metadata.name,
        "tier": object.spec.tier,
        "tierName": object.spec.tier_name,
    })
}
