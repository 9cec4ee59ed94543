//! Evicted pods that still exist as objects, to find the nodes that evicted a controller's pods.

use evictd_pod::wire;
use evictd_pod::wire::PodPhase;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Namespace, kind and name of a controller.
pub(crate) type Controller = (Box<str>, Box<str>, Box<str>);

/// The evicted pods that exist, with their nodes.
#[derive(Debug, Default)]
pub(crate) struct Evicted {
    /// Each controller's evicted pods by key, with their nodes.
    by_controller: HashMap<Controller, HashMap<Arc<str>, Box<str>>>,
    /// The controller of each pod, by key.
    controllers: HashMap<Arc<str>, Controller>,
}

impl Evicted {
    /// Records a finished pod if it was evicted and has a controller. Returns whether the record changed.
    pub(crate) fn put(&mut self, key: &str, pod: &wire::Pod) -> bool {
        let known = self.remove(key);
        let evicted = pod.status.phase == PodPhase::Failed && pod.status.reason == "Evicted";
        let mut owners = pod.metadata.owner_references.iter();
        let Some(owner) = owners.find(|owner| owner.controller && evicted) else {
            return known;
        };
        let namespace = pod.metadata.namespace_or_default();
        let controller = (
            namespace.into(),
            owner.kind.as_str().into(),
            owner.name.as_str().into(),
        );
        let key: Arc<str> = key.into();
        let node = pod.spec.node_name.as_str().into();
        let pods = self.by_controller.entry(Controller::clone(&controller));
        pods.or_default().insert(Arc::clone(&key), node);
        self.controllers.insert(key, controller);
        true
    }

    /// Forgets a pod. Returns whether it was recorded.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let Some(controller) = self.controllers.remove(key) else {
            return false;
        };
        if let Some(pods) = self.by_controller.get_mut(&controller) {
            pods.remove(key);
            if pods.is_empty() {
                self.by_controller.remove(&controller);
            }
        }
        true
    }

    /// The nodes that have evicted pods of this controller.
    pub(crate) fn nodes(&self, controller: &Controller) -> Option<HashSet<Box<str>>> {
        let pods = self.by_controller.get(controller)?;
        Some(pods.values().cloned().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_controller.is_empty()
    }
}
