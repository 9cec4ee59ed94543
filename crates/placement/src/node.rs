//! The scheduler's view of a node, like kube-scheduler's `NodeInfo`.

use crate::features::Features;
use crate::labels::Labels;
use crate::pod::Pod;
use crate::pressure::Pressure;
use crate::resources::{Amounts, ScalarSums, Scalars, Scored};
use crate::symbol::{Held, Symbol};
use crate::template::Template;

/// A node with the pods on it.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: Symbol,
    /// Its labels.
    pub labels: Labels,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// The taints.
    pub taints: Box<[Taint]>,
    /// The optional kubelet features that it declares.
    pub features: Features,
    /// Allocatable resources.
    pub allocatable: Amounts,
    /// The allocatable number of pods.
    pub allowed_pods: i64,
    /// The thousandths of a core and bytes of memory that it has, reserved ones included. Allocatable ones where its status
    /// does not say.
    pub capacity: [i64; 2],
    /// Sum of its pods' requests, without scalar resources.
    pub requested: Amounts,
    /// Sum of its pods' requests of scalar resources.
    pub requested_scalars: ScalarSums,
    /// Sum of its pods' requests for scoring, with defaults for containers that request nothing.
    pub scored: Scored,
    /// How many volumes its pods name. This bounds the attached volumes from above.
    pub volumes: i64,
    /// How many of its pods have unknown requests. The node accepts no further pod meanwhile.
    pub unknown_pods: i64,
    /// The pressure that it reports.
    pub pressure: Pressure,
    /// The names of its images.
    pub images: Box<[Symbol]>,
    /// Its pods, the most important first. Namespace and name break ties.
    pub pods: Vec<Pod>,
    pub(crate) held: Held,
}

impl Node {
    /// Adds a pod's requests `times` times. Scalar resources are looked up by index.
    pub(crate) fn request(
        &mut self,
        pod: &Pod,
        template: &Template,
        lists: &[Scalars],
        times: i64,
    ) {
        self.volumes += template.named_volumes() * times;
        self.unknown_pods += i64::from(pod.unknown) * times;
        self.requested.add(&pod.amounts, times);
        self.scored.add(pod.scored, times);
        let list = &lists[pod.amounts.scalars.0 as usize];
        self.requested_scalars.add(list, times);
    }

    /// Whether both have equal properties, apart from their pods.
    pub(crate) fn has_equal_properties(&self, other: &Self) -> bool {
        self.name == other.name
            && self.labels == other.labels
            && self.unschedulable == other.unschedulable
            && self.taints == other.taints
            && self.features == other.features
            && self.allocatable == other.allocatable
            && self.allowed_pods == other.allowed_pods
            && self.capacity == other.capacity
            && self.pressure == other.pressure
            && self.images == other.images
    }

    /// Takes over the pods of the same node as it was before, with the sums over them.
    pub(crate) fn take_pods(&mut self, before: &mut Self) {
        // All fields are named, so that a new one cannot be forgotten here.
        let Self {
            name: _,
            labels: _,
            unschedulable: _,
            taints: _,
            features: _,
            allocatable: _,
            allowed_pods: _,
            capacity: _,
            requested,
            requested_scalars,
            scored,
            volumes,
            unknown_pods,
            pressure: _,
            images: _,
            pods,
            held: _,
        } = before;
        self.requested = *requested;
        self.requested_scalars = std::mem::take(requested_scalars);
        self.scored = *scored;
        self.volumes = *volumes;
        self.unknown_pods = *unknown_pods;
        self.pods = std::mem::take(pods);
    }

    /// The index in [`Node::pods`] from which all pods are below a priority.
    pub fn first_below(&self, priority: i32) -> usize {
        // Binary search would wait for memory at each step. A scan prefetches pods that the caller reads next anyway.
        let above = self.pods.iter().filter(|pod| pod.priority >= priority);
        above.count()
    }
}

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: Symbol,
    /// Value.
    pub value: Symbol,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: Symbol,
    /// Whether the effect is `NoSchedule` or `NoExecute`.
    pub forbids: bool,
}
