//! A node as placement sees it.

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
    /// Cordoned.
    pub unschedulable: bool,
    /// What keeps pods away.
    pub taints: Box<[Taint]>,
    /// The optional features that it declares.
    pub features: Features,
    /// What pods may ask for.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub allowed_pods: i64,
    /// What its pods ask for, without the rarer resources.
    pub requested: Amounts,
    /// What its pods ask for of the rarer resources.
    pub requested_scalars: ScalarSums,
    /// What its pods count for when nodes are scored.
    pub scored: Scored,
    /// How many volumes its pods name. It attaches no more, and fewer where pods share them.
    pub volumes: i64,
    /// How many of its pods ask for an unknown amount. It takes no further pod meanwhile.
    pub unknown_pods: i64,
    /// What it says about pressure.
    pub pressure: Pressure,
    /// The names of its images.
    pub images: Box<[Symbol]>,
    /// Its pods, the most important first; of equals the one whose namespace and name come first.
    pub pods: Vec<Pod>,
    pub(crate) held: Held,
}

impl Node {
    /// Counts what a pod of a template asks for, `times` times. Its rarer resources are a list by index.
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

    /// Whether both say the same, their pods aside.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.labels == other.labels
            && self.unschedulable == other.unschedulable
            && self.taints == other.taints
            && self.features == other.features
            && self.allocatable == other.allocatable
            && self.allowed_pods == other.allowed_pods
            && self.pressure == other.pressure
            && self.images == other.images
    }

    /// The pods below a priority: the end of [`Node::pods`], from this index on.
    pub fn first_below(&self, priority: i32) -> usize {
        // Every one is looked at, with no step waiting for another: this is the first touch of memory that is needed right
        // after, and halving would wait for it each time.
        let above = self.pods.iter().filter(|pod| pod.priority >= priority);
        above.count()
    }
}

/// What keeps pods away unless they tolerate it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: Symbol,
    /// Value.
    pub value: Symbol,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: Symbol,
    /// Whether pods that do not tolerate it must not be placed here.
    pub forbids: bool,
}
