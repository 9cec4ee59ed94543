//! The pods that exist already, by the workload that they belong to.

use crate::object::Object;
use evictd_pod::Node;
use evictd_pod::wire::{self, Metadata, OwnerReference};
use std::collections::{HashMap, HashSet};

/// Namespace, kind and name.
type Key = (String, String, String);

/// The nodes, pods and workloads of a cluster before other workloads are expanded.
#[derive(Debug, Clone, Default)]
pub struct Existing {
    pub(super) nodes: Vec<Node>,
    pods: HashSet<(String, String)>,
    running: HashMap<Key, Vec<RunningPod>>,
    /// Objects that are in the input, with the objects that their controllers made of them.
    children: HashMap<Key, Vec<Key>>,
    objects: HashSet<Key>,
}

#[derive(Debug, Clone)]
pub(super) struct RunningPod {
    pub(super) node: String,
}

impl Existing {
    /// Remembers a node, a pod or a workload.
    pub fn learn(&mut self, object: &Object) {
        match object {
            Object::Node(node) => self.nodes.push((**node).clone()),
            Object::Pod(manifest) => self.add_pod(&manifest.pod),
            Object::ReplicaSet(set) => self.add_workload("ReplicaSet", &set.metadata),
            Object::StatefulSet(set) => self.add_workload("StatefulSet", &set.metadata),
            _ => {}
        }
    }

    /// Adds a pod. One that has ended or is being deleted will be replaced.
    pub(super) fn add_pod(&mut self, pod: &wire::Pod) {
        let metadata = &pod.metadata;
        let namespace = metadata.namespace_or_default().to_owned();
        self.pods.insert((namespace, metadata.name.clone()));
        let has_ended = pod.status.phase.has_ended();
        if has_ended || metadata.deletion_timestamp.is_some() {
            return;
        }
        if let Some(owner) = controller_of(metadata) {
            let running = RunningPod {
                node: pod.spec.node_name.clone(),
            };
            let key = key(metadata, owner);
            self.running.entry(key).or_default().push(running);
        }
    }

    /// Adds a workload of the input.
    pub fn add_workload(&mut self, kind: &str, metadata: &Metadata) {
        let namespace = metadata.namespace_or_default().to_owned();
        let object = (namespace, kind.to_owned(), metadata.name.clone());
        if let Some(owner) = controller_of(metadata) {
            let key = key(metadata, owner);
            self.children.entry(key).or_default().push(object.clone());
        }
        self.objects.insert(object);
    }

    pub(super) fn has_pod(&self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        self.pods.contains(&key)
    }

    /// The workload of the input that makes the pods of another one, as a Deployment does those of its `ReplicaSets`.
    pub(super) fn owner_of(&self, metadata: &Metadata) -> Option<String> {
        let owner = controller_of(metadata)?;
        let key = key(metadata, owner);
        let (namespace, kind, name) = self.objects.get(&key)?;
        Some(format!("{kind} {namespace}/{name}"))
    }

    /// The pods of a workload, and those of the workloads that were made of it.
    pub(super) fn running(&self, namespace: &str, kind: &str, name: &str) -> Vec<&RunningPod> {
        let key = (namespace.to_owned(), kind.to_owned(), name.to_owned());
        let children = self.children.get(&key).into_iter().flatten();
        let workloads = std::iter::once(&key).chain(children);
        let pods = workloads.filter_map(|workload| self.running.get(workload));
        pods.flatten().collect()
    }
}

fn controller_of(metadata: &Metadata) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter();
    owners.find(|owner| owner.controller)
}

fn key(metadata: &Metadata, owner: &OwnerReference) -> Key {
    let namespace = metadata.namespace_or_default().to_owned();
    (namespace, owner.kind.clone(), owner.name.clone())
}
