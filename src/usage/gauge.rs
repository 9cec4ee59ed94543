//! Usage as the loop takes it: cgroups at once, directories by a walk beside the loop, so that looking never stops.

use super::{CgroupUsage, DiskMeter, DiskRoots, UsageSource, UsageWarning, raise_open_files};
use crate::{cgroup::Hierarchies, pods::PodSet};
use evictd_eviction::{Signal, StarvedResource, Usage, local_storage};
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
    cgroups: CgroupUsage,
    /// Away while it walks.
    disk: Option<DiskMeter>,
    walking: Option<JoinHandle<(DiskMeter, Walk)>>,
    walked: Option<Walk>,
}

impl Gauge {
    /// Reads below these hierarchies and directories.
    pub fn new(hierarchies: Hierarchies, roots: DiskRoots) -> Self {
        Self {
            cgroups: CgroupUsage::new(hierarchies, raise_open_files()),
            disk: Some(DiskMeter::new(roots)),
            walking: None,
            walked: None,
        }
    }

    /// Usage of every pod as a decision on this signal needs it; `None` while directories are being walked.
    pub async fn read(
        &mut self,
        now: Timestamp,
        signal: Signal,
        set: &Arc<PodSet>,
    ) -> Option<Usage> {
        let mut usage = match signal.resource() {
            StarvedResource::Memory | StarvedResource::Pids => Usage::default(),
            StarvedResource::EphemeralStorage | StarvedResource::Inodes => {
                self.read_disk(now, set, Whose::EveryPod)?
            }
        };
        let mut cgroups = Usage::default();
        let warnings = self.cgroups.every_pod(now, set, &mut cgroups).await;
        report(&warnings);
        merge(&mut usage, cgroups);
        Some(usage)
    }

    /// Adds memory of the containers of one pod, for the words about it.
    pub async fn read_containers(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pod: usize,
        usage: &mut Usage,
    ) {
        report(&self.cgroups.containers(now, set, &[pod], usage).await);
    }

    /// What these pods hold in directories, when a walk has ended that is fresh enough; else one is begun.
    pub fn read_disk(&mut self, now: Timestamp, set: &Arc<PodSet>, whose: Whose) -> Option<Usage> {
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

    /// The walk under way has ended. Cancel safe; waits for ever where there is none.
    pub async fn walked(&mut self) {
        let Some(walking) = &mut self.walking else {
            return std::future::pending().await;
        };
        // A walk that was lost takes its meter with it; disks are then unknown until the next start.
        if let Ok((meter, walk)) = walking.await {
            self.disk = Some(meter);
            self.walked = Some(walk);
        }
        self.walking = None;
    }
}

/// Memory and processes come from cgroups, all else from the walk.
fn merge(usage: &mut Usage, cgroups: Usage) {
    usage.pods.resize_with(cgroups.pods.len(), || None);
    for (whole, cgroup) in usage.pods.iter_mut().zip(cgroups.pods) {
        match (whole.as_mut(), cgroup) {
            (None, cgroup) => *whole = cgroup,
            (Some(_), None) => {}
            (Some(whole), Some(cgroup)) => {
                whole.working_set = cgroup.working_set;
                whole.anon = cgroup.anon;
                whole.swap = cgroup.swap;
                whole.processes = cgroup.processes;
            }
        }
    }
}

fn report(warnings: &[UsageWarning]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}
