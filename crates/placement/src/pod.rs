//! The scheduler's view of a pod. Pods with an equal spec share a template.

use crate::group::GroupId;
use crate::labels::Labels;
use crate::resources::{Amounts, Scored};
use crate::symbol::Symbol;
use crate::template::TemplateId;
use std::cmp::Reverse;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The start time of a pod that has not started: later than every other.
pub const NO_START: i64 = i64::MAX;

/// A pod on a node or on its way to one. A dry run reads millions of pods, so rarely needed fields are in [`Identity`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// An absent priority is 0.
    pub priority: i32,
    /// The part of the spec that it shares with similar pods.
    pub template: TemplateId,
    /// The group it counts in, if the cluster keeps it.
    pub group: GroupId,
    /// Start time in seconds since 1970, or [`NO_START`] (S3-020).
    pub start: i64,
    /// Its requests.
    pub amounts: Amounts,
    /// Its requests for scoring.
    pub scored: Scored,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it has the condition of a preemption victim (S4-012).
    pub preempted: bool,
    /// Whether its requests are unknown, because its spec could not be read.
    pub unknown: bool,
    /// The fields that are rarely needed.
    pub identity: Box<Identity>,
}

/// Name, labels and fields that matter only while a pod has no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name within the namespace of its template.
    pub name: Box<str>,
    /// UID, empty where the input has none.
    pub uid: Arc<str>,
    /// Labels. The pod holds a reference to each text.
    pub labels: Labels,
    /// The nominated node.
    pub nominated: Option<Symbol>,
    /// The generation of its spec, in the memory that is left over. `None` if it is unknown, or larger than any real one.
    pub generation: Option<NonZeroU16>,
    /// The scheduler's name.
    pub scheduler: Symbol,
    /// Whether its `preemptionPolicy` is `Never`.
    pub never_preempts: bool,
    /// Requests of its containers alone, if a pending pod has pod-level requests: kube-scheduler ignores pod-level
    /// requests when it scores (S5-086).
    pub of_containers: Option<Box<(Amounts, Scored)>>,
}

impl Pod {
    /// The sort key of importance: higher priority first, then earlier start (S3-020).
    pub fn importance(&self) -> (Reverse<i32>, i64) {
        (Reverse(self.priority), self.start)
    }

    /// Whether both count the same on a node, apart from their templates.
    pub(crate) fn counts_as(&self, other: &Self) -> bool {
        let (identity, others) = (&self.identity, &other.identity);
        self.priority == other.priority
            && self.group == other.group
            && self.start == other.start
            && self.amounts == other.amounts
            && self.scored == other.scored
            && self.terminating == other.terminating
            && self.preempted == other.preempted
            && self.unknown == other.unknown
            && identity.name == others.name
            && identity.labels == others.labels
            && identity.scheduler == others.scheduler
    }

    /// Its group, and whether it counts as running there.
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

    /// UID, empty where the input has none.
    pub fn uid(&self) -> &str {
        &self.identity.uid
    }
}
