//! The plan as a value: which nodes could be freed for a pod, by whom, and which one is picked.

use crate::action::Action;
use crate::candidate::{Candidate, NotCandidate};
use crate::pick::Why;
use evictd_placement::{Cluster, NodeId, Rejection};

/// Why a pod may not preempt (S3-011, S3-012, S4-011).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ineligible {
    /// It says so itself.
    Never,
    /// Victims on its nominated node are still ending.
    Terminating,
}

impl Ineligible {
    /// kube-scheduler's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "not eligible due to preemptionPolicy=Never.",
            Self::Terminating => "not eligible due to a terminating pod on the nominated node.",
        }
    }
}

/// What was found. Nodes are told by [`NodeId`], victims by their indices among the node's pods.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What every node says without preemption, by [`NodeId::index`].
    pub filter: Vec<Result<(), Rejection>>,
    /// Why the pod may not preempt.
    pub ineligible: Option<Ineligible>,
    /// Nodes that could be freed, in the order of the cluster's nodes.
    pub candidates: Vec<Candidate>,
    /// Nodes that were tried in vain.
    pub not_candidates: Vec<(NodeId, NotCandidate)>,
    /// The candidate that is picked.
    pub chosen: Option<usize>,
    /// Which rules decided.
    pub why: Vec<Why>,
    /// What a scheduler would do, in order.
    pub actions: Vec<Action>,
    pub(crate) victims: Vec<u32>,
    /// How many nodes were tried.
    pub(crate) tried: usize,
}

impl Plan {
    /// Whether some node takes the pod as it is; then nobody has to go.
    pub fn fits(&self) -> bool {
        self.filter.iter().any(Result::is_ok)
    }

    /// A candidate's victims: the most important first in the newest form; before, first those that break a budget.
    pub fn victims(&self, candidate: &Candidate) -> &[u32] {
        &self.victims[candidate.victims.start as usize..candidate.victims.end as usize]
    }

    /// The candidate that is picked.
    pub fn choice(&self) -> Option<&Candidate> {
        self.chosen.and_then(|index| self.candidates.get(index))
    }

    pub(crate) fn add(&mut self, node: NodeId, violations: usize, victims: &[u32]) {
        // Victims are pods of the cluster, which are counted in 32 bits.
        let end = |victims: &Vec<u32>| u32::try_from(victims.len()).unwrap_or(u32::MAX);
        let start = end(&self.victims);
        self.victims.extend_from_slice(victims);
        self.candidates.push(Candidate {
            node,
            violations,
            victims: start..end(&self.victims),
        });
    }

    /// Forgets every candidate.
    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
        self.victims.clear();
    }

    /// Nodes that pods that leave could help.
    pub(crate) fn potential(&self, cluster: &Cluster) -> impl Iterator<Item = NodeId> {
        let answers = cluster.node_ids().zip(&self.filter);
        let helped = answers.filter(|(_, answer)| answer.is_err_and(Rejection::is_resolvable));
        helped.map(|(id, _)| id)
    }
}
