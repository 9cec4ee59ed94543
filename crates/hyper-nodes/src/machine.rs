//! The controller of HyperNodes: those that are discovered, and the counts of all (S6-242 to S6-244).

use super::changes::{Change, changes};
use super::discovery::{Discovery, LABEL_SOURCE};
use super::object::HyperNode;
use super::selection::node_count;
use super::tree::MOST_HYPER_NODES;
use evictd_pod::wire::Metadata;
use evictd_reconcile::{Refusal, Retries};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long changes are collected before the HyperNodes are compared, because each comparison looks at all nodes.
const COLLECTING: SignedDuration = SignedDuration::from_millis(200);

/// The most calls under way. The controllers of jobs share the connection.
const MOST_CALLS: usize = 8;

/// Something that happens to nodes, HyperNodes or the configuration.
#[derive(Debug)]
pub enum HyperNodeEvent {
    /// A node was added or has changed.
    Node(Metadata),
    /// The node of this name was deleted.
    NodeGone(String),
    /// A HyperNode was added or has changed.
    HyperNode(Arc<HyperNode>),
    /// A HyperNode was deleted.
    HyperNodeGone(Arc<HyperNode>),
    /// Another configuration; without one the discovered HyperNodes stay as they are.
    Discovery(Option<Discovery>),
    /// All nodes and HyperNodes are listed. No call is made before.
    Listed,
    /// The answer to [`HyperNodeCommand::Call`].
    Answer(String, HyperNodeAnswer),
    /// The time of [`HyperNodeCommand::Wake`] has come.
    Tick,
}

/// The answer to a call: the HyperNode as it is stored now, or nothing after its deletion.
pub type HyperNodeAnswer = Result<Option<Arc<HyperNode>>, Refusal>;

/// A call about one HyperNode.
#[derive(Debug, Clone, PartialEq)]
pub enum HyperNodeCall {
    /// Creates this object.
    Create(Value),
    /// A JSON merge patch of labels and spec.
    Patch(Value),
    /// A JSON merge patch of the status.
    PatchStatus(Value),
    /// Deletes it with these preconditions.
    Delete(Value),
}

/// Something that is to be done.
#[derive(Debug, PartialEq)]
pub enum HyperNodeCommand {
    /// Make this call about the HyperNode of this name, and bring [`HyperNodeEvent::Answer`].
    Call(String, HyperNodeCall),
    /// Bring [`HyperNodeEvent::Tick`] at this time, which replaces the earlier one.
    Wake(Timestamp),
    /// The discovery is suspended, and why.
    Suspended(String),
}

/// The controller.
#[derive(Debug, Default)]
pub struct HyperNodeMachine {
    discovery: Option<Discovery>,
    nodes: BTreeMap<String, Metadata>,
    hyper_nodes: BTreeMap<String, Arc<HyperNode>>,
    /// The counts of HyperNodes that have not changed since.
    counts: BTreeMap<String, i64>,
    listed: bool,
    /// When the HyperNodes are compared again.
    due: Option<Timestamp>,
    waiting: BTreeMap<String, HyperNodeCall>,
    /// The HyperNodes with a call under way, each with the version that it had then.
    active: BTreeMap<String, Box<str>>,
    retries: Retries<String>,
    /// Names that the API server has refused, because another object has them.
    taken: BTreeSet<String>,
    suspended: bool,
}

