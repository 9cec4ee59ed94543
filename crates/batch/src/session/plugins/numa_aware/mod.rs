//! Plugin numa-aware: pods with whole processors get nodes where the kubelet can give them processors near to each other
//! (S6-223).

mod cpus;
mod hints;

use super::{OnNode, Plugin};
use crate::conf::Arguments;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::numa::{CpuSet, NumaTopology, text_of};
use crate::session::snapshot::task::NUMA_POLICY;
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::{Cluster, MAX_SCORE, NodeId};
use hashbrown::HashMap;
use std::sync::Arc;

/// A node with its processors that no pod has.
#[derive(Debug)]
struct Machine {
    topology: Arc<NumaTopology>,
    free: CpuSet,
    /// Those that the kubelet keeps for the system.
    reserved: CpuSet,
}

#[derive(Debug)]
pub(super) struct NumaAware {
    weight: f64,
    nodes: Vec<Option<Machine>>,
    /// A number for each policy and list of requests of containers.
    keys: HashMap<TaskId, u64>,
    assigned: HashMap<TaskId, (NodeId, CpuSet)>,
    /// Whether a node with too few processors is refused.
    needs_all: bool,
}

/// The policy that a pod asks for.
fn policy_of(snapshot: &Snapshot, task: TaskId) -> Option<&str> {
    let policy = snapshot.tasks[task].mark(NUMA_POLICY);
    policy.filter(|policy| !policy.is_empty() && *policy != "none")
}

impl NumaAware {
    pub(super) fn open(
        snapshot: &Snapshot,
        cluster: &Cluster,
        arguments: &Arguments,
        compat: Compat,
    ) -> Self {
        let nodes = snapshot.node_ids().map(|node| {
            let topology = snapshot
                .facts
                .numa
                .topologies
                .get(cluster.node_name(node))?;
            Some(Machine {
                topology: Arc::clone(topology),
                free: snapshot.free_cpus(node, topology),
                reserved: hints::reserved(topology),
            })
        });
        let mut numbers = HashMap::new();
        let mut keys = HashMap::new();
        for (_, job) in snapshot.live_jobs() {
            for id in &job.tasks {
                if let Some(cpus) = snapshot.tasks[*id].cpus() {
                    let next = numbers.len() as u64 + 1;
                    let key = (policy_of(snapshot, *id), cpus);
                    keys.insert(*id, *numbers.entry(key).or_insert(next));
                }
            }
        }
        Self {
            weight: arguments.whole("weight", 1.0),
            nodes: nodes.collect(),
            keys,
            assigned: HashMap::new(),
            needs_all: compat.has(Difference::EnoughProcessors),
        }
    }

    /// The processors that a task gets on a node; `None` if the kubelet there assigns none, or why the node does not fit.
    fn processors(&self, at: OnNode<'_>) -> Result<Option<CpuSet>, Refusal> {
        let Some(containers) = at.snapshot.tasks[at.task].cpus() else {
            return Ok(None);
        };
        let refused = |text: String, unresolvable: bool| Refusal {
            texts: vec![text],
            unresolvable,
            is_error: !unresolvable,
            ..Refusal::default()
        };
        let machine = self.nodes[at.node.index()].as_ref();
        let policy = policy_of(at.snapshot, at.task);
        if let Some(policy) = policy
            && let Some(reason) = reason_against(machine, policy)
        {
            return Err(refused(reason, false));
        }
        let Some(machine) = machine else {
            return Ok(None);
        };
        let topology = &machine.topology;
        let unused = ["", "none"].contains(&&*topology.topology_policy);
        if policy.is_none() && (&*topology.cpu_policy != "static" || unused) {
            return Ok(None);
        }
        let mut available = &machine.free - &machine.reserved;
        let mut all = CpuSet::new();
        for (name, milli) in containers {
            let choice = hints::choose(topology, &available, *milli);
            let cpus = choice.map(|choice| hints::assign(topology, &available, choice, *milli));
            // A node that does not report its processors may have enough.
            let needs_all = self.needs_all && topology.cpus.is_some();
            let enough = |cpus: &CpuSet| !needs_all || cpus.len() >= hints::whole_cpus(*milli);
            let Some(cpus) = cpus.filter(enough) else {
                let text = format!("container {name} cannot be assigned by numa");
                return Err(refused(text, true));
            };
            available = &available - &cpus;
            all.extend(cpus);
        }
        Ok(Some(all))
    }
}

