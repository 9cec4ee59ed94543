//! The plan: the candidates, their victims and the chosen node.

use crate::action::Action;
use crate::candidate::{Candidate, NotCandidate};
use crate::groups::Victim;
use crate::pick::Why;
use evictd_placement::{Cluster, NodeId, Rejection};
use std::sync::Arc;

/// Why a pod may not preempt (S3-011, S3-012, S4-011).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ineligible {
    /// Its `preemptionPolicy` is `Never`.
    Never,
    /// Victims on its nominated node are still terminating.
    Terminating,
}

impl Ineligible {
    /// kube-scheduler's message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "not eligible due to preemptionPolicy=Never.",
            Self::Terminating => "not eligible due to a terminating pod on the nominated node.",
        }
    }
}

/// The result of preemption.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The Filter result of every node, by [`NodeId::index`].
    pub filter: Vec<Result<(), Rejection>>,
    /// Why the pod may not preempt, if so.
    pub ineligible: Option<Ineligible>,
    /// In the order of the cluster's nodes.
    pub candidates: Vec<Candidate>,
    /// Nodes on which no set of victims helps.
    pub not_candidates: Vec<(NodeId, NotCandidate)>,
    /// The index of the picked candidate.
    pub chosen: Option<usize>,
    /// The rules that decided.
    pub why: Vec<Why>,
    /// The scheduler's actions, in order.
    pub actions: Vec<Action>,
    pub(crate) victims: Vec<Victim>,
    /// Whether it was tried that victims give back their devices.
    pub(crate) frees_devices: bool,
    /// The names of the atomic groups of the picked candidate.
    pub(crate) groups: Vec<Arc<str>>,
    /// Whether devices are about to become free on the node to which the pod is nominated.
    pub(crate) awaits_devices: bool,
    /// How many nodes were tried.
    pub(crate) tried: usize,
}

impl Plan {
    /// A plan without candidates. `filter` is the Filter result of every node.
    pub fn without_candidates(filter: Vec<Result<(), Rejection>>) -> Self {
        Self {
            filter,
            ..Self::default()
        }
    }

    /// Whether the pod fits on some node without preemption.
    pub fn fits(&self) -> bool {
        self.filter.iter().any(Result::is_ok)
    }

    /// A candidate's victims. `V1_36` lists the most important first; older versions list those that violate a budget
    /// first.
    pub fn victims(&self, candidate: &Candidate) -> &[Victim] {
        &self.victims[candidate.victims.start as usize..candidate.victims.end as usize]
    }

    /// The picked candidate.
    pub fn choice(&self) -> Option<&Candidate> {
        self.chosen.and_then(|index| self.candidates.get(index))
    }

    /// Whether it counts the devices of victims as free, because no other eviction helps; also if that does not help either.
    pub const fn frees_devices(&self) -> bool {
        self.frees_devices
    }

    /// The groups of the picked candidate that are evicted as a whole, by the names that [`VictimGroup::atomic`] gave.
    ///
    /// [`VictimGroup::atomic`]: crate::VictimGroup::atomic
    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }

    /// Whether the pod keeps its nomination because its victims have ended, but their devices are not deallocated yet.
    pub const fn awaits_devices(&self) -> bool {
        self.awaits_devices
    }

    pub(crate) fn add(&mut self, node: NodeId, violations: usize, victims: &[Victim]) {
        // A cluster's pods are counted in 32 bits.
        let end = |victims: &Vec<Victim>| u32::try_from(victims.len()).unwrap_or(u32::MAX);
        let last = self.candidates.last().map(|last| self.victims(last));
        // A group on many nodes is the same victim on each of them.
        let same = self.candidates.last().filter(|_| last == Some(victims));
        let victims = if let Some(last) = same {
            last.victims.clone()
        } else {
            let start = end(&self.victims);
            self.victims.extend_from_slice(victims);
            start..end(&self.victims)
        };
        self.candidates.push(Candidate {
            node,
            violations,
            victims,
        });
    }

    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
        self.victims.clear();
    }

    /// Nodes where evicting pods may make the pod fit.
    pub(crate) fn potential(&self, cluster: &Cluster) -> impl Iterator<Item = NodeId> {
        cluster
            .node_ids()
            .zip(&self.filter)
            .filter(|(_, answer)| {
                answer.is_err_and(|rejection| {
                    rejection.is_resolvable() || (self.frees_devices && rejection.is_for_devices())
                })
            })
            .map(|(id, _)| id)
    }
}
