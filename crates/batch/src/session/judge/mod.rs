//! Where a task may be and where it is best: kube-scheduler's own filters and scores, asked as Volcano asks them
//! (S6-108, S6-109, S6-135 to S6-137).

mod binpack;
mod class;
mod column;
mod rules;

use super::fit::{FitError, NO_REASON, ReasonId, Reasons, Refusal};
use super::model::Model;
use super::task::Role;
use super::within::KnownDomains;
use crate::conf::Plugin;
use class::Classes;
use column::{Column, IDLE, Key};
use evictd_placement::Cluster;
use hashbrown::HashMap;
use rules::Rules;

/// So many classes are remembered; one that comes again later is asked anew.
const COLUMNS: usize = 32;

/// What is looked at.
#[derive(Clone, Copy)]
pub(crate) struct View<'v> {
    pub(crate) cluster: &'v Cluster,
    pub(crate) model: &'v Model,
    /// The nodes that changed in this session, one after the other.
    pub(crate) log: &'v [usize],
    /// By node, those that are kept for a job; empty where none is.
    pub(crate) kept: &'v [bool],
    /// Domains of which groups have to be in one.
    pub(crate) domains: &'v KnownDomains,
}

impl View<'_> {
    /// Whether a node is kept for a job that waits.
    pub(crate) fn is_kept(&self, node: usize) -> bool {
        self.kept.get(node).copied().unwrap_or(false)
    }
}

/// What nodes said to the tasks of each role within a turn, by node. Who refused once is not asked again.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    roles: HashMap<Role, Vec<ReasonId>>,
}

#[derive(Default)]
pub(crate) struct Judge {
    rules: Rules,
    classes: Classes,
    columns: Vec<Column>,
    pub(crate) reasons: Reasons,
    clock: u64,
}

impl Judge {
    pub(crate) fn new(tiers: &[Vec<Plugin>], model: &Model) -> Self {
        Self {
            rules: Rules::new(tiers, &model.dims),
            ..Self::default()
        }
    }

    /// The class of a task: all nodes judge those of one class alike. `None` for one that is on a node or cannot be read.
    pub(crate) fn class(&mut self, view: View<'_>, task: usize) -> Option<usize> {
        let own = &view.model.tasks[task];
        let pod = own.pod.as_ref()?;
        Some(self.classes.of(view.cluster, pod, &own.request))
    }

    /// Whether a node might take a task that would have room there; with `others_go`, once some have gone from it. What
    /// depends on other nodes is not asked: it may change as others are placed.
    pub(crate) fn might_take(
        &mut self,
        view: View<'_>,
        task: usize,
        node: usize,
        others_go: bool,
    ) -> bool {
        let Ok(at) = self.column(view, task, !others_go) else {
            return true;
        };
        let column = &mut self.columns[at];
        let reason = column.reasons[node];
        if reason == NO_REASON || (column.key.barred && view.is_kept(node)) {
            return reason == NO_REASON;
        }
        if others_go {
            return column.coupled || !self.reasons.is_unresolvable(reason);
        }
        column.coupled && column.passes(view, node, true)
    }

    /// The place of a task's column, which is up to date.
    fn column(&mut self, view: View<'_>, task: usize, needs_room: bool) -> Result<usize, FitError> {
        let own = &view.model.tasks[task];
        let Some(pod) = &own.pod else {
            let words = own.mistake.as_deref().unwrap_or("it is on a node already");
            return Err(FitError::Words(words.into()));
        };
        let class = self.classes.of(view.cluster, pod, &own.request);
        self.clock += 1;
        let key = Key {
            class,
            needs_room,
            // Whoever asks for nothing takes no room that is kept.
            barred: !view.kept.is_empty() && view.model.jobs[own.job].barred && !own.best_effort,
            within: view.model.jobs[own.job].within,
        };
        let known = self.columns.iter().position(|column| column.key == key);
        let at = if let Some(at) = known {
            let column = &mut self.columns[at];
            if !column.refresh(view, &self.rules, &mut self.reasons, pod) {
                let reasons = &mut self.reasons;
                *column = Column::new(view, &self.rules, reasons, (pod, &own.request), key);
            }
            at
        } else {
            let reasons = &mut self.reasons;
            let new = Column::new(view, &self.rules, reasons, (pod, &own.request), key);
            if self.columns.len() < COLUMNS {
                self.columns.push(new);
                self.columns.len() - 1
            } else {
                let oldest = self.columns.iter().enumerate();
                let oldest = oldest.min_by_key(|(_, own)| own.used);
                let oldest = oldest.map_or(0, |(at, _)| at);
                self.columns[oldest] = new;
                oldest
            }
        };
        let column = &mut self.columns[at];
        column.used = self.clock;
        match &column.refused {
            Some(refused) => Err(refused.clone()),
            None => Ok(at),
        }
    }

