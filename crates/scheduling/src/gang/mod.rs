//! Pods that are placed all at once or not at all: the gangs of `scheduling.k8s.io/v1beta1` `PodGroup`s.
//!
//! Whenever one pod of a gang is popped, all of its pods that wait are tried with it, one after the other, on a cluster
//! that holds those before. Only if enough of them fit do they stay.
//!
//! kube-scheduler 1.36 and 1.37 do the same pod by pod: extenders are asked about each, Reserve and Permit are run for each
//! and taken back, and pods of a group share what a claim was promised in the same cycle. Two things differ: there a gang of
//! which every pod has to wait in Permit is never placed, and what goes wrong in Permit or before the binding concerns one
//! pod and not its gang (S5-096).

mod members;
mod preemption;
mod trial;

use crate::framework::{Refusal, Waits};
use crate::plugins::PluginName;
use crate::pre_bind::{ClaimRef, PreBindPlan};
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{Cluster, InvalidObject, NodeId, Pod, Statement};
use evictd_pod::wire;
pub(crate) use members::{Groups, Together, group_of};
pub(crate) use preemption::{Preemption, Preemptor, preempt};
use std::collections::BTreeSet;
use std::sync::Arc;
pub(crate) use trial::{Answers, Trial};

/// A pod of a gang that is tried.
#[derive(Debug)]
pub(crate) struct Member {
    /// What the queue knows it by.
    pub(crate) key: Arc<str>,
    pub(crate) wire: Arc<wire::Pod>,
    /// The node that is being freed for it.
    pub(crate) nominated: Option<Arc<str>>,
    /// Which attempt this is, from 1.
    pub(crate) number: u32,
    /// Its profile, as an index.
    pub(crate) profile: usize,
    /// The pod while it is not on a node; `None` too if it has a mistake.
    pub(crate) pod: Option<Pod>,
    /// Its node, and its number in the statement.
    placed: Option<(NodeId, usize)>,
    /// What has to be done for its claims there.
    pub(crate) pre_bind: PreBindPlan,
    /// Plugins have reserved what it needs there.
    reserved: bool,
    /// The plugins that have it wait there.
    pub(crate) waits: Waits,
    /// Nodes where the devices of a claim that it shares would keep other members away.
    avoids: BTreeSet<NodeId>,
    /// Nodes about which extenders have to be asked.
    pub(crate) question: BTreeSet<Arc<str>>,
    pub(crate) end: End,
}

/// What was found for a pod of a gang.
#[derive(Debug, Default)]
pub(crate) enum End {
    /// It was not tried, because its gang could not be placed any more.
    #[default]
    NotTried,
    /// It can be on this node.
    Fits(ScheduleResult),
    /// It fits nowhere.
    FitsNowhere(Nowhere),
    /// A plugin refuses it on the node that was chosen.
    Refused(Refusal),
    /// Nothing could be decided about it.
    Failed(String),
    /// It cannot be read.
    Wrong(String),
}

/// Why a pod fits nowhere.
#[derive(Debug)]
pub(crate) struct Nowhere {
    pub(crate) words: String,
    /// The plugins that say so.
    pub(crate) plugins: BTreeSet<String>,
    /// A claim that should give back devices which are of no use where the pod could be.
    pub(crate) deallocates: Option<ClaimRef>,
}

impl Member {
    /// A pod whose turn it is, compiled.
    pub(crate) fn new(
        cluster: &mut Cluster,
        (key, number): (Arc<str>, u32),
        wire: Arc<wire::Pod>,
        profile: usize,
    ) -> Self {
        let mut copy = (*wire).clone();
        // All its gang goes where it fits now, wherever room was made before.
        copy.status.nominated_node_name = String::new();
        let compiled: Result<Pod, InvalidObject> = cluster.pod(copy);
        let (pod, end) = match compiled {
            Ok(pod) => (Some(pod), End::NotTried),
            Err(mistake) => (None, End::Wrong(mistake.to_string())),
        };
        Self {
            key,
            wire,
            nominated: None,
            number,
            profile,
            pod,
            placed: None,
            pre_bind: PreBindPlan::default(),
            reserved: false,
            waits: Waits::new(),
            avoids: BTreeSet::new(),
            question: BTreeSet::new(),
            end,
        }
    }

    /// The node on which it is.
    const fn node(&self) -> Option<NodeId> {
        match self.placed {
            Some((node, _)) => Some(node),
            None => None,
        }
    }

    /// Why nothing could be decided about it.
    pub(crate) fn failed(&self) -> Option<String> {
        match &self.end {
            End::Failed(message) => Some(message.clone()),
            _ => None,
        }
    }

    /// On some node nothing but devices is in its way.
    fn lacks_devices(&self) -> bool {
        let plugin = PluginName::DynamicResources.as_str();
        matches!(&self.end, End::FitsNowhere(nowhere) if nowhere.plugins.contains(plugin))
    }

    /// Puts it on a node, and promises it the devices that were chosen there.
    fn put(&mut self, cluster: &mut Cluster, statement: &mut Statement, node: NodeId) {
        if let Some(pod) = self.pod.take() {
            cluster.assume_devices(&pod, &self.pre_bind.devices);
            cluster.choose_volumes(&pod, node, &self.pre_bind.volumes);
            self.placed = Some((node, statement.place(cluster, pod, node)));
        }
    }

    fn take_back(&mut self, cluster: &mut Cluster, statement: &mut Statement) {
        if let Some((_, placed)) = self.placed.take() {
            self.pod = statement.take_back(cluster, placed);
        }
    }
}

/// Something about a group, for the conditions of its object.
#[derive(Debug, Clone)]
pub struct GroupResult {
    /// The object as it was last seen.
    pub group: Arc<wire::PodGroup>,
    /// The result of its last attempt.
    pub outcome: GroupOutcome,
}

/// What came of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupOutcome {
    /// Enough of its pods have a node; they are being bound.
    Placed,
    /// It could not be placed: why.
    Unschedulable(String),
    /// All of it goes for another one.
    Preempted,
}
