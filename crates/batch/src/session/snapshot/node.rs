//! A node of a snapshot.

use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::resource::{Dim, Dims, Resource, Unnamed, at_most, number};
use evictd_placement::{Amounts, Cluster, NodeId, Symbol};
use evictd_pod::resources::EPHEMERAL_STORAGE;

/// The amounts and tasks of a node (S6-091). The cluster alone counts the pods on a node; these amounts are derived from
/// its sums in the session's number type.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) allocatable: Resource,
    /// Thousandths of a core and bytes of memory, reserved ones included.
    pub(crate) capacity: [f64; 2],
    pub(crate) idle: Resource,
    pub(crate) used: Resource,
    pub(crate) releasing: Resource,
    /// The requests of tasks that wait for room here. The cluster counts them already.
    pub(crate) pipelined: Resource,
    /// The requests of tasks that the session evicts. The cluster no longer counts them.
    evicted: Resource,
    /// Tasks of jobs on it.
    pub(crate) tasks: Vec<TaskId>,
}

/// Whether evictions made room for a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Freed {
    /// They made none, or others have taken it.
    #[default]
    None,
    /// Victims still hold a part of it.
    Later,
    /// All of it is free.
    Now,
}

impl Node {
    /// Reads all amounts from the cluster, between sessions.
    pub(crate) fn read(&mut self, cluster: &Cluster, dims: &mut Dims, id: NodeId) {
        let node = cluster.node(id);
        let mut read = |amounts: &Amounts| {
            let scalars = cluster.scalars(amounts.scalars).iter().copied();
            let mut resource = Resource::default();
            add_amounts(&mut resource, cluster, dims, amounts, scalars);
            resource
        };
        self.allocatable = read(&node.allocatable);
        self.allocatable.set(Dim::PODS, number(node.allowed_pods));
        self.capacity = node.capacity.map(number);
        self.releasing = Resource::default();
        for pod in node.pods.iter().filter(|pod| pod.terminating) {
            self.releasing.add(&read(&pod.amounts));
            self.releasing.add_to(Dim::PODS, 1.0);
        }
        self.pipelined = Resource::default();
        self.evicted = Resource::default();
        self.refresh(cluster, dims, id);
    }

    /// Reads the sums of the pods on the node, which have changed.
    pub(crate) fn refresh(&mut self, cluster: &Cluster, dims: &mut Dims, id: NodeId) {
        let node = cluster.node(id);
        let scalars = node.requested_scalars.iter();
        self.used.clear();
        add_amounts(&mut self.used, cluster, dims, &node.requested, scalars);
        if let Ok(pods @ 1..) = i64::try_from(node.pods.len()) {
            self.used.set(Dim::PODS, number(pods));
        }
        self.used.add(&self.evicted);
        self.used.sub(&self.pipelined);
        self.idle.clone_from(&self.allocatable);
        self.idle.sub(&self.used);
    }

    /// A task waits for room here.
    pub(crate) fn pipeline(&mut self, request: &Resource) {
        self.pipelined.add(request);
    }

    /// The task no longer waits.
    pub(crate) fn unpipeline(&mut self, request: &Resource) {
        self.pipelined.sub(request);
    }

    /// The task waits elsewhere now, but its room stays promised.
    pub(crate) fn keep_promise(&mut self, request: &Resource) {
        self.pipelined.sub(request);
        self.releasing.sub(request);
    }

    /// A task here is evicted. It holds its room until it has ended.
    pub(crate) fn evict(&mut self, request: &Resource) {
        self.releasing.add(request);
        self.evicted.add(request);
    }

    /// The task stays.
    pub(crate) fn unevict(&mut self, request: &Resource) {
        self.releasing.sub(request);
        self.evicted.sub(request);
    }

    /// Every stored amount.
    pub(crate) fn amounts(&self) -> [&Resource; 6] {
        let Self {
            allocatable,
            idle,
            used,
            releasing,
            pipelined,
            evicted,
            capacity: _,
            tasks: _,
        } = self;
        [allocatable, idle, used, releasing, pipelined, evicted]
    }

    /// The idle amounts after the pending evictions.
    pub(crate) fn future_idle(&self) -> Resource {
        let mut idle = self.idle.clone();
        idle.add(&self.releasing);
        idle.sub(&self.pipelined);
        idle
    }

    /// Whether a request fits into the idle amounts.
    pub(crate) fn has_idle(&self, request: &Resource) -> bool {
        request.within(&self.idle, Unnamed::Zero)
    }

    /// Whether the idle amounts suffice for all tasks that wait for room here.
    pub(crate) fn covers_pipelined(&self) -> bool {
        self.pipelined.within(&self.idle, Unnamed::Zero)
    }

    /// The room for a request that waits for evictions here.
    pub(crate) fn freed_for(&self, request: &Resource) -> Freed {
        if !self.will_have(request) {
            Freed::None
        } else if self.has_idle(request) {
            Freed::Now
        } else {
            Freed::Later
        }
    }

    /// Whether it fits after the pending evictions.
    pub(crate) fn will_have(&self, request: &Resource) -> bool {
        self.lacks(request).is_none()
    }

    /// The first resource with too little room after pending evictions.
    pub(crate) fn lacks(&self, request: &Resource) -> Option<Dim> {
        let mut asked = request.iter();
        let lacking = asked.find(|(dim, amount)| {
            let idle = self.idle.get(*dim) + self.releasing.get(*dim) - self.pipelined.get(*dim);
            !at_most(*amount, idle)
        });
        lacking.map(|(dim, _)| dim)
    }
}

/// Adds amounts of the cluster as a session counts them; `scalars` are the rarer resources.
fn add_amounts(
    sum: &mut Resource,
    cluster: &Cluster,
    dims: &mut Dims,
    amounts: &Amounts,
    scalars: impl Iterator<Item = (Symbol, i64)>,
) {
    for (name, amount) in scalars {
        let name = cluster.symbols().text(name);
        sum.add_scalar(dims, name, number(amount) * 1000.0);
    }
    if amounts.ephemeral_storage != 0 {
        let amount = number(amounts.ephemeral_storage) * 1000.0;
        sum.add_scalar(dims, EPHEMERAL_STORAGE, amount);
    }
    sum.cpu += number(amounts.cpu);
    sum.memory += number(amounts.memory);
}
