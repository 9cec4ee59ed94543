//! The simulated cluster: pods and pod groups are updated in the cluster and in the cache, in the right order.

use super::objects;
use super::wire::{Queue, Trace};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Outcome, Setting};
use evictd_batch_objects::{Compat, PodGroup};
use evictd_placement::Cluster;
use evictd_pod::Node;
use evictd_pod::wire::Pod;

/// The queue above all others.
const ROOT: &str = "root";

#[derive(Debug)]
pub(super) struct World {
    cluster: Cluster,
    cache: Cache,
}

impl World {
    /// Queues, and no node or job yet.
    pub(super) fn new(trace: &Trace, queues: &[Queue]) -> Self {
        let cluster = Cluster::new();
        let mut cache = Cache::new(Setting::default());
        for hyper_node in trace.hyper_node_objects() {
            cache.hyper_node(&hyper_node);
        }
        let has_root = queues.iter().any(|queue| queue.name == ROOT);
        if !has_root && queues.iter().any(|queue| !queue.parent.is_empty()) {
            // Volcano's scheduler makes it when it starts.
            let root = Queue {
                name: ROOT.to_owned(),
                reclaimable: Some(false),
                weight: 1,
                ..Queue::default()
            };
            cache.queue(&objects::queue(&root));
        }
        for queue in queues {
            cache.queue(&objects::queue(queue));
        }
        for class in trace.classes() {
            cache.class(&class);
        }
        Self { cluster, cache }
    }

    /// A session at a time in milliseconds since the trace's beginning.
    pub(super) fn session(&mut self, now: u64, conf: &Conf, compat: Compat) -> Outcome {
        if let Some(now) = objects::timestamp(now) {
            self.cache.set_now(now);
        }
        self.cache.session(&mut self.cluster, conf, compat)
    }

    pub(super) fn node(&mut self, node: &Node) {
        self.cluster.add_node(node);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.cluster.remove_node(name);
    }

    pub(super) fn group(&mut self, group: &PodGroup) {
        self.cache.group(group);
    }

    pub(super) fn remove_group(&mut self, group: &PodGroup) {
        self.cache.remove_group(&group.metadata);
    }

    /// A pod came, got a node, a promise of one, or has to go. One that cannot be read, which no trace holds, counts as
    /// nothing on its node.
    pub(super) fn pod(&mut self, pod: &Pod) {
        let _ = self.cluster.add_pod(pod.clone());
        self.cache.pod(&mut self.cluster, pod);
    }

    /// A pod has come to its end, and its job has not.
    pub(super) fn ended(&mut self, pod: &Pod) {
        self.cache.pod(&mut self.cluster, pod);
        self.cluster.remove_pod(&pod.metadata);
    }

    pub(super) fn remove_pod(&mut self, pod: &Pod) {
        self.cache.remove_pod(&mut self.cluster, &pod.metadata);
        self.cluster.remove_pod(&pod.metadata);
    }
}
