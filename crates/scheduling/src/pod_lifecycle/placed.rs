//! Pods that have a node and are not known to run there.

use super::Phase;
use crate::framework::Waits;
use crate::pre_bind::PreBindPlan;
use crate::queue::Entry;
use crate::scheduling_algorithm::ScheduleResult;
use evictd_pod::wire;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// A request to the API server to bind a pod.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The pod as the attempt saw it.
    pub pod: Arc<wire::Pod>,
    /// Which attempt it was, from 1.
    pub attempts: u32,
    /// When it was decided.
    pub began: Timestamp,
    /// When the first attempt failed, if one has.
    pub first_failure: Option<Timestamp>,
    /// Whether a batch session decided it.
    pub is_of_session: bool,
}

/// A pod that waits for plugins to permit its binding.
#[derive(Debug)]
pub(crate) struct WaitingPod {
    pub(crate) pod: Arc<wire::Pod>,
    /// Which attempt it was, from 1.
    pub(crate) number: u32,
    /// Index of its profile.
    pub(crate) profile: usize,
    pub(crate) node: Arc<str>,
    pub(crate) decided: ScheduleResult,
    pub(crate) pre_bind: PreBindPlan,
    pub(crate) since: Timestamp,
    /// The plugins that have not permitted it yet, with their timeouts.
    pub(crate) by: Waits,
    /// The gang that it is bound with, or that gives back its nodes with it.
    pub(crate) gang: Option<Arc<str>>,
}

impl WaitingPod {
    /// The plugin whose timer fired first, and how long the timer was.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<(String, SignedDuration)> {
        let waited = now.duration_since(self.since);
        let expired = self.by.iter().filter(|(_, timeout)| waited >= *timeout);
        expired.min_by_key(|(_, timeout)| *timeout).cloned()
    }
}

/// A pod with a node, or with a request to bind it that is not answered yet.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) node: Arc<str>,
    /// The pod counts on its node. False once its deletion has begun, and once it has given back the node. False for a pod
    /// of a batch session, which the cluster counts like one that a watch shows on its node.
    pub(super) takes_room: bool,
    pub(super) is_of_session: bool,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Its attempt continues.
    Assumed,
    /// Its attempt continues, and plugins delay its binding.
    Permit(Box<WaitingPod>),
    /// It is being bound. With the entry it comes back to the queue. Without a binding no answer is awaited.
    Binding(Box<(Option<Entry>, Option<Binding>)>),
    /// The API server has bound it; no watch shows that yet.
    Bound,
    /// A watch shows its node; the answer of the API server is awaited.
    Assigned(Box<Binding>),
    /// It was deleted or has ended; the answer of the API server is awaited.
    Gone,
}

impl Placed {
    pub(super) fn new(node: &str, stage: Stage) -> Self {
        Self {
            node: node.into(),
            takes_room: true,
            is_of_session: false,
            stage,
        }
    }

    /// `None` for a pod that was deleted or has ended.
    pub(super) const fn phase(&self) -> Option<Phase> {
        match self.stage {
            Stage::Assumed => Some(Phase::Assumed),
            Stage::Permit(_) => Some(Phase::Permit),
            Stage::Binding(_) => Some(Phase::Binding),
            Stage::Bound => Some(Phase::Bound),
            Stage::Assigned(_) => Some(Phase::Assigned),
            Stage::Gone => None,
        }
    }

    /// The request to bind it, if that is not answered yet and the pod exists.
    pub(super) fn binding(&self) -> Option<&Binding> {
        match &self.stage {
            Stage::Binding(parts) => parts.1.as_ref(),
            Stage::Assigned(binding) => Some(binding),
            Stage::Assumed | Stage::Permit(_) | Stage::Bound | Stage::Gone => None,
        }
    }

    pub(super) fn awaits_answer(&self) -> bool {
        matches!(self.stage, Stage::Gone) || self.binding().is_some()
    }

    pub(super) fn waiting(&self) -> Option<&WaitingPod> {
        match &self.stage {
            Stage::Permit(waiting) => Some(waiting),
            _ => None,
        }
    }
}
