//! The nominated nodes of waiting pods (S5-109). Few pods have one, so a pod without a nomination takes no memory here.

use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Nominations {
    pods_by_node: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    node_by_pod: HashMap<Arc<str>, Arc<str>>,
}

impl Nominations {
    pub(super) fn node_of(&self, pod: &str) -> Option<&Arc<str>> {
        self.node_by_pod.get(pod)
    }

    /// The pods of a node in the order of their nomination.
    pub(super) fn on(&self, node: &str) -> &[Arc<str>] {
        self.pods_by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Nodes by name, with their pods.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.pods_by_node
            .iter()
            .map(|(node, pods)| (&**node, pods.as_slice()))
    }

    pub(super) fn remove(&mut self, pod: &str) {
        // Most of the time there are no nominations, and the removal would hash the UID first.
        if self.node_by_pod.is_empty() {
            return;
        }
        let Some(node) = self.node_by_pod.remove(pod) else {
            return;
        };
        if let Some(pods) = self.pods_by_node.get_mut(&node) {
            pods.retain(|other| **other != *pod);
            if pods.is_empty() {
                self.pods_by_node.remove(&node);
            }
        }
    }

    /// Replaces the nomination of the pod; an empty name removes it. The pod becomes the last one of its node.
    pub(super) fn set(&mut self, pod: &Arc<str>, node: &str) {
        self.remove(pod);
        if node.is_empty() {
            return;
        }
        let node: Arc<str> = self
            .pods_by_node
            .get_key_value(node)
            .map_or_else(|| node.into(), |(node, _)| Arc::clone(node));
        self.pods_by_node
            .entry(Arc::clone(&node))
            .or_default()
            .push(Arc::clone(pod));
        self.node_by_pod.insert(Arc::clone(pod), node);
    }
}