    /// The best node for a task; of equals the one whose name comes first. Nodes with room now come before those that
    /// will have it. With a turn, its memory is used and kept.
    pub(crate) fn choose(
        &mut self,
        view: View<'_>,
        task: usize,
        needs_room: bool,
        turn: Option<&mut Turn>,
    ) -> Result<usize, FitError> {
        let at = self.column(view, task, needs_room)?;
        let column = &self.columns[at];
        let role = view.model.tasks[task].role;
        let said: &[ReasonId] = match turn.filter(|_| role != 0) {
            None => &column.reasons,
            Some(turn) => {
                let said = turn
                    .roles
                    .entry(role)
                    .or_insert_with(|| vec![NO_REASON; column.reasons.len()]);
                for (said, now) in said.iter_mut().zip(&column.reasons) {
                    if *said == NO_REASON {
                        *said = *now;
                    }
                }
                said
            }
        };
        if !column.coupled
            && column.uniform
            && let Some(rank) = column.ratings.best()
        {
            let node = view.model.by_rank[rank];
            if said[node] == NO_REASON {
                return Ok(node);
            }
        }
        self.scan(view, task, column, said)
    }

    /// Looks at every node that does not refuse.
    fn scan(
        &self,
        view: View<'_>,
        task: usize,
        column: &Column,
        said: &[ReasonId],
    ) -> Result<usize, FitError> {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (rank, node) in view.model.by_rank.iter().enumerate() {
            if said[*node] == NO_REASON {
                match column.ratings.at(rank).class {
                    IDLE => now.push(*node),
                    _ => later.push(*node),
                }
            }
        }
        let nodes = if now.is_empty() { later } else { now };
        let order = self.ordered(view, task, column, nodes);
        let best = order.first().copied();
        best.ok_or_else(|| FitError::of_nodes(&self.reasons, said))
    }

    /// Nodes from the best to the worst; `nodes` are in the order of their names, which decides between equals.
    fn ordered(
        &self,
        view: View<'_>,
        task: usize,
        column: &Column,
        nodes: Vec<usize>,
    ) -> Vec<usize> {
        let Some(pod) = view.model.tasks[task]
            .pod
            .as_ref()
            .filter(|_| nodes.len() > 1)
        else {
            return nodes;
        };
        let totals = column.totals(view, &self.rules, pod, &nodes);
        let mut rated: Vec<(f64, usize)> = totals.into_iter().zip(nodes).collect();
        rated.sort_by(|one, other| other.0.total_cmp(&one.0));
        rated.into_iter().map(|(_, node)| node).collect()
    }

    /// The nodes on which a task could be if others went, in the order of their names.
    pub(crate) fn reachable(&mut self, view: View<'_>, task: usize) -> Vec<usize> {
        let Ok(at) = self.column(view, task, false) else {
            return Vec::new();
        };
        let column = &self.columns[at];
        let nodes = view.model.by_rank.iter().copied();
        let job = &view.model.jobs[view.model.tasks[task].job];
        // It may have been said while another domain was tried.
        let before = job.fit_errors.get(&task).filter(|_| job.within.is_none());
        let nodes = nodes.filter(|node| {
            // What a node said when room was given out holds.
            let out = before.is_some_and(|own| own.is_unresolvable(*node));
            !out && !self.reasons.is_unresolvable(column.reasons[*node])
        });
        nodes.collect()
    }

    /// Nodes from the best to the worst.
    pub(crate) fn by_score(
        &mut self,
        view: View<'_>,
        task: usize,
        nodes: Vec<usize>,
    ) -> Vec<usize> {
        match self.column(view, task, false) {
            Ok(at) => self.ordered(view, task, &self.columns[at], nodes),
            Err(_) => nodes,
        }
    }

    /// What filters say against a task on a node now.
    pub(crate) fn refusal(&mut self, view: View<'_>, task: usize, node: usize) -> Option<&Refusal> {
        let at = self.column(view, task, false).ok()?;
        let reason = self.columns[at].reasons[node];
        (reason != NO_REASON).then(|| self.reasons.of(reason))
    }

    /// What each node says against a task now, by node; nothing where it does not refuse.
    pub(crate) fn refusals(
        &mut self,
        view: View<'_>,
        task: usize,
        needs_room: bool,
    ) -> Result<impl Iterator<Item = &[String]>, FitError> {
        let at = self.column(view, task, needs_room)?;
        let reasons = self.columns[at].reasons.iter();
        Ok(reasons.map(|reason| self.reasons.of(*reason).texts.as_slice()))
    }

    /// Whether no filter keeps a task off a node, unless it is for the number of pods there.
    pub(crate) fn lacks_only_room(&mut self, view: View<'_>, task: usize, node: usize) -> bool {
        let refusal = self.refusal(view, task, node);
        refusal.is_none_or(|own| own.texts.iter().all(|text| text == column::CROWDED))
    }

    /// Whether no filter keeps a task off a node now.
    pub(crate) fn passes(&mut self, view: View<'_>, task: usize, node: usize) -> bool {
        let at = self.column(view, task, false);
        at.is_ok_and(|at| self.columns[at].reasons[node] == NO_REASON)
    }

    /// Whether no filter that looks beyond a node keeps a task off it now.
    pub(crate) fn passes_coupled(&mut self, view: View<'_>, task: usize, node: usize) -> bool {
        let at = self.column(view, task, false);
        at.is_ok_and(|at| self.columns[at].passes(view, node, false))
    }

    /// Whether no filter that looks at a node alone keeps a task off it now.
    pub(crate) fn passes_apart(&mut self, view: View<'_>, task: usize, node: usize) -> bool {
        let at = self.column(view, task, false);
        at.is_ok_and(|at| self.columns[at].passes(view, node, true))
    }
}
