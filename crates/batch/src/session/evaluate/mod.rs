//! Which nodes a task may use, and which are best, by kube-scheduler's filters and scores with Volcano's arguments
//! (S6-108, S6-109, S6-135 to S6-137).

mod binpack;
mod class_evaluation;
mod equivalence;
mod node_plugins;
mod winner_tree;

use super::plugins::{OnNode, Plugins};
use super::snapshot::Snapshot;
use super::topology::TopologyDomains;
use crate::conf::Plugin;
use crate::session::snapshot::fit::{FitError, NO_REASON, ReasonId, Reasons, Refusal};
use crate::session::snapshot::ids::{ClassId, DomainId, TaskId};
use crate::session::snapshot::roles::Role;
use class_evaluation::{ClassEvaluation, EvaluationKey, IDLE};
use equivalence::Classes;
use evictd_placement::Cluster;
use evictd_placement::NodeId;
use hashbrown::HashMap;
use node_plugins::NodePlugins;

/// The number of cached evaluations; an evicted class is evaluated anew.
const MOST_CLASSES: usize = 32;

/// Why a task without a compiled pod gets no node.
const NO_POD: &str = "it is on a node already";

/// Tasks of one kind get the same answer of every node: their specs are of one class, and plugins treat them alike, such as
/// those of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskKind {
    class: ClassId,
    of_plugins: u32,
}

/// The state that filters and scores read.
#[derive(Clone, Copy)]
pub(crate) struct View<'v> {
    pub(crate) cluster: &'v Cluster,
    pub(crate) snapshot: &'v Snapshot,
    pub(crate) plugins: &'v Plugins,
    /// The nodes that changed in this session, one after the other.
    pub(crate) log: &'v [NodeId],
    /// By node, whether it is reserved; empty without a reservation.
    pub(crate) reserved: &'v [bool],
    /// The topology domains of this session.
    pub(crate) domains: &'v TopologyDomains,
}

impl<'v> View<'v> {
    pub(crate) fn on(&self, task: TaskId, node: NodeId) -> OnNode<'v> {
        OnNode {
            snapshot: self.snapshot,
            task,
            node,
        }
    }

    /// Whether a node is reserved for a job that waits.
    pub(crate) fn is_reserved(&self, node: NodeId) -> bool {
        self.reserved.get(node.index()).copied().unwrap_or(false)
    }
}

/// The refusals of nodes by role within a turn. A node that refused once is not evaluated again.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    roles: HashMap<Role, Refusals>,
}

/// The first reason of each node, and how far the refusals of which evaluation were read.
#[derive(Debug)]
struct Refusals {
    by_node: Vec<ReasonId>,
    evaluation: u64,
    read: usize,
}

impl Refusals {
    fn none(nodes: usize) -> Self {
        Self {
            by_node: vec![NO_REASON; nodes],
            evaluation: 0,
            read: 0,
        }
    }

    /// Adds those of an evaluation that are new.
    fn add(&mut self, evaluation: &ClassEvaluation) {
        if self.evaluation != evaluation.made {
            self.evaluation = evaluation.made;
            self.read = 0;
        }
        for node in &evaluation.refusing[self.read..] {
            let reason = &mut self.by_node[node.index()];
            if *reason == NO_REASON {
                *reason = evaluation.reasons[node.index()];
            }
        }
        self.read = evaluation.refusing.len();
    }
}

#[derive(Default)]
pub(crate) struct Evaluator {
    node_plugins: NodePlugins,
    classes: Classes,
    /// The keys beside the class on which the plugins' answers about nodes depend, by number.
    keys: HashMap<Vec<u64>, u32>,
    evaluations: Vec<ClassEvaluation>,
    pub(crate) reasons: Reasons,
    clock: u64,
}

impl Evaluator {
    pub(crate) fn new(tiers: &[Vec<Plugin>], snapshot: &Snapshot) -> Self {
        Self {
            node_plugins: NodePlugins::new(tiers, &snapshot.dims),
            ..Self::default()
        }
    }

    /// The equivalence class of a task's spec. `None` for one that is on a node or cannot be compiled.
    pub(crate) fn class(&mut self, view: View<'_>, task: TaskId) -> Option<ClassId> {
        let task = &view.snapshot.tasks[task];
        let pod = task.pod.as_ref()?;
        Some(self.classes.of(view.cluster, pod, &task.request))
    }

    /// The kind of a task. `None` for one that is on a node or cannot be compiled.
    pub(crate) fn kind(&mut self, view: View<'_>, task: TaskId) -> Option<TaskKind> {
        let class = self.class(view, task)?;
        let keys = view.plugins.node_keys(view.snapshot, task);
        let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let of_plugins = *self.keys.entry(keys).or_insert(next);
        Some(TaskKind { class, of_plugins })
    }

