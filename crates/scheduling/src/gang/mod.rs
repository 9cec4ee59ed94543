//! Pods that are placed all at once or not at all: the gangs of `scheduling.k8s.io/v1beta1` `PodGroup`s.
//!
//! Whenever one pod of a gang is popped, all of its pods that wait are tried with it, one after the other, on a cluster
//! that holds those before. Only if enough of them fit do they stay.

mod domains;
mod members;
mod preemption;

use crate::cycle::Filtered;
use crate::decider::{Decided, Decider};
use crate::framework::Framework;
use crate::preparations::Preparations;
pub(crate) use domains::{Domain, domains};
use evictd_placement::{Cluster, Mistake, NodeId, Pod, Statement};
use evictd_pod::wire;
pub(crate) use members::{Groups, Together, group_of};
pub(crate) use preemption::{Preemption, Preemptor, preempt};
use std::collections::BTreeSet;
use std::sync::Arc;

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
    pub(crate) prepares: Preparations,
    pub(crate) end: End,
}

/// What was found for a pod of a gang.
#[derive(Debug, Default)]
pub(crate) enum End {
    /// It was not tried, because its gang could not be placed any more.
    #[default]
    NotTried,
    /// It can be on this node.
    Fits(Decided),
    /// It fits nowhere: the words, and the plugins that say so.
    FitsNowhere(String, BTreeSet<String>),
    /// It cannot be read.
    Wrong(String),
}

/// What a gang is tried with.
pub(crate) struct Trial<'s> {
    pub(crate) cluster: &'s mut Cluster,
    pub(crate) decider: &'s mut Decider,
    pub(crate) frameworks: &'s [Framework],
    /// So many of the members have to fit.
    pub(crate) missing: usize,
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
        let compiled: Result<Pod, Mistake> = cluster.pod(copy);
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
            prepares: Preparations::default(),
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

    fn put(&mut self, cluster: &mut Cluster, statement: &mut Statement, node: NodeId) {
        if let Some(pod) = self.pod.take() {
            self.placed = Some((node, statement.place(cluster, pod, node)));
        }
    }

    fn take_back(&mut self, cluster: &mut Cluster, statement: &mut Statement) {
        if let Some((_, placed)) = self.placed.take() {
            self.pod = statement.take_back(cluster, placed);
        }
    }
}

impl Trial<'_> {
    /// Tries all members, in each domain of the group if all of them must be in one. Leaves those that fit placed if they
    /// are enough, and none otherwise; the index of the domain.
    pub(crate) fn run(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domains: &[Domain],
    ) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        for (index, domain) in domains.iter().enumerate() {
            let fit = self.place(statement, members, domain);
            if fit == members.len() || (fit >= self.missing && domains.len() == 1) {
                return Some(index);
            }
            self.take_back(statement, members);
            if fit >= self.missing && best.is_none_or(|(most, _)| fit > most) {
                best = Some((fit, index));
            }
        }
        let (_, index) = best?;
        self.place(statement, members, &domains[index]);
        Some(index)
    }

    /// Places one member after the other until too few are left; how many were placed.
    fn place(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domain: &Domain,
    ) -> usize {
        let (mut fit, mut left) = (0, members.len());
        for member in members {
            if fit + left < self.missing {
                break;
            }
            left -= 1;
            fit += usize::from(self.place_one(statement, member, domain));
        }
        fit
    }

    /// Places one member, if it fits.
    fn place_one(
        &mut self,
        statement: &mut Statement,
        member: &mut Member,
        domain: &Domain,
    ) -> bool {
        let Some(pod) = &member.pod else {
            return false;
        };
        let framework = &self.frameworks[member.profile];
        let decided = self
            .decider
            .decide_among(framework, self.cluster, pod, &|id| domain.contains(id));
        match decided {
            Ok(decided) => {
                let node = decided.chosen;
                member.prepares = Preparations::begin(self.cluster, pod, node);
                member.end = End::Fits(decided);
                member.put(self.cluster, statement, node);
                true
            }
            Err(filtered) => {
                member.end = nowhere(framework, self.cluster, pod, &filtered);
                false
            }
        }
    }

    /// Takes all members off their nodes again.
    fn take_back(&mut self, statement: &mut Statement, members: &mut [Member]) {
        for member in members {
            member.take_back(self.cluster, statement);
        }
    }
}

fn nowhere(framework: &Framework, cluster: &Cluster, pod: &Pod, filtered: &Filtered) -> End {
    End::FitsNowhere(
        filtered.fit_error(cluster, pod),
        framework.rejectors(filtered),
    )
}

/// Something about a group, for the conditions of its object.
#[derive(Debug, Clone)]
pub struct GroupNews {
    /// The object as it was last seen.
    pub group: Arc<wire::PodGroup>,
    /// What there is to say.
    pub what: GroupOutcome,
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
