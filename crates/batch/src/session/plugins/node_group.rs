//! Plugin nodegroup: queues use or avoid groups of nodes (S6-207 to S6-210).

use super::{OnNode, Plugin};
use crate::conf::{self, Conf, PluginName, Switch};
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::ids::{QueueId, TaskId};
use crate::session::snapshot::resource::{Dims, Resource};
use crate::session::snapshot::{Queue, Snapshot};
use evictd_batch_objects::{Affinity, NodeGroups};
use evictd_placement::{Cluster, NodeId};
use evictd_pod::wire::ResourceList;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// The label of a node that names its group.
const GROUP: &str = "volcano.sh/nodegroup-name";
const REQUIRED: f64 = 100.0;
const PREFERRED: f64 = 50.0;

/// A group by its place among all groups.
type Group = usize;

#[derive(Debug)]
pub(super) struct NodeGroup {
    strict: bool,
    orders_preferred: bool,
    groups: Vec<Box<str>>,
    /// By node.
    group_of: Vec<Option<Group>>,
    /// By queue.
    rules: Vec<Option<Rules>>,
    /// Of each queue that has limits.
    limits: HashMap<QueueId, Limits>,
    /// Where the tasks of such queues count.
    placed: HashMap<TaskId, Group>,
}

/// The groups that a queue uses or avoids.
#[derive(Debug, Default)]
struct Rules {
    required: Vec<Box<str>>,
    preferred: Vec<Box<str>>,
    avoided: Vec<Box<str>>,
    rather_avoided: Vec<Box<str>>,
}

impl Rules {
    fn of(affinity: &Affinity) -> Self {
        let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        let required = |groups: &NodeGroups| {
            names(&groups.required_during_scheduling_ignored_during_execution)
        };
        let preferred = |groups: &NodeGroups| {
            names(&groups.preferred_during_scheduling_ignored_during_execution)
        };
        let (uses, avoids) = (
            affinity.node_group_affinity.as_ref(),
            affinity.node_group_anti_affinity.as_ref(),
        );
        Self {
            required: uses.map(required).unwrap_or_default(),
            preferred: uses.map(preferred).unwrap_or_default(),
            avoided: avoids.map(required).unwrap_or_default(),
            rather_avoided: avoids.map(preferred).unwrap_or_default(),
        }
    }

    /// A queue above gives its rules to a queue without an affinity, not to one with an empty affinity.
    fn is_empty(&self) -> bool {
        let all = [
            &self.required,
            &self.preferred,
            &self.avoided,
            &self.rather_avoided,
        ];
        all.into_iter().all(Vec::is_empty)
    }

    fn admit(&self, group: &str) -> bool {
        let named = |groups: &[Box<str>]| groups.iter().any(|name| **name == *group);
        if named(&self.rather_avoided) {
            return true;
        }
        (named(&self.required) || named(&self.preferred)) && !named(&self.avoided)
    }

    fn score(&self, group: &str, ordered: bool) -> f64 {
        let at = |groups: &[Box<str>]| groups.iter().position(|name| **name == *group);
        if at(&self.rather_avoided).is_some() {
            return -1.0;
        }
        let required = at(&self.required).map_or(0.0, |_| REQUIRED);
        // As in Volcano, of a group that is named twice the last place counts, and it is one group.
        let place = self.preferred.iter().rposition(|name| **name == *group);
        let preferred = place.map_or(0.0, |place| {
            if !ordered {
                return PREFERRED;
            }
            let all = self.preferred.iter().collect::<HashSet<_>>().len();
            #[expect(clippy::cast_precision_loss, reason = "there are few groups")]
            let part = (all as f64 - place as f64) / all as f64;
            PREFERRED * part
        });
        required + preferred
    }
}

/// The most that a queue may hold in groups.
#[derive(Debug, Default)]
struct Limits {
    /// The annotation cannot be read.
    invalid: bool,
    by_group: BTreeMap<Box<str>, ResourceList>,
    /// The amounts that it holds, by group and then by resource.
    held: HashMap<Group, Resource>,
}