    /// Whether a node might take a task if it had room there; with `others_go`, after evictions. Filters that look
    /// beyond the node are ignored, because their answer changes as others are placed.
    pub(crate) fn might_take(
        &mut self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
        others_go: bool,
    ) -> bool {
        let Ok(at) = self.evaluation(view, task, !others_go) else {
            return true;
        };
        let evaluation = &mut self.evaluations[at];
        let reason = evaluation.reasons[node.index()];
        if reason == NO_REASON || (evaluation.key.excluded && view.is_reserved(node)) {
            return reason == NO_REASON;
        }
        if others_go {
            return evaluation.coupled || !self.reasons.excludes(reason);
        }
        evaluation.coupled && evaluation.passes(view, node, true)
    }

    /// The place of a task's evaluation, which is up to date.
    fn evaluation(
        &mut self,
        view: View<'_>,
        id: TaskId,
        needs_room: bool,
    ) -> Result<usize, FitError> {
        let task = &view.snapshot.tasks[id];
        let Some(pod) = &task.pod else {
            let words = task.mistake.as_deref().unwrap_or(NO_POD);
            return Err(FitError::Words(words.into()));
        };
        let Some(kind) = self.kind(view, id) else {
            return Err(FitError::Words(NO_POD.into()));
        };
        self.clock += 1;
        let key = EvaluationKey {
            kind,
            needs_room,
            // A task that requests nothing takes no reserved room.
            excluded: !view.reserved.is_empty()
                && view.snapshot.jobs[task.job].excluded
                && !task.best_effort,
            within: view.snapshot.jobs[task.job].within,
        };
        let known = self
            .evaluations
            .iter()
            .position(|evaluation| evaluation.key == key);
        let at = if let Some(at) = known {
            let evaluation = &mut self.evaluations[at];
            evaluation.task = id;
            if !evaluation.refresh(view, &self.node_plugins, &mut self.reasons, pod) {
                let reasons = &mut self.reasons;
                *evaluation = ClassEvaluation::new(
                    view,
                    &self.node_plugins,
                    reasons,
                    (pod, &task.request, id),
                    (key, self.clock),
                );
            }
            at
        } else {
            let reasons = &mut self.reasons;
            let new = ClassEvaluation::new(
                view,
                &self.node_plugins,
                reasons,
                (pod, &task.request, id),
                (key, self.clock),
            );
            if self.evaluations.len() < MOST_CLASSES {
                self.evaluations.push(new);
                self.evaluations.len() - 1
            } else {
                let oldest = self.evaluations.iter().enumerate();
                // Each evaluation holds an entry for every node, so their number is bounded.
                let oldest = oldest.min_by_key(|(_, evaluation)| evaluation.used);
                let oldest = oldest.map_or(0, |(at, _)| at);
                self.evaluations[oldest] = new;
                oldest
            }
        };
        let evaluation = &mut self.evaluations[at];
        evaluation.used = self.clock;
        match &evaluation.refused {
            Some(refused) => Err(refused.clone()),
            None => Ok(at),
        }
    }

    /// The best node for a task; the first by name among equals. Nodes with idle room come before those with room
    /// later. With a turn, earlier refusals count.
    pub(crate) fn choose(
        &mut self,
        view: View<'_>,
        task: TaskId,
        needs_room: bool,
        turn: Option<&mut Turn>,
    ) -> Result<NodeId, FitError> {
        let at = self.evaluation(view, task, needs_room)?;
        let evaluation = &self.evaluations[at];
        let role = view.snapshot.tasks[task].role;
        let said: &[ReasonId] = match turn.filter(|_| role != 0) {
            None => &evaluation.reasons,
            Some(turn) => {
                let nodes = evaluation.reasons.len();
                let refusals = turn.roles.entry(role);
                let refusals = refusals.or_insert_with(|| Refusals::none(nodes));
                refusals.add(evaluation);
                &refusals.by_node
            }
        };
        if !evaluation.coupled
            && !evaluation.together
            && evaluation.uniform
            && let Some(rank) = evaluation.ratings.best()
        {
            let node = view.snapshot.by_rank[rank];
            if said[node.index()] == NO_REASON {
                return Ok(node);
            }
        }
        self.scan(view, task, evaluation, said)
    }

    /// Looks at every node that does not refuse.
    fn scan(
        &self,
        view: View<'_>,
        task: TaskId,
        evaluation: &ClassEvaluation,
        said: &[ReasonId],
    ) -> Result<NodeId, FitError> {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (rank, node) in view.snapshot.by_rank.iter().enumerate() {
            if said[node.index()] == NO_REASON {
                match evaluation.ratings.at(rank).class {
                    IDLE => now.push(*node),
                    _ => later.push(*node),
                }
            }
        }
        let nodes = if now.is_empty() { later } else { now };
        let order = self.ordered(view, task, evaluation, nodes);
        let best = order.first().copied();
        best.ok_or_else(|| match evaluation.key.within {
            Some(DomainId::Group(_)) if evaluation.elsewhere != NO_REASON => {
                // As in Volcano only the nodes of the group count.
                let group = view.domains.words_of(evaluation.key.within);
                FitError::of_nodes_in(&self.reasons, said, evaluation.elsewhere, &group)
            }
            _ => FitError::of_nodes(&self.reasons, said),
        })
    }

