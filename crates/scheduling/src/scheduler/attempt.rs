//! Attempts to schedule a pod, and their outcomes.

use crate::evidence::RejectedNodes;
use crate::extenders::ExtenderRequest;
use crate::framework::PluginRejection;
use crate::plugins::{PluginName, PluginSet};
use crate::pre_bind::{ClaimRef, PreBindPlan};
use crate::scheduling_algorithm::{ScheduleResult, UnschedulableResult};
use crate::scheduling_queue::{Failure, Nomination};
use evictd_placement::{Cluster, Pod};
use evictd_pod::wire;
use evictd_preemption::{Action, Plan};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An attempt to schedule a pod.
#[derive(Debug)]
pub struct Attempt {
    /// The key of the pod in the queue.
    pub key: Arc<str>,
    /// The pod as it was last seen.
    pub pod: Arc<wire::Pod>,
    /// Which attempt this is, from 1.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Outcome {
    /// It has a node and must be bound. [`Scheduler::bound`](super::Scheduler::bound) or
    /// [`Scheduler::bind_failed`](super::Scheduler::bind_failed) must follow.
    Placed {
        /// The node.
        node: Arc<str>,
        /// The decision, with its evidence.
        result: ScheduleResult,
        /// The `PreBind` plan of its claims.
        pre_bind: PreBindPlan,
    },
    /// It has a node and waits for plugins to permit its binding. A later attempt reports the result.
    WaitsOnPermit {
        /// The node.
        node: Arc<str>,
    },
    /// Extenders must be asked. [`Scheduler::on_extender_response`](super::Scheduler::on_extender_response) continues the
    /// attempt, or that of its gang.
    AskExtenders(ExtenderRequest),
    /// It fits on no node.
    Unschedulable(Rejected),
    /// There was no decision: the pod is invalid, or there is no node.
    Error(String),
    /// It is being deleted (S5-040).
    Deleting,
    /// No profile has its scheduler name (S5-041).
    NoProfile,
    /// It was not tried, or not to the end, because attempts of its namespace are costly. It is tried in its turn.
    PutOff(String),
}

/// Why a pod fits on no node, and the actions that follow.
#[derive(Debug, Default)]
pub struct Rejected {
    /// The message of its condition and event (S5-069).
    pub message: String,
    /// The plugins that rejected it.
    pub plugins: BTreeSet<String>,
    /// The reasons by node.
    pub rejections: Arc<[RejectedNodes]>,
    /// Whether preemption was tried, successfully or not.
    pub preempts: bool,
    /// The nominated node.
    pub nominated: Option<String>,
    /// A claim of the pod whose devices must be deallocated, because the pod cannot run where they are.
    pub deallocates: Option<ClaimRef>,
    /// The victims in the order of the plan: `namespace/name` and UID.
    pub victims: Vec<(String, String)>,
    /// The actions of the preemption, in order.
    pub actions: Vec<Action>,
    /// Pods that lose their nomination, `namespace/name`.
    pub nominations_cleared: Vec<String>,
    /// Whether the nomination in the status of the pod must be cleared.
    pub clears_nomination: bool,
}

impl Rejected {
    /// A plugin rejected the pod on the chosen node.
    pub(super) fn on_chosen_node(rejection: PluginRejection) -> Self {
        Self {
            message: rejection.message(),
            plugins: BTreeSet::from([rejection.plugin]),
            clears_nomination: true,
            ..Self::default()
        }
    }

    /// Adds the result of a preemption. Without a plan none was tried.
    pub(super) fn with_plan(mut self, cluster: &Cluster, pod: &Pod, plan: Option<&Plan>) -> Self {
        let Some(plan) = plan else {
            return self;
        };
        self.preempts = true;
        let Some(choice) = plan.choice() else {
            // A pod that may not preempt, or whose devices are about to become free, keeps the nomination that it has.
            self.clears_nomination = plan.ineligible.is_none() && !plan.awaits_devices();
            return self;
        };
        self.nominated = Some(cluster.node_name(choice.node).to_owned());
        self.victims = plan
            .victims(choice)
            .iter()
            .map(|victim| victim.pod(cluster))
            .map(|pod| (cluster.full_name(pod), pod.uid().to_owned()))
            .collect();
        self.actions.clone_from(&plan.actions);
        self.nominations_cleared = plan.clear_nominations(cluster, pod);
        self
    }

    /// The part that also holds for the next equal pod.
    pub(super) fn to_cached(&self) -> UnschedulableResult {
        UnschedulableResult {
            message: self.message.clone(),
            plugins: self.plugins.clone(),
            rejections: Arc::clone(&self.rejections),
            preempts: self.preempts,
            clears_nomination: self.clears_nomination,
        }
    }

    /// The failure as the queue takes it.
    pub(super) fn failure(&self) -> Failure {
        let nomination = match (&self.nominated, self.clears_nomination) {
            (Some(node), _) => Nomination::Node(node.as_str().into()),
            (None, true) => Nomination::Cleared,
            (None, false) => Nomination::OfStatus,
        };
        let rejectors = self
            .plugins
            .iter()
            .map(|name| PluginName::parse(name).unwrap_or(PluginName::Other))
            .collect::<PluginSet>();
        Failure {
            rejectors,
            nomination,
            ..Failure::default()
        }
    }
}

impl From<UnschedulableResult> for Rejected {
    fn from(cached: UnschedulableResult) -> Self {
        Self {
            message: cached.message,
            plugins: cached.plugins,
            rejections: cached.rejections,
            preempts: cached.preempts,
            clears_nomination: cached.clears_nomination,
            ..Self::default()
        }
    }
}
