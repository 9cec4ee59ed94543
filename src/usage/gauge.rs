//! Usage as the loop takes it: cgroups at once, directories by a walk and the kubelet by a question beside the loop, so
//! that looking never stops.

use super::{
    CgroupUsage, DiskMeter, DiskRoots, SummaryUsage, UsageSource, UsageWarning, io::IoMeter,
    raise_open_files,
};
use crate::{cgroup::Hierarchies, pods::PodSet};
use evictd_eviction::{Signal, StarvedResource, Usage, local_storage, usage::ContainerUsage};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio::task::JoinHandle;

/// Figures of directories may be this old when they decide.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(5);

/// Whose directories are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Those of every pod.
    EveryPod,
    /// Those of pods with limits of their own; the others stay unknown.
    LimitedPods,
}

/// What a walk brought.
struct Walk {
    whose: Whose,
    begun: Timestamp,
    generation: u64,
    /// Whose usage it is, one by one.
    uids: Vec<String>,
    usage: Usage,
    warnings: Vec<UsageWarning>,
}

impl Walk {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.begun) <= MAX_AGE
    }

    /// Whether it has seen every pod of this set.
    fn knows(&self, set: &PodSet) -> bool {
        let known: HashSet<&str> = self.uids.iter().map(String::as_str).collect();
        self.generation == set.generation
            || set.pods.iter().all(|pod| known.contains(pod.uid.as_str()))
    }

    /// The usage of the pods of this set, `None` of those that were not there yet.
    fn usage_of(&self, set: &PodSet) -> Usage {
        let places = self.uids.iter().map(String::as_str).zip(0..);
        let places: HashMap<&str, usize> = places.collect();
        let of = |pod: &Pod| self.usage.of(*places.get(pod.uid.as_str())?).cloned();
        Usage {
            pods: set.pods.iter().map(of).collect(),
        }
    }
}

/// Takes usage.
pub struct Gauge {
    /// Where the kubelet is asked; what it does not tell the others do.
    summary: Option<SummaryUsage>,
    cgroups: CgroupUsage,
    io: IoMeter,
    /// Away while it walks.
    disk: Option<DiskMeter>,
    walking: Option<JoinHandle<(DiskMeter, Walk)>>,
    /// Decides once.
    walked: Option<Arc<Walk>>,
    /// The last of every pod, for whoever only wants to see.
    shown: Option<Arc<Walk>>,
}

impl Gauge {
    /// Reads below these hierarchies and directories; asks the kubelet first, where there is a way to.
    pub fn new(hierarchies: Hierarchies, roots: DiskRoots, summary: Option<SummaryUsage>) -> Self {
        Self {
            summary,
            cgroups: CgroupUsage::new(hierarchies.clone(), raise_open_files()),
            io: IoMeter::new(hierarchies),
            disk: Some(DiskMeter::new(roots)),
            walking: None,
            walked: None,
            shown: None,
        }
    }

    /// Usage of every pod as a decision on this signal needs it; `None` while it is being measured.
    pub async fn read(
        &mut self,
        now: Timestamp,
        signal: Signal,
        set: &Arc<PodSet>,
    ) -> Option<Usage> {
        if self.waits_for_the_kubelet(now) {
            return None;
        }
        let usage = match self.told(now, set) {
            Some(told) => told,
            None if is_walked_for(signal) => self.walk(now, set, Whose::EveryPod)?,
            None => Usage::default(),
        };
        self.complete(now, signal, set, usage).await
    }

    /// The same for a question, which needs no figures of now: those that were measured last, until newer ones are
    /// there. `None` before the first are.
    pub async fn show(
        &mut self,
        now: Timestamp,
        signal: Signal,
        set: &Arc<PodSet>,
    ) -> Option<Usage> {
        let awaited = self.waits_for_the_kubelet(now);
        let summary = self.summary.as_ref();
        let usage = match summary.and_then(|summary| summary.last(now, set)) {
            Some(told) => told,
            None if awaited => return None,
            None if is_walked_for(signal) => self.walked_last(now, set)?,
            None => Usage::default(),
        };
        self.complete(now, signal, set, usage).await
    }

    /// With what cgroups tell.
    async fn complete(
        &mut self,
        now: Timestamp,
        signal: Signal,
        set: &PodSet,
        mut usage: Usage,
    ) -> Option<Usage> {
        let mut cgroups = Usage::default();
        let warnings = self.cgroups.every_pod(now, set, &mut cgroups).await;
        report(&warnings);
        merge(&mut usage, cgroups);
        if signal.resource() == StarvedResource::Io {
            self.io.read(set, &mut usage);
        }
        let is_asking = self.summary.as_ref().is_some_and(SummaryUsage::is_asking);
        let nothing = usage.pods.iter().all(Option::is_none);
        (!(is_asking && nothing)).then_some(usage)
    }

    /// What the cgroups of these pods tell, by their indices; all others stay unknown.
    pub fn read_these(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: impl Iterator<Item = usize>,
    ) -> Usage {
        let mut usage = Usage::default();
        report(&self.cgroups.read_these(now, set, pods, &mut usage));
        usage
    }

    /// What the pods read and write is counted from the first look that finds pressure on it.
    pub fn count_io(&mut self, pressure: bool, set: &PodSet) {
        if pressure {
            self.io.begin(set);
        } else {
            self.io.end();
        }
    }

