//! Gangs: pods of a `PodGroup` of `scheduling.k8s.io/v1beta1` that are placed all at once or not at all.
//!
//! When one pod of a gang is popped, all its waiting pods are tried with it. Each is tried on a cluster that holds the ones
//! before it. They stay only if enough of them fit.
//!
//! kube-scheduler 1.36 and 1.37 do the same pod by pod: they ask extenders about each pod, and run Reserve and Permit for each.
//! Pods of a group share the devices that a claim was promised in the same cycle. Two things differ. There a gang is never
//! placed if all its pods wait in Permit. There an error in Permit or `PreBind` concerns one pod and not its gang (S5-096).

mod forest;
mod freed_devices;
mod members;
mod placements;
mod pod_groups;
mod preemption;
mod region;
mod tree;
mod tree_trial;
mod trial;
mod validation;

use crate::framework::{PendingPermit, PluginRejection};
use crate::plugins::PluginName;
use crate::pre_bind::{ClaimRef, PreBindPlan};
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{Cluster, NodeId, Pod, Statement};
use evictd_pod::wire;
pub use forest::GroupObject;
pub(crate) use forest::{is_same_composite, is_same_group, title};
pub(crate) use members::{CommonFields, GroupNames, GroupedPods, Groups, group_of};
pub use pod_groups::{GangPlacement, PodGroups};
pub(crate) use preemption::{NoPreemption, Preemption, Preemptor, preempt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub(crate) use tree::{GroupTree, ScheduledPods};
pub(crate) use tree_trial::TreeTrial;
use trial::Progress;
pub(crate) use trial::{ExtenderResponses, Quorum, Trial};
pub(crate) use validation::validate;

/// A pod of a gang that is tried.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its key in the queue.
    pub(crate) key: Arc<str>,
    pub(crate) wire: Arc<wire::Pod>,
    pub(crate) nominated: Option<Arc<str>>,
    /// Which attempt this is, from 1.
    pub(crate) attempt: u32,
    /// Index of its profile.
    pub(crate) profile: usize,
    /// Index of its group in the tree.
    pub(crate) group: usize,
    /// The compiled pod; `None` while it is on a node, or if it is invalid.
    pub(crate) pod: Option<Pod>,
    placed: Option<PlacedMember>,
    pub(crate) pre_bind: PreBindPlan,
    /// Whether the Reserve plugins have run for its node.
    reserved: bool,
    /// The plugins that delay its binding.
    pub(crate) pending: Vec<PendingPermit>,
    /// Nodes where the devices of a shared claim would exclude other members.
    avoids: BTreeSet<NodeId>,
    /// Nodes about which extenders must be asked.
    pub(crate) to_request: BTreeSet<Arc<str>>,
    pub(crate) outcome: MemberOutcome,
}

#[derive(Debug, Clone, Copy)]
struct PlacedMember {
    node: NodeId,
    /// The index of the operation in the statement.
    operation: usize,
}

/// The result of an attempt for one pod of a gang.
#[derive(Debug, Default)]
pub(crate) enum MemberOutcome {
    /// It was not tried, because too few others fit.
    #[default]
    NotTried,
    Fits(ScheduleResult),
    FitsNowhere(FitError),
    /// A plugin rejected it on the chosen node.
    Rejected(PluginRejection),
    /// There was no decision.
    Error(String),
    /// The pod cannot be compiled.
    Invalid(String),
}

/// Why a pod fits on no node.
#[derive(Debug)]
pub(crate) struct FitError {
    pub(crate) message: String,
    /// Whether the message is the error of a filter. Other nodes, other domains and the rest of the gang are tried nevertheless.
    pub(crate) is_undecided: bool,
    pub(crate) plugins: BTreeSet<String>,
    /// A claim whose devices must be deallocated, because the pod cannot run where they are.
    pub(crate) deallocates: Option<ClaimRef>,
}

impl Member {
    pub(crate) fn new(
        cluster: &mut Cluster,
        (key, attempt): (Arc<str>, u32),
        wire: Arc<wire::Pod>,
        (profile, group): (usize, usize),
    ) -> Self {
        let mut copy = (*wire).clone();
        // The whole gang is placed where it fits now, whatever was nominated before.
        copy.status.nominated_node_name = String::new();
        let (pod, outcome) = match cluster.pod(copy) {
            Ok(pod) => (Some(pod), MemberOutcome::NotTried),
            Err(invalid) => (None, MemberOutcome::Invalid(invalid.to_string())),
        };
        Self {
            key,
            wire,
            nominated: None,
            attempt,
            profile,
            group,
            pod,
            placed: None,
            pre_bind: PreBindPlan::default(),
            reserved: false,
            pending: Vec::new(),
            avoids: BTreeSet::new(),
            to_request: BTreeSet::new(),
            outcome,
        }
    }