impl NodeGroup {
    pub(super) fn open(snapshot: &Snapshot, cluster: &Cluster, plugin: &conf::Plugin) -> Self {
        let mut groups: Vec<Box<str>> = Vec::new();
        let label = cluster.symbols().get(GROUP);
        let mut group_of = Vec::with_capacity(snapshot.nodes.len());
        for node in snapshot.node_ids() {
            let name = label.and_then(|label| cluster.node(node).labels.get(label));
            group_of.push(name.map(|name| {
                let name = cluster.symbols().text(name);
                let known = groups.iter().position(|group| **group == *name);
                known.unwrap_or_else(|| {
                    groups.push(name.into());
                    groups.len() - 1
                })
            }));
        }
        let inherits = plugin.is_hierarchical();
        let mut this = Self {
            strict: plugin.arguments.boolean("strict", true),
            orders_preferred: plugin.arguments.boolean("enablePreferredOrder", false),
            groups,
            group_of,
            rules: snapshot
                .queue_ids()
                .map(|queue| rules_of(snapshot, queue, inherits))
                .collect(),
            limits: snapshot.live_queues().filter_map(limits_of).collect(),
            placed: HashMap::new(),
        };
        for (_, job) in snapshot.live_jobs() {
            let tasks = job.tasks.iter().copied();
            for task in tasks.filter(|task| snapshot.tasks[*task].status.is_allocated()) {
                this.count(snapshot, task);
            }
        }
        this
    }

    /// Counts a task that has a node.
    fn count(&mut self, snapshot: &Snapshot, id: TaskId) {
        let task = &snapshot.tasks[id];
        let group = task.node.and_then(|node| self.group_of[node.index()]);
        let limits = self.limits.get_mut(&snapshot.jobs[task.job].queue);
        if let Some((group, limits)) = group.zip(limits) {
            limits.held.entry(group).or_default().add(&task.request);
            self.placed.insert(id, group);
        }
    }

    /// The plugin of a configuration, where it filters nodes.
    pub(super) fn of_conf(snapshot: &Snapshot, cluster: &Cluster, conf: &Conf) -> Option<Self> {
        let mut named = conf.tiers.iter().flatten();
        let last = named.rfind(|plugin| plugin.name == PluginName::NodeGroup)?;
        let filters = last.at(Switch::Predicate);
        filters.then(|| Self::open(snapshot, cluster, last))
    }

    /// Why a queue's rules refuse a node whatever is on it, in words.
    pub(super) fn refused_by_rules(&self, queue: QueueId, node: NodeId) -> Option<&'static str> {
        let rules = self.rules[queue].as_ref().filter(|rules| !rules.is_empty());
        let Some(group) = self.group_of[node.index()] else {
            let free = !self.strict && rules.is_none();
            return (!free).then_some("node group label not found");
        };
        let Some(rules) = rules else {
            return Some("node group affinity not specified");
        };
        let admits = rules.admit(&self.groups[group]);
        (!admits).then_some("node does not satisfy the node group affinity")
    }

    pub(super) fn group_of(&self, node: NodeId) -> Option<usize> {
        self.group_of[node.index()]
    }

    /// Lowers an amount to the most that a queue may hold in a group.
    pub(super) fn lower_to_limit(
        &self,
        dims: &Dims,
        (queue, group): (QueueId, usize),
        amount: &mut Resource,
    ) {
        let Some(limits) = self.limits.get(&queue) else {
            return;
        };
        if limits.invalid {
            amount.clear();
            return;
        }
        let limit = limits.by_group.get(&self.groups[group]);
        for (name, most) in limit.into_iter().flat_map(ResourceList::iter) {
            if let Some(dim) = dims.find(name) {
                let most = Dims::amount(dim, most);
                amount.set(dim, amount.get(dim).min(most));
            }
        }
    }

    /// Why a queue's rules or limits refuse a group, in words.
    fn reason(&self, snapshot: &Snapshot, id: TaskId, node: NodeId) -> Option<&'static str> {
        let task = &snapshot.tasks[id];
        let queue = snapshot.jobs[task.job].queue;
        let limits = self.limits.get(&queue);
        if limits.is_some_and(|limits| limits.invalid) {
            return Some("node group resource limit annotation invalid");
        }
        if let Some(refused) = self.refused_by_rules(queue, node) {
            return Some(refused);
        }
        let group = self.group_of[node.index()]?;
        let name = &self.groups[group];
        let limits = limits?;
        let limit = limits.by_group.get(name)?;
        let held = limits.held.get(&group);
        let exceeds = limit.iter().any(|(name, most)| {
            // No object names the resource, so that nothing is held.
            let Some(dim) = snapshot.dims.find(name) else {
                return most.nano_value() < 0;
            };
            let amount = held.map_or(0.0, |held| held.get(dim)) + task.request.get(dim);
            amount > Dims::amount(dim, most)
        });
        exceeds.then_some("node group resource limit exceeded")
    }
}