/// Why a task with a policy may not be on a node.
fn reason_against(machine: Option<&Machine>, policy: &str) -> Option<String> {
    let Some(Machine { topology, free, .. }) = machine else {
        return Some("numa info is empty".to_owned());
    };
    if &*topology.cpu_policy != "static" {
        return Some("cpu manager policy isn't static".to_owned());
    }
    let offered = &*topology.topology_policy;
    if policy != offered {
        return Some(format!(
            "task topology policy[{policy}] is different with node[{offered}]"
        ));
    }
    free.is_empty()
        .then(|| "cpu allocatable map is empty".to_owned())
}

impl Plugin for NumaAware {
    fn allocated(&mut self, snapshot: &Snapshot, id: TaskId) {
        let task = &snapshot.tasks[id];
        let node = task.node.filter(|_| task.placed.is_some());
        let Some(node) = node else {
            return;
        };
        let at = OnNode {
            snapshot,
            task: id,
            node,
        };
        if let Ok(Some(cpus)) = self.processors(at)
            && let Some(machine) = &mut self.nodes[node.index()]
        {
            machine.free = &machine.free - &cpus;
            self.assigned.insert(id, (node, cpus));
        }
    }

    fn deallocated(&mut self, _: &Snapshot, id: TaskId) {
        if let Some((node, cpus)) = self.assigned.remove(&id)
            && let Some(machine) = &mut self.nodes[node.index()]
        {
            machine.free.extend(cpus);
        }
    }

    fn node_key(&self, _: &Snapshot, task: TaskId) -> u64 {
        self.keys.get(&task).copied().unwrap_or(0)
    }

    /// The scores are in relation to those of other nodes.
    fn looks_beyond(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        self.keys.contains_key(&task) && policy_of(snapshot, task).is_some()
    }

    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        self.processors(at).err()
    }

    fn node_scores(&self, at: OnNode<'_>, nodes: &[NodeId]) -> Option<Vec<f64>> {
        if !self.looks_beyond(at.snapshot, at.task) {
            return None;
        }
        let counts = nodes.iter().map(|node| {
            let cpus = self.processors(OnNode { node: *node, ..at });
            let machine = self.nodes[node.index()].as_ref();
            if self.needs_all && cpus.is_err() {
                return None;
            }
            let both = machine.zip(cpus.ok().flatten());
            let count = both.map_or(0, |(machine, cpus)| {
                hints::numa_nodes_of(&machine.topology, &cpus)
            });
            Some(i64::from(count))
        });
        let counts: Vec<Option<i64>> = counts.collect();
        let most = counts.iter().copied().flatten().max().unwrap_or(0);
        let score = |count: Option<i64>| match (count, most) {
            (None, _) => 0,
            (Some(_), 0) => MAX_SCORE,
            (Some(count), most) => MAX_SCORE - MAX_SCORE * count / most,
        };
        #[expect(clippy::cast_precision_loss, reason = "scores are from 0 to 100")]
        let scores = counts
            .into_iter()
            .map(|count| score(count) as f64 * self.weight);
        Some(scores.collect())
    }

    fn processors_assigned(&self) -> Option<Vec<(TaskId, NodeId, String)>> {
        let all = self.assigned.iter();
        let all = all.map(|(task, (node, cpus))| (*task, *node, text_of(cpus)));
        Some(all.collect())
    }
}
