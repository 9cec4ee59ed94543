//! Which waiting pods a node is being freed for (S5-109).

use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Nominations {
    nodes: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    node_of: HashMap<Arc<str>, Arc<str>>,
}

impl Nominations {
    pub(crate) fn node_of(&self, pod: &str) -> Option<Arc<str>> {
        self.node_of.get(pod).cloned()
    }

    /// The pods of a node in the order of their nomination.
    pub(crate) fn on(&self, node: &str) -> &[Arc<str>] {
        self.nodes.get(node).map_or(&[], Vec::as_slice)
    }

    /// Nodes by name, with their pods.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        let nodes = self.nodes.iter();
        nodes.map(|(node, pods)| (&**node, pods.as_slice()))
    }

    pub(crate) fn remove(&mut self, pod: &str) {
        let Some(node) = self.node_of.remove(pod) else {
            return;
        };
        if let Some(pods) = self.nodes.get_mut(&node) {
            pods.retain(|other| **other != *pod);
            if pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
    }

    /// Replaces what is known of the pod; an empty name is none.
    pub(crate) fn set(&mut self, pod: &Arc<str>, node: &str) {
        self.remove(pod);
        if node.is_empty() {
            return;
        }
        let known = self.nodes.get_key_value(node);
        let node: Arc<str> = known.map_or_else(|| node.into(), |(node, _)| Arc::clone(node));
        let pods = self.nodes.entry(Arc::clone(&node)).or_default();
        pods.push(Arc::clone(pod));
        self.node_of.insert(Arc::clone(pod), node);
    }
}