/// The rules of a queue, or of the nearest queue above it that has some.
fn rules_of(snapshot: &Snapshot, queue: QueueId, inherits: bool) -> Option<Rules> {
    let mut at = Some(queue);
    // The parents may form a circle.
    for _ in snapshot.queue_ids() {
        let queue = &snapshot.queues[at?];
        if let Some(affinity) = &queue.affinity {
            return Some(Rules::of(affinity));
        }
        at = queue.parent.filter(|_| inherits);
    }
    None
}

/// The limits by group, as the annotation of a queue has them.
type GroupLimits = BTreeMap<Box<str>, Option<ResourceList>>;

fn limits_of((id, queue): (QueueId, &Queue)) -> Option<(QueueId, Limits)> {
    let text = queue
        .group_limits
        .as_deref()
        .filter(|text| !text.is_empty())?;
    // Null limits nothing, as in Volcano.
    let read: Result<Option<GroupLimits>, _> = serde_json::from_str(text);
    let invalid = read.is_err();
    let groups = read.ok().flatten().into_iter().flatten();
    let limits = Limits {
        invalid,
        by_group: groups
            .filter_map(|(group, limit)| Some((group, limit?)))
            .collect(),
        held: HashMap::new(),
    };
    Some((id, limits))
}

impl Plugin for NodeGroup {
    fn node_key(&self, snapshot: &Snapshot, task: TaskId) -> u64 {
        snapshot.jobs[snapshot.tasks[task].job].queue.index() as u64
    }

    fn looks_beyond(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        let queue = snapshot.jobs[snapshot.tasks[task].job].queue;
        self.limits.contains_key(&queue)
    }

    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        let reason = self.reason(at.snapshot, at.task, at.node)?;
        Some(Refusal {
            texts: vec![reason.to_owned()],
            unresolvable: true,
            ..Refusal::default()
        })
    }

    fn node_score(&self, at: OnNode<'_>) -> f64 {
        let queue = at.snapshot.jobs[at.snapshot.tasks[at.task].job].queue;
        let rules = self.rules[queue].as_ref();
        let group = self.group_of[at.node.index()];
        rules.zip(group).map_or(0.0, |(rules, group)| {
            rules.score(&self.groups[group], self.orders_preferred)
        })
    }

    fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        self.count(snapshot, task);
    }

    fn deallocated(&mut self, snapshot: &Snapshot, id: TaskId) {
        let task = &snapshot.tasks[id];
        let limits = self.limits.get_mut(&snapshot.jobs[task.job].queue);
        if let Some((group, limits)) = self.placed.remove(&id).zip(limits) {
            limits.held.entry(group).or_default().sub(&task.request);
        }
    }
}
