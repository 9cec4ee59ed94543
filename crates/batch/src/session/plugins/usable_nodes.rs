//! The nodes that pods of a queue may use whatever runs there, and the amounts that these hold at most. A share beyond
//! these amounts starts no pod.

use super::node_group::NodeGroup;
use crate::conf::Conf;
use crate::session::predicates;
use crate::session::snapshot::ids::QueueId;
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::task::Task;
use crate::session::snapshot::{Job, Snapshot};
use evictd_placement::{
    Cluster, Domains, Here, Labels, NodeId, NodeSelector, Plugin, Pod, TemplateId, Toleration,
};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The number of nodes that a session may check for all jobs together, because a tenant chooses the number of jobs.
const MOST_CHECKS: usize = 1 << 18;

/// The number of node sets, because a tenant chooses the node selectors.
const MOST_SETS: usize = 64;

/// A set of nodes; the first one has all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SetId(usize);

/// The request of a pod, and the nodes that it may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand<'s> {
    pub(super) request: &'s Resource,
    pub(super) set: SetId,
}

/// Equal tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alike<'s> {
    pub(super) one: Demand<'s>,
    pub(super) count: usize,
}

struct NodeSet {
    /// By node; `None` for all nodes.
    members: Option<Box<[bool]>>,
    /// The most that pods of one queue can use on them.
    capacity: Resource,
}

impl NodeSet {
    fn contains(&self, node: NodeId) -> bool {
        let members = self.members.as_ref();
        members.is_none_or(|members| members[node.index()])
    }
}

/// The fields on which the set of a pod depends.
#[derive(PartialEq, Eq, Hash)]
struct SetKey {
    queue: Option<QueueId>,
    node_selector: Labels,
    node_affinity: Option<NodeSelector>,
    tolerations: Box<[Toleration]>,
}

pub(super) struct UsableNodes<'s> {
    snapshot: &'s Snapshot,
    cluster: &'s Cluster,
    node_group: Option<NodeGroup>,
    /// The filters whose result depends on the pod's spec and the node alone.
    filters: Vec<Box<dyn Plugin>>,
    sets: Vec<NodeSet>,
    by_template: HashMap<(Option<QueueId>, TemplateId), SetId>,
    by_key: HashMap<SetKey, SetId>,
    /// The number of nodes that may still be checked.
    left: usize,
}