impl HyperNodeMachine {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event; returns the commands, in order.
    pub fn on_event(&mut self, now: Timestamp, event: HyperNodeEvent) -> Vec<HyperNodeCommand> {
        self.note(now, event);
        if !self.listed {
            return Vec::new();
        }
        while self.retries.due(now).is_some() {
            self.due = Some(now);
        }
        let mut commands = Vec::new();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.compare(now, &mut commands);
        }
        while self.active.len() < MOST_CALLS
            && let Some((name, call)) = self.waiting.pop_first()
        {
            let known = self.hyper_nodes.get(&name);
            let version = known.map(|known| known.metadata.resource_version.clone());
            self.active
                .insert(name.clone(), version.unwrap_or_default());
            commands.push(HyperNodeCommand::Call(name, call));
        }
        let next = self.due.into_iter().chain(self.retries.next()).min();
        commands.extend(next.map(HyperNodeCommand::Wake));
        commands
    }

    fn note(&mut self, now: Timestamp, event: HyperNodeEvent) {
        match event {
            HyperNodeEvent::Node(node) => {
                let known = self.nodes.get(&node.name);
                // Nodes report their state often; only their labels matter here.
                if known.is_some_and(|known| known.labels == node.labels) {
                    return;
                }
                self.counts.clear();
                self.nodes.insert(node.name.clone(), node);
            }
            HyperNodeEvent::NodeGone(name) => {
                self.counts.clear();
                self.nodes.remove(&name);
            }
            HyperNodeEvent::HyperNode(hyper_node) => self.store(hyper_node),
            HyperNodeEvent::HyperNodeGone(hyper_node) => {
                let name = &hyper_node.metadata.name;
                let known = self.hyper_nodes.get(name);
                // Another one may have the name already.
                if known.is_some_and(|known| known.metadata.uid == hyper_node.metadata.uid) {
                    self.forget(name);
                }
                self.taken.remove(name);
            }
            HyperNodeEvent::Discovery(discovery) => self.discovery = discovery,
            HyperNodeEvent::Listed => {
                self.listed = true;
                self.due = Some(now);
                return;
            }
            HyperNodeEvent::Answer(name, answer) => self.answered(now, name, answer),
            HyperNodeEvent::Tick => return,
        }
        let due = now.checked_add(COLLECTING).unwrap_or(now);
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }

    fn answered(&mut self, now: Timestamp, name: String, answer: HyperNodeAnswer) {
        let before = self.active.remove(&name);
        match answer {
            // A definition without the written field, or a webhook, keeps it as it was: at once it would be written again.
            Ok(Some(stored)) if before.as_ref() == Some(&stored.metadata.resource_version) => {
                self.retries.failed(name, None, now);
            }
            Ok(stored) => {
                self.retries.succeeded(&name);
                match stored {
                    Some(stored) => self.store(stored),
                    None => self.forget(&name),
                }
            }
            Err(Refusal::AlreadyExists) => {
                self.retries.succeeded(&name);
                self.taken.insert(name);
            }
            Err(_) => {
                self.retries.failed(name, None, now);
            }
        }
    }

    fn store(&mut self, new: Arc<HyperNode>) {
        let name = &new.metadata.name;
        // A watch event may be older than the answer to a write.
        if let Some(known) = self.hyper_nodes.get(name)
            && !is_newer(known, &new)
        {
            return;
        }
        self.counts.remove(name);
        self.hyper_nodes.insert(name.clone(), new);
    }

    fn forget(&mut self, name: &str) {
        self.hyper_nodes.remove(name);
        self.counts.remove(name);
    }

    /// Compares the HyperNodes with the wanted ones. The resulting calls replace those that wait.
    fn compare(&mut self, now: Timestamp, commands: &mut Vec<HyperNodeCommand>) {
        let nodes: Vec<&Metadata> = self.nodes.values().collect();
        let known: Vec<&HyperNode> = self.hyper_nodes.values().map(AsRef::as_ref).collect();
        let mut calls = BTreeMap::new();
        if let Some(discovery) = &self.discovery {
            let found = discovery.objects(&nodes, &known, &self.taken);
            let too_many = found.len() > MOST_HYPER_NODES;
            if too_many && !self.suspended {
                commands.push(HyperNodeCommand::Suspended(format!(
                    "the labels of the nodes make {} HyperNodes, and at most {MOST_HYPER_NODES} are possible: those that exist stay as they are",
                    found.len()
                )));
            }
            self.suspended = too_many;
            if !too_many {
                let changes = changes(LABEL_SOURCE, &known, &found, false);
                calls.extend(changes.into_iter().map(|change| self.call(change)));
            }
        }
        for hyper_node in known {
            let name = &hyper_node.metadata.name;
            let count = self.counts.entry(name.clone());
            let count = *count.or_insert_with(|| node_count(hyper_node, &nodes));
            if count != hyper_node.status.node_count && !calls.contains_key(name) {
                let patch = json!({
                    "metadata": {"uid": &*hyper_node.metadata.uid}, "status": {"nodeCount": count},
                });
                calls.insert(name.clone(), HyperNodeCall::PatchStatus(patch));
            }
        }
        let later = self.retries.waiting(now);
        calls.retain(|name, _| !later.contains(name) && !self.active.contains_key(name));
        self.waiting = calls;
    }

    fn call(&self, change: Change) -> (String, HyperNodeCall) {
        match change {
            Change::Create(object) => {
                let HyperNode { metadata, spec, .. } = object;
                let body = json!({
                    "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
                    "metadata": {"name": metadata.name, "labels": metadata.labels}, "spec": spec,
                });
                (metadata.name, HyperNodeCall::Create(body))
            }
            Change::Update(object) => {
                let HyperNode { metadata, spec, .. } = object;
                let patch = json!({
                    // A person may have taken the label of its source away meanwhile.
                    "metadata": {"resourceVersion": metadata.resource_version, "labels": metadata.labels},
                    "spec": spec,
                });
                (metadata.name, HyperNodeCall::Patch(patch))
            }
            Change::Delete(name) => {
                let known = self.hyper_nodes.get(&name).map(|known| &known.metadata);
                let preconditions = known.map(
                    |known| json!({"uid": &*known.uid, "resourceVersion": known.resource_version}),
                );
                let options = json!({"preconditions": preconditions});
                (name, HyperNodeCall::Delete(options))
            }
        }
    }
}

/// Whether a HyperNode is a later state of the known one. Versions of one object are numbers that grow.
fn is_newer(known: &HyperNode, new: &HyperNode) -> bool {
    let (known, new) = (&known.metadata, &new.metadata);
    let version = |text: &str| text.parse::<u64>().ok();
    let versions = version(&known.resource_version).zip(version(&new.resource_version));
    known.uid != new.uid || versions.is_none_or(|(known, new)| known < new)
}
