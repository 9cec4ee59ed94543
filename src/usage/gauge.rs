//! Usage as the loop takes it: cgroups at once, directories by a walk and the kubelet by a question beside the loop, so
//! that looking never stops.

use super::{
    CgroupUsage, DiskMeter, DiskRoots, SummaryUsage, UsageSource, UsageWarning, io::IoMeter,
    raise_open_files,
};
use crate::{cgroup::Hierarchies, pods::PodSet};
use evictd_eviction::{Signal, StarvedResource, Usage, local_storage, usage::ContainerUsage};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
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
    usage: Usage,
    warnings: Vec<UsageWarning>,
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
    walked: Option<Walk>,
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
        let mut usage = match (self.told(now, set), signal.resource()) {
            (Some(told), _) => told,
            (None, StarvedResource::Memory | StarvedResource::Pids | StarvedResource::Io) => {
                Usage::default()
            }
            (None, StarvedResource::EphemeralStorage | StarvedResource::Inodes) => {
                self.walk(now, set, Whose::EveryPod)?
            }
        };
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

    /// What these pods hold in directories, when a walk has ended that is fresh enough; else one is begun.
    fn walk(&mut self, now: Timestamp, set: &Arc<PodSet>, whose: Whose) -> Option<Usage> {
        let fresh = |walk: &Walk| {
            let holds = walk.whose == whose || walk.whose == Whose::EveryPod;
            holds && walk.generation == set.generation && now.duration_since(walk.begun) <= MAX_AGE
        };
        if let Some(walk) = self.walked.take_if(|walk| fresh(walk)) {
            report(&walk.warnings);
            return Some(walk.usage);
        }
        let pods: Vec<usize> = (0..set.pods.len())
            .filter(|index| whose == Whose::EveryPod || local_storage::limited(&set.pods[*index]))
            .collect();
        if let Some(mut meter) = self.disk.take() {
            let set = Arc::clone(set);
            self.walking = Some(tokio::spawn(async move {
                let mut usage = Usage::default();
                let warnings = meter.measure(now, &set, &pods, &mut usage).await;
                let walk = Walk {
                    whose,
                    begun: now,
                    generation: set.generation,
                    usage,
                    warnings,
                };
                (meter, walk)
            }));
        }
        None
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
            self.walked = Some(walk);
        }
        self.walking = None;
    }
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