impl<'s> UsableNodes<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, cluster: &'s Cluster, conf: &Conf) -> Self {
        let all = NodeSet {
            members: None,
            capacity: snapshot.total.clone(),
        };
        Self {
            snapshot,
            cluster,
            node_group: NodeGroup::of_conf(snapshot, cluster, conf),
            filters: predicates::of_specs(&conf.tiers),
            sets: vec![all],
            by_template: HashMap::new(),
            by_key: HashMap::new(),
            left: MOST_CHECKS,
        }
    }

    /// `None` for a pod that cannot be compiled, which never starts.
    pub(super) fn demand_of(&mut self, queue: QueueId, task: &'s Task) -> Option<Demand<'s>> {
        let set = self.set_of(queue, task.pod.as_ref()?);
        let request = &task.request;
        Some(Demand { request, set })
    }

    pub(super) fn is_restricted(&self, set: SetId) -> bool {
        self.sets[set.0].members.is_some()
    }

    fn set_of(&mut self, queue: QueueId, pod: &Pod) -> SetId {
        let queue = Some(queue).filter(|_| self.node_group.is_some());
        if let Some(known) = self.by_template.get(&(queue, pod.template)) {
            return *known;
        }
        let template = self.cluster.template(pod);
        let key = SetKey {
            queue,
            node_selector: template.node_selector.clone(),
            node_affinity: template.node_affinity.clone(),
            tolerations: template.tolerations.clone(),
        };
        let set = match self.by_key.get(&key) {
            Some(known) => *known,
            None => self.new_set(queue, pod),
        };
        self.by_key.insert(key, set);
        self.by_template.insert((queue, pod.template), set);
        set
    }

    /// The set of all nodes stands for any set once there are too many.
    fn new_set(&mut self, queue: Option<QueueId>, pod: &Pod) -> SetId {
        let nodes = self.snapshot.nodes.len();
        if self.sets.len() >= MOST_SETS || self.left < nodes {
            return SetId(0);
        }
        self.left -= nodes;
        let cluster = self.cluster;
        let filters = self.filters.iter();
        let filters: Vec<_> = filters
            .filter_map(|filter| filter.filter(cluster, pod))
            .collect();
        let groups = self.node_group.as_ref().zip(queue);
        let is_member = |node: NodeId| {
            let here = Here::new(cluster, node);
            let refused = groups.and_then(|(groups, queue)| groups.refused_by_rules(queue, node));
            refused.is_none() && filters.iter().all(|filter| filter.check(here).is_ok())
        };
        let members: Box<[bool]> = self.snapshot.node_ids().map(is_member).collect();
        let capacity = self.capacity_of(queue, &members);
        if members.iter().all(|member| *member) && capacity == self.snapshot.total {
            return SetId(0);
        }
        self.sets.push(NodeSet {
            members: Some(members),
            capacity,
        });
        SetId(self.sets.len() - 1)
    }

    /// The allocatable amounts of nodes, of each group at most the queue's limit there.
    fn capacity_of(&self, queue: Option<QueueId>, members: &[bool]) -> Resource {
        let mut by_group: BTreeMap<Option<usize>, Resource> = BTreeMap::new();
        let groups = self.node_group.as_ref();
        for node in self.snapshot.node_ids() {
            if members[node.index()] {
                let group = groups.and_then(|groups| groups.group_of(node));
                let sum = by_group.entry(group).or_default();
                sum.add(&self.snapshot.nodes[node.index()].allocatable);
            }
        }
        let mut capacity = Resource::default();
        for (group, mut sum) in by_group {
            if let Some(((groups, queue), group)) = groups.zip(queue).zip(group) {
                groups.lower_to_limit(&self.snapshot.dims, (queue, group), &mut sum);
            }
            capacity.add(&sum);
        }
        capacity
    }

    /// The capacity of the restricted sets without the room of the queue's running pods, by queue.
    pub(super) fn rooms(
        &self,
        sets: impl Iterator<Item = (QueueId, SetId)>,
    ) -> HashMap<QueueId, BTreeMap<SetId, Resource>> {
        let mut rooms: HashMap<QueueId, BTreeMap<SetId, Resource>> = HashMap::new();
        for (queue, set) in sets.filter(|(_, set)| self.is_restricted(*set)) {
            let rooms = rooms.entry(queue).or_default();
            let capacity = || self.sets[set.0].capacity.clone();
            rooms.entry(set).or_insert_with(capacity);
        }
        for (_, job) in self.snapshot.live_jobs() {
            let Some(rooms) = rooms.get_mut(&job.queue) else {
                continue;
            };
            let tasks = job.tasks.iter().map(|task| &self.snapshot.tasks[*task]);
            let held = tasks.filter(|task| task.status.is_allocated());
            for (node, task) in held.filter_map(|task| Some((task.node?, task))) {
                for (set, room) in &mut *rooms {
                    if self.sets[set.0].contains(node) {
                        *room = room.beyond(&task.request);
                    }
                }
            }
        }
        rooms
    }

    /// Whether `needed` of the demands may fit on nodes that are near enough to each other for the job.
    pub(super) fn may_fit(&mut self, job: &Job, demands: &[Demand<'_>], needed: usize) -> bool {
        let snapshot = self.snapshot;
        let groups = &snapshot.hyper_nodes;
        let network = job.network.as_ref();
        if let Some(tier) = network.and_then(|network| network.hard_tier(groups)) {
            let mut near = groups.ids().map(|id| groups.at(id));
            return near
                .any(|group| group.tier <= tier && self.may_hold(&group.nodes, demands, needed));
        }
        if job.topology().is_empty() {
            return self.may_hold(&snapshot.by_rank, demands, needed);
        }
        let mut domains: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        // A tenant chooses the labels, and finding their domains visits every node.
        self.left = self.left.saturating_sub(snapshot.nodes.len());
        let by_labels = Domains::new(self.cluster, job.topology().iter().map(AsRef::as_ref));
        for node in &snapshot.by_rank {
            if let Some(domain) = by_labels.at(*node) {
                domains.entry(domain).or_default().push(*node);
            }
        }
        let mut domains = domains.values();
        domains.any(|nodes| self.may_hold(nodes, demands, needed))
    }

    /// Whether `needed` of the demands may fit on some nodes together. Sums of amounts do not show that: three nodes of 4
    /// cores hold three tasks of 3 cores, not four. Competition between unequal tasks is left out, so that `true` proves
    /// nothing. It is also the answer once no check is left.
    fn may_hold(&mut self, nodes: &[NodeId], demands: &[Demand<'_>], needed: usize) -> bool {
        let mut held = 0.0;
        for alike in Alike::runs(demands) {
            if held >= number(needed) {
                break;
            }
            held += self.count(nodes, alike);
        }
        held >= number(needed)
    }

    /// The demands without those that the nodes cannot hold. No pod ever uses the share that is kept for them.
    pub(super) fn holdable<'r>(&mut self, demands: &[Demand<'r>]) -> Vec<Demand<'r>> {
        let snapshot = self.snapshot;
        let mut all = Vec::with_capacity(demands.len());
        for alike in Alike::runs(demands) {
            let held = self.count(&snapshot.by_rank, alike);
            let times = (0_u32..)
                .zip(0..alike.count)
                .take_while(|(at, _)| f64::from(*at) < held);
            all.extend(times.map(|_| alike.one));
        }
        all
    }

    /// How many equal demands some nodes hold without other pods. It is all of them once no check is left.
    fn count(&mut self, nodes: &[NodeId], alike: Alike<'_>) -> f64 {
        let most = number(alike.count);
        let set = &self.sets[alike.one.set.0];
        let mut count = 0.0;
        for node in nodes {
            if count >= most || self.left == 0 {
                break;
            }
            self.left -= 1;
            if set.contains(*node) {
                let allocatable = &self.snapshot.nodes[node.index()].allocatable;
                count += whole_times(alike.one.request.some(), allocatable);
            }
        }
        if self.left == 0 {
            most
        } else {
            count.min(most)
        }
    }
}

impl<'s> Alike<'s> {
    /// Runs of equal demands, because equal tasks come one after the other.
    pub(super) fn runs(demands: &[Demand<'s>]) -> impl Iterator<Item = Self> {
        let runs = demands.chunk_by(|one, other| one == other);
        runs.filter_map(|run| {
            let (one, count) = (*run.first()?, run.len());
            Some(Self { one, count })
        })
    }

    /// The part of an amount that these tasks alone can use: whole tasks only.
    pub(super) fn used_of(&self, left: &Resource) -> Resource {
        let request = self.one.request;
        let asked = request.some().filter(|(dim, _)| *dim != Dim::PODS);
        let mut used = request.clone();
        used.scale(whole_times(asked, left).min(number(self.count)));
        used
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// How many such requests fit into an amount.
fn whole_times(request: impl Iterator<Item = (Dim, f64)>, amount: &Resource) -> f64 {
    let times = request.map(|(dim, asked)| (amount.get(dim) / asked).floor());
    times.fold(f64::from(u32::MAX), f64::min)
}