    fn node(&self) -> Option<NodeId> {
        self.placed.map(|placed| placed.node)
    }

    /// Whether extenders must be asked about further nodes.
    pub(crate) fn has_request(&self) -> bool {
        !self.to_request.is_empty()
    }

    pub(crate) fn error(&self) -> Option<String> {
        match &self.outcome {
            MemberOutcome::Error(message) => Some(message.clone()),
            _ => None,
        }
    }

    /// The error of the member, also one of a filter, which lets the others be tried.
    pub(crate) fn last_error(&self) -> Option<String> {
        match &self.outcome {
            MemberOutcome::FitsNowhere(error) if error.is_undecided => Some(error.message.clone()),
            _ => self.error(),
        }
    }

    /// Whether only devices are missing on some node.
    fn lacks_devices(&self) -> bool {
        let plugin = PluginName::DynamicResources.as_str();
        matches!(&self.outcome, MemberOutcome::FitsNowhere(error) if error.plugins.contains(plugin))
    }

    /// Places it on a node and promises it the chosen devices.
    fn place(&mut self, cluster: &mut Cluster, statement: &mut Statement, node: NodeId) {
        if let Some(pod) = self.pod.take() {
            cluster.assume_devices(&pod, &self.pre_bind.devices);
            cluster.choose_volumes(&pod, node, &self.pre_bind.volumes);
            let operation = statement.place(cluster, pod, node);
            self.placed = Some(PlacedMember { node, operation });
        }
    }

    fn take_back(&mut self, cluster: &mut Cluster, statement: &mut Statement) {
        if let Some(placed) = self.placed.take() {
            self.pod = statement.take_back(cluster, placed.operation);
        }
    }
}

/// The result of the last attempt of a group, for the conditions of its object.
#[derive(Debug, Clone)]
pub struct GroupResult {
    /// The object as it was last seen.
    pub group: GroupObject,
    /// The result.
    pub outcome: GroupOutcome,
}

/// The result of an attempt for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupOutcome {
    /// Enough of its pods have a node; they are being bound.
    Placed,
    /// It could not be placed, with the reason.
    Unschedulable(String),
    /// There was no decision, with the error.
    Error(String),
    /// It is in a tree that can never be placed, with the reason (S7-123).
    Invalid(String),
    /// All its pods are evicted.
    Preempted {
        /// Whether for another group; else for a single pod.
        for_group: bool,
    },
}

/// The message about a rejected tree, and the plugins that rejected some of its pods.
#[derive(Clone, Default)]
pub(crate) struct GangFitError {
    pub(crate) message: String,
    pub(crate) plugins: BTreeSet<String>,
    /// The messages about its groups, by index.
    pub(crate) groups: BTreeMap<usize, String>,
}

/// Why a group could not be placed (S7-040).
fn fit_message(quorum: Quorum, progress: Option<Progress>) -> String {
    // Otherwise those that have a node are enough, and none of the others fits.
    progress
        .and_then(|progress| quorum.message(progress))
        .unwrap_or_else(|| "pod group is unschedulable".to_owned())
}

/// Why no pod of a group is tried to the end: there was no decision about one of them (S7-043).
pub(crate) fn of_other_pod(error: &str) -> String {
    format!("failed to schedule other pod from a pod group: {error}")
}

/// The plugins that rejected some of the members.
pub(crate) fn rejectors(members: &[Member]) -> BTreeSet<String> {
    let mut plugins = BTreeSet::new();
    for member in members {
        match &member.outcome {
            MemberOutcome::FitsNowhere(error) => plugins.extend(error.plugins.iter().cloned()),
            MemberOutcome::Rejected(rejection) => {
                plugins.insert(rejection.plugin.clone());
            }
            _ => {}
        }
    }
    plugins
}

impl Member {
    /// Why it does not fit. A member that fits or was not tried has the reason of its group (S7-044).
    pub(crate) fn message(&self, of_group: &str) -> String {
        match &self.outcome {
            MemberOutcome::FitsNowhere(error) => error.message.clone(),
            MemberOutcome::Rejected(rejection) => rejection.message(),
            _ => of_group.to_owned(),
        }
    }
}