    fn waits_for_the_kubelet(&mut self, now: Timestamp) -> bool {
        let summary = self.summary.as_mut();
        summary.is_some_and(|summary| summary.is_awaited(now))
    }

    /// What the kubelet has told, if it is asked and did.
    fn told(&self, now: Timestamp, set: &PodSet) -> Option<Usage> {
        self.summary.as_ref()?.usage(now, set)
    }

    /// Why usage does not come from where it should.
    pub fn problem(&self) -> Option<String> {
        self.summary.as_ref()?.problem()
    }

    /// Adds memory of the containers of one pod, for the words about it.
    pub async fn read_containers(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pod: usize,
        usage: &mut Usage,
    ) {
        let told = |one: &ContainerUsage| one.working_set.is_some();
        if usage
            .of(pod)
            .is_some_and(|pod| pod.containers.iter().any(told))
        {
            return;
        }
        report(&self.cgroups.containers(now, set, &[pod], usage).await);
    }

    /// What these pods hold on disk; `None` while it is being measured.
    pub fn read_disk(&mut self, now: Timestamp, set: &Arc<PodSet>, whose: Whose) -> Option<Usage> {
        if self.waits_for_the_kubelet(now) {
            return None;
        }
        let told = self.told(now, set);
        told.or_else(|| self.walk(now, set, whose))
    }

    /// What these pods hold in directories, when a walk has ended that is fresh enough; else one is begun. Pods are listed
    /// anew all the time: a limit of a pod's own is a matter between it and its directories, whoever came meanwhile, and
    /// a ranking needs all of them.
    fn walk(&mut self, now: Timestamp, set: &Arc<PodSet>, whose: Whose) -> Option<Usage> {
        let decides = |walk: &Arc<Walk>| {
            let holds = match whose {
                Whose::LimitedPods => true,
                Whose::EveryPod => walk.whose == Whose::EveryPod && walk.knows(set),
            };
            holds && walk.is_recent(now)
        };
        if let Some(walk) = self.walked.take_if(|walk| decides(walk)) {
            return Some(walk.usage_of(set));
        }
        self.set_out(now, set, whose);
        None
    }

    /// What the last walk found with every pod; where it was a while ago, another is begun.
    fn walked_last(&mut self, now: Timestamp, set: &Arc<PodSet>) -> Option<Usage> {
        let last = self.shown.clone();
        let is_of_now = |walk: &Arc<Walk>| walk.is_recent(now) && walk.knows(set);
        if !last.as_ref().is_some_and(is_of_now) {
            self.set_out(now, set, Whose::EveryPod);
        }
        Some(last?.usage_of(set))
    }

    /// Begins a walk, unless one is under way.
    fn set_out(&mut self, now: Timestamp, set: &Arc<PodSet>, whose: Whose) {
        let Some(mut meter) = self.disk.take() else {
            return;
        };
        let pods: Vec<usize> = (0..set.pods.len())
            .filter(|index| whose == Whose::EveryPod || local_storage::limited(&set.pods[*index]))
            .collect();
        let set = Arc::clone(set);
        self.walking = Some(tokio::spawn(async move {
            let mut usage = Usage::default();
            let warnings = meter.measure(now, &set, &pods, &mut usage).await;
            let walk = Walk {
                whose,
                begun: now,
                generation: set.generation,
                uids: set.pods.iter().map(|pod| pod.uid.clone()).collect(),
                usage,
                warnings,
            };
            (meter, walk)
        }));
    }

    /// What was being measured may be known now. Cancel safe; waits for ever where nothing is.
    pub async fn measured(&mut self) {
        let answered = async {
            match &mut self.summary {
                Some(summary) => summary.answered().await,
                None => std::future::pending().await,
            }
        };
        let walk = async {
            match &mut self.walking {
                Some(walking) => walking.await,
                None => std::future::pending().await,
            }
        };
        let walked = tokio::select! {
            () = answered => return,
            walked = walk => walked,
        };
        // A walk that was lost takes its meter with it; disks are then unknown until the next start.
        if let Ok((meter, walk)) = walked {
            self.disk = Some(meter);
            report(&walk.warnings);
            let walk = Arc::new(walk);
            if walk.whose == Whose::EveryPod {
                self.shown = Some(Arc::clone(&walk));
            }
            self.walked = Some(walk);
        }
        self.walking = None;
    }
}

/// Whether what a pod uses of it lies in its directories.
fn is_walked_for(signal: Signal) -> bool {
    matches!(
        signal.resource(),
        StarvedResource::EphemeralStorage | StarvedResource::Inodes
    )
}

/// Memory and processes come from cgroups unless the kubelet has told them, all else from it or the walk.
fn merge(usage: &mut Usage, cgroups: Usage) {
    usage.pods.resize_with(cgroups.pods.len(), || None);
    for (whole, cgroup) in usage.pods.iter_mut().zip(cgroups.pods) {
        match (whole.as_mut(), cgroup) {
            (None, cgroup) => *whole = cgroup,
            (Some(_), None) => {}
            (Some(whole), Some(cgroup)) => {
                whole.working_set = whole.working_set.or(cgroup.working_set);
                whole.anon = whole.anon.or(cgroup.anon);
                whole.swap = whole.swap.or(cgroup.swap);
                whole.processes = whole.processes.or(cgroup.processes);
            }
        }
    }
}

fn report(warnings: &[UsageWarning]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests;
