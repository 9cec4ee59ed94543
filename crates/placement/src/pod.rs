//! A pod as placement sees it: what tells it apart from its like. What it shares with them is its template.

use crate::group::GroupId;
use crate::labels::Labels;
use crate::resources::{Amounts, Scored};
use crate::symbol::Symbol;
use crate::template::TemplateId;
use std::cmp::Reverse;
use std::sync::Arc;

/// The start of a pod that has not started: later than every other.
pub const NO_START: i64 = i64::MAX;

/// A pod, on a node or on its way to one. A dry run reads millions of them, so what it does not need is out of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Absent counts as 0.
    pub priority: i32,
    /// What it shares with its like.
    pub template: TemplateId,
    /// The pods that it counts as one with, if the cluster keeps it.
    pub group: GroupId,
    /// Seconds since 1970 when the node took it over, or [`NO_START`] (S3-020).
    pub start: i64,
    /// What it asks for.
    pub amounts: Amounts,
    /// What it counts for when nodes are scored.
    pub scored: Scored,
    /// It is being deleted.
    pub terminating: bool,
    /// It carries the condition of a victim of preemption (S4-012).
    pub preempted: bool,
    /// What it asks for is not known.
    pub unknown: bool,
    /// What tells it apart from all others.
    pub identity: Box<Identity>,
}

/// What tells a pod apart, and what only matters while it has no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name within the namespace of its template.
    pub name: Box<str>,
    /// Unique id, empty where the input has none.
    pub uid: Arc<str>,
    /// Labels. Each of their texts is held by the pod.
    pub labels: Labels,
    /// The node that is being freed for it.
    pub nominated: Option<Symbol>,
    /// The scheduler has tried it in vain and said so: `PodScheduled` is `False`.
    pub tried: bool,
    /// Who places it.
    pub scheduler: Symbol,
    /// It never takes another's place.
    pub never_preempts: bool,
    /// What its containers alone ask for and count for, where the pod itself asks for other amounts and has no node yet:
    /// kube-scheduler overlooks those when it scores nodes for it (S5-086).
    pub of_containers: Option<Box<(Amounts, Scored)>>,
}

impl Pod {
    /// Orders the most important first: higher priority, then earlier start (S3-020).
    pub fn importance(&self) -> (Reverse<i32>, i64) {
        (Reverse(self.priority), self.start)
    }

    /// Whether both count the same on a node, their templates aside.
    pub(crate) fn counts_as(&self, other: &Self) -> bool {
        let (own, others) = (&self.identity, &other.identity);
        self.priority == other.priority
            && self.group == other.group
            && self.start == other.start
            && self.amounts == other.amounts
            && self.scored == other.scored
            && self.terminating == other.terminating
            && self.preempted == other.preempted
            && self.unknown == other.unknown
            && own.name == others.name
            && own.labels == others.labels
            && own.scheduler == others.scheduler
    }

    /// As what it counts in its group.
    pub(crate) const fn counted(&self) -> (GroupId, bool) {
        (self.group, self.terminating)
    }

    /// Name within the namespace of its template.
    pub const fn name(&self) -> &str {
        &self.identity.name
    }

    /// Its labels.
    pub const fn labels(&self) -> &Labels {
        &self.identity.labels
    }

    /// Unique id, empty where the input has none.
    pub fn uid(&self) -> &str {
        &self.identity.uid
    }
}