    /// Nodes from the best to the worst; `nodes` are in the order of their names, which decides between equals.
    fn ordered(
        &self,
        view: View<'_>,
        task: TaskId,
        evaluation: &ClassEvaluation,
        nodes: Vec<NodeId>,
    ) -> Vec<NodeId> {
        let Some(pod) = view.snapshot.tasks[task]
            .pod
            .as_ref()
            .filter(|_| nodes.len() > 1)
        else {
            return nodes;
        };
        let totals = evaluation.totals(view, &self.node_plugins, pod, &nodes);
        let mut rated: Vec<(f64, NodeId)> = totals.into_iter().zip(nodes).collect();
        rated.sort_by(|one, other| other.0.total_cmp(&one.0));
        rated.into_iter().map(|(_, node)| node).collect()
    }

    /// The nodes on which a task could be if others went, in the order of their names.
    pub(crate) fn reachable(&mut self, view: View<'_>, task: TaskId) -> Vec<NodeId> {
        let Ok(at) = self.evaluation(view, task, false) else {
            return Vec::new();
        };
        let evaluation = &self.evaluations[at];
        let nodes = view.snapshot.by_rank.iter().copied();
        let job = &view.snapshot.jobs[view.snapshot.tasks[task].job];
        // It may have been said while another domain was tried.
        let before = job.fit_errors.get(&task).filter(|_| job.within.is_none());
        let nodes = nodes.filter(|node| {
            // The reason from allocate still holds.
            let out = before.is_some_and(|error| error.is_unresolvable(*node));
            !out && !self.reasons.excludes(evaluation.reasons[node.index()])
        });
        nodes.collect()
    }

    /// Nodes from the best to the worst.
    pub(crate) fn by_score(
        &mut self,
        view: View<'_>,
        task: TaskId,
        nodes: Vec<NodeId>,
    ) -> Vec<NodeId> {
        match self.evaluation(view, task, false) {
            Ok(at) => self.ordered(view, task, &self.evaluations[at], nodes),
            Err(_) => nodes,
        }
    }

    /// The filters' current reason against a task on a node.
    pub(crate) fn refusal(
        &mut self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Option<&Refusal> {
        let at = self.evaluation(view, task, false).ok()?;
        let reason = self.evaluations[at].reasons[node.index()];
        (reason != NO_REASON).then(|| self.reasons.of(reason))
    }

    /// The reasons against a task by node; empty where a node does not refuse.
    pub(crate) fn refusals(
        &mut self,
        view: View<'_>,
        task: TaskId,
        needs_room: bool,
    ) -> Result<impl Iterator<Item = &[String]>, FitError> {
        let at = self.evaluation(view, task, needs_room)?;
        let reasons = self.evaluations[at].reasons.iter();
        Ok(reasons.map(|reason| self.reasons.of(*reason).texts.as_slice()))
    }

    /// How many nodes refuse a task whatever room they have, of how many, and the most frequent reasons with their plugins.
    /// Nothing if no node does.
    pub(crate) fn refusing(
        &mut self,
        view: View<'_>,
        task: TaskId,
    ) -> Option<(usize, usize, String)> {
        let at = self.evaluation(view, task, false).ok()?;
        let nodes = &self.evaluations[at].reasons;
        let refusing = nodes.iter().filter(|reason| **reason != NO_REASON);
        let count = refusing.clone().count();
        if count == 0 {
            return None;
        }
        Some((count, nodes.len(), self.reasons.most_frequent(refusing)))
    }

    /// Whether no filter rejects a task on a node, apart from the number of pods there.
    pub(crate) fn lacks_only_room(&mut self, view: View<'_>, task: TaskId, node: NodeId) -> bool {
        let refusal = self.refusal(view, task, node);
        refusal.is_none_or(|refusal| {
            refusal
                .texts
                .iter()
                .all(|text| text == class_evaluation::CROWDED)
        })
    }

    /// Whether all filters pass for a task on a node.
    pub(crate) fn passes(&mut self, view: View<'_>, task: TaskId, node: NodeId) -> bool {
        let at = self.evaluation(view, task, false);
        at.is_ok_and(|at| self.evaluations[at].reasons[node.index()] == NO_REASON)
    }

    /// Whether the filters that look beyond the node pass.
    pub(crate) fn passes_coupled(&mut self, view: View<'_>, task: TaskId, node: NodeId) -> bool {
        let at = self.evaluation(view, task, false);
        at.is_ok_and(|at| self.evaluations[at].passes(view, node, false))
    }

    /// Whether the filters that look at the node alone pass.
    pub(crate) fn passes_apart(&mut self, view: View<'_>, task: TaskId, node: NodeId) -> bool {
        let at = self.evaluation(view, task, false);
        at.is_ok_and(|at| self.evaluations[at].passes(view, node, true))
    }
}
