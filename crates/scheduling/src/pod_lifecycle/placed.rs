//! Pods with a node that no watch shows yet, and pods whose binding is not answered.

use super::Phase;
use crate::framework::PendingPermit;
use crate::pre_bind::PreBindPlan;
use crate::queue::Entry;
use crate::scheduling_algorithm::ScheduleResult;
use evictd_pod::wire;
use jiff::Timestamp;
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
    /// When the pod was active in the queue for the first time, if it came from there.
    pub arrived: Option<Timestamp>,
    /// Whether a batch session decided it.
    pub is_of_session: bool,
}

/// A pod that waits for plugins to permit its binding.
#[derive(Debug)]
pub(crate) struct WaitingPod {
    pub(crate) pod: Arc<wire::Pod>,
    /// Which attempt it was, from 1.
    pub(crate) attempts: u32,
    /// Index of its profile.
    pub(crate) profile: usize,
    pub(crate) node: Arc<str>,
    pub(crate) result: ScheduleResult,
    pub(crate) pre_bind: PreBindPlan,
    pub(crate) since: Timestamp,
    /// The plugins that have not permitted it yet.
    pub(crate) pending: Vec<PendingPermit>,
    /// The gang that it is bound with, or that gives back its nodes with it.
    pub(crate) gang: Option<Arc<str>>,
}

impl WaitingPod {
    /// The permit with the shortest timeout of those that have timed out.
    pub(crate) fn timed_out(&self, now: Timestamp) -> Option<&PendingPermit> {
        let waited = now.duration_since(self.since);
        self.pending
            .iter()
            .filter(|permit| waited >= permit.timeout)
            .min_by_key(|permit| permit.timeout)
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
    /// It is being bound.
    Binding(Box<InBinding>),
    /// The API server has bound it; no watch shows that yet.
    Bound,
    /// A watch shows its node; the answer of the API server is awaited.
    Assigned(Box<Binding>),
    /// It was deleted or has ended; the answer of the API server is awaited.
    Gone,
}

/// A pod whose attempt is over.
#[derive(Debug)]
pub(super) struct InBinding {
    /// The entry with which it returns to the queue if it is not bound.
    pub(super) entry: Option<Entry>,
    /// `None` if no answer of the API server is awaited.
    pub(super) request: Option<Binding>,
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
            Stage::Binding(parts) => parts.request.as_ref(),
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
