//! Usage for the main loop. Cgroups are read directly; directories are walked and the kubelet is asked in the
//! background, so that the loop never waits.

use super::{
    CgroupUsage, DiskMeter, DiskRoots, Method, SummaryUsage, UsageSource, UsageWarning,
    files_left::FilesLeft,
    ledger::{DiskLedger, Findings},
    merging::{forget_unwalked, is_walked_for, lacks_files, measured_since, merge},
    postponement::{Pause, Postponement},
    pressure::PressureMeter,
    raise_open_files, remaining,
    walk::{MAX_AGE, Purpose, Walk, WalkScope},
};
use crate::pods::{LocalPod, PodSet};
use evictd_cri::Client;
use evictd_departures::RemainingUsage;
use evictd_eviction::{Rules, local_storage, rules::Figures};
use evictd_kernel::{cgroup::Hierarchies, signals::WatchedFilesystem};
use evictd_signals::{Signal, StarvedResource, Threshold};
use evictd_usage::{ContainerUsage, Growth, Usage};
use jiff::{SignedDuration, Timestamp};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinHandle;

/// The pause between walks for a decision while the amount of some files is unknown.
const WALK_AGAIN: Duration = Duration::from_millis(250);
/// How long the problem of a walk is reported.
const TOLD: SignedDuration = SignedDuration::from_mins(2);

/// The figures that a decision needs under the rules.
#[derive(Debug, Clone, Copy)]
struct Needs {
    /// Decisions on disks wait until the rates of writes are known.
    growth: bool,
    /// Writable layers count for the signal that is decided on.
    layers: bool,
    /// Figures from before a crossing do not decide.
    since_crossing: bool,
}

/// Measures the usage of pods, from the kubelet, cgroups and directories.
pub struct UsageReader {
    /// Asks the kubelet, if configured; figures that it does not report come from the other sources.
    summary: Option<SummaryUsage>,
    cgroups: CgroupUsage,
    pressure: PressureMeter,
    /// Absent during a walk, which it is moved into.
    disk: Option<DiskMeter>,
    walking: Option<JoinHandle<(DiskMeter, Walk)>>,
    /// The last result for a decision; used only once.
    walked: Option<Arc<Walk>>,
    /// The last result for every pod, for questions.
    shown: Option<Arc<Walk>>,
    /// The last look at who fills the disks, and when it was begun.
    findings: Option<(Timestamp, Findings)>,
    /// The usage of pods, from walks of all pods.
    growth: Growth,
    /// The same on each filesystem, by UID and device, and the pods' writes to all devices.
    growth_by_filesystem: Growth,
    needs: Needs,
    /// Lasts after a walk that left something unknown: walking again at once finds no more.
    between_walks: Pause,
    files_left: FilesLeft,
    postponement: Postponement,
    /// Whether it was found out if layers can be walked here.
    looked_for_layers: bool,
    /// The `mountinfo` file of the kernel.
    mounts: PathBuf,
    /// Why the disk usage of pods was not found, and when that walk was begun.
    disk_problem: Option<(Timestamp, String)>,
}

impl UsageReader {
    /// Reads below these hierarchies and directories; asks the kubelet first if `summary` is given.
    pub fn new(hierarchies: Hierarchies, roots: DiskRoots, summary: Option<SummaryUsage>) -> Self {
        let mounts = roots.proc.join("self/mountinfo");
        let mut disk = DiskMeter::new(roots.clone());
        disk.find_layers(hierarchies.clone());
        Self {
            summary,
            cgroups: CgroupUsage::new(hierarchies.clone(), raise_open_files()),
            pressure: PressureMeter::new(hierarchies),
            files_left: FilesLeft::new(roots),
            disk: Some(disk),
            walking: None,
            walked: None,
            shown: None,
            findings: None,
            growth: Growth::default(),
            growth_by_filesystem: Growth::default(),
            needs: Needs {
                growth: false,
                layers: true,
                since_crossing: false,
            },
            between_walks: Pause::default(),
            postponement: Postponement::default(),
            looked_for_layers: false,
            mounts,
            disk_problem: None,
        }
    }

    /// Asks this container runtime for writable layers.
    #[must_use]
    pub fn with_runtime(mut self, runtime: Client) -> Self {
        self.files_left.ask(runtime.clone());
        if let Some(disk) = &mut self.disk {
            disk.ask(runtime);
        }
        self
    }

    /// Adds the cgroups beside the pods on this node; see [`PressureMeter::look_beside`].
    #[must_use]
    pub(crate) fn beside(mut self, node: PathBuf, pods: Vec<PathBuf>) -> Self {
        self.pressure.look_beside(node, pods);
        self
    }

    /// For these rules, which may rank by who writes fastest: then a decision waits for a second walk.
    pub(crate) fn with(&mut self, rules: &Rules, signal: Signal) -> &mut Self {
        self.needs = Needs {
            growth: rules.fastest_writer_first,
            layers: rules.layers_are_on(signal),
            since_crossing: rules.figures == Figures::Evictd,
        };
        self
    }

    /// Usage of every pod as needed for a decision on this signal; `None` while it is being measured. `crossed` is
    /// when the signal was first seen past a threshold: older figures do not show which pod caused that. If figures
    /// cannot be read the decision is postponed for a few cycles.
    pub async fn read(
        &mut self,
        now: Timestamp,
        signal: Signal,
        crossed: Timestamp,
        set: &Arc<PodSet>,
    ) -> Option<Usage> {
        if self.waits_for_the_kubelet(now, signal, crossed) {
            return None;
        }
        let usage = self.kubelet_usage_since(signal, crossed, now, set);
        let usage = if self.needs.since_crossing {
            usage.and_then(|usage| measured_since(usage, signal, crossed))
        } else {
            usage
        };
        let (usage, mut unread) = match usage {
            Some(known) => (known, Vec::new()),
            None if is_walked_for(signal) => {
                let walk = self.walk(now, crossed, set, WalkScope::AllPods)?;
                let mut usage = walk.usage_of(set);
                if !self.needs.since_crossing {
                    forget_unwalked(&mut usage);
                }
                if self.waits_for_growth(now, (signal, crossed), &usage) {
                    return None;
                }
                (usage, walk.unread(set))
            }
            None => (Usage::default(), Vec::new()),
        };
        let (usage, unread_here) = self.complete(now, signal, set, usage).await?;
        unread.extend(unread_here);
        (!self.postponement.postpones(set, &unread)).then_some(usage)
    }

    /// The same for a question, for which the last measured figures will do until newer ones arrive. `None` before
    /// the first.
    pub async fn show(
        &mut self,
        now: Timestamp,
        signal: Signal,
        set: &Arc<PodSet>,
    ) -> Option<Usage> {
        let awaited = self.waits_for_the_kubelet(now, signal, Timestamp::MIN);
        let summary = self.summary.as_ref();
        let summary = summary.filter(|summary| summary.tells(signal));
        let usage = match summary.and_then(|summary| summary.last(now, set)) {
            Some(known) => known,
            None if awaited => return None,
            None if is_walked_for(signal) => self.last_walk(now, set)?,
            None => Usage::default(),
        };
        let (usage, _) = self.complete(now, signal, set, usage).await?;
        Some(usage)
    }

    /// Who fills these filesystems, up to five seconds ago; `None` while that is being found out.
    pub fn disks<'a>(
        &mut self,
        now: Timestamp,
        set: &Arc<PodSet>,
        filesystems: &[WatchedFilesystem],
        thresholds: &(impl Iterator<Item = &'a Threshold> + Clone),
    ) -> Option<DiskLedger> {
        let recent = |begun: Timestamp| now.duration_since(begun) <= MAX_AGE;
        let Some((_, findings)) = self.findings.as_ref().filter(|(begun, _)| recent(*begun)) else {
            let purpose = (Purpose::Question, Timestamp::MIN);
            self.start_walk_of(now, set, WalkScope::AllPods, purpose, filesystems.to_vec());
            return None;
        };
        let ledger = findings.ledger(now, set, thresholds);
        Some(DiskLedger {
            problem: self.disk_problem.as_ref().map(|(_, why)| why.clone()),
            ..ledger
        })
    }

    /// Adds the figures from cgroups; also returns the indices of the pods for which a figure that this signal
    /// ranks by could not be read.
    async fn complete(
        &mut self,
        now: Timestamp,
        signal: Signal,
        set: &PodSet,
        mut usage: Usage,
    ) -> Option<(Usage, Vec<usize>)> {
        let mut cgroups = Usage::default();
        let mut warnings = self.cgroups.every_pod(now, set, &mut cgroups).await;
        // Figures from the kubelet need not be read again.
        let is_known = |index: usize| {
            usage.of(index).is_some_and(|pod| match signal.resource() {
                StarvedResource::Memory => pod.working_set.is_some(),
                StarvedResource::Pids => pod.processes.is_some(),
                _ => false,
            })
        };
        let known: Vec<bool> = (0..set.pods.len()).map(is_known).collect();
        merge(&mut usage, cgroups);
        warnings.extend(self.pressure.read((now, signal), set, &mut usage));
        report(&warnings);
        let unread = warnings.iter().filter_map(|warning| match warning {
            UsageWarning::Unreadable {
                index, resource, ..
            } if *resource == signal.resource() && !known[*index] => Some(*index),
            _ => None,
        });
        let is_pending = self.summary.as_ref().is_some_and(SummaryUsage::is_pending);
        // While the kubelet's answer is pending, no figures at all are no reason to decide without it.
        let nothing = usage.pods.iter().all(Option::is_none);
        (!(is_pending && nothing)).then(|| (usage, unread.collect()))
    }

    /// The remaining usage of the pod with this UID according to its cgroup and its volumes, read now. The pod need not
    /// be listed any more.
    pub fn remaining(&mut self, uid: &str, cgroup: &Path) -> RemainingUsage {
        let (hierarchies, buffer) = self.cgroups.reader();
        remaining::read(hierarchies, &self.mounts, (uid, cgroup), buffer)
    }

    /// Whether hardly any files are left of this pod, as of a second ago; `None` if that is not known yet.
    pub(crate) fn files_are_gone(&mut self, now: Timestamp, pod: &LocalPod) -> Option<bool> {
        self.files_left.are_gone(now, pod)
    }

    /// Finds out once, with the first pods, whether their writable layers can be walked here. Evictions for a disk are
    /// slower where they cannot, so evictd logs that at its start.
    pub(crate) fn look_for_layers(&mut self, now: Timestamp, set: &Arc<PodSet>) {
        if self.looked_for_layers || set.pods.is_empty() {
            return;
        }
        let Some(mut meter) = self.disk.take() else {
            return;
        };
        self.looked_for_layers = true;
        let set = Arc::clone(set);
        self.walking = Some(tokio::spawn(async move {
            meter.look_for_layers(now, &set).await;
            let walk = Walk::of_nothing(now, meter.problem());
            (meter, walk)
        }));
    }

    /// Opens the files of new pods' cgroups, so that a decision need not.
    pub fn open(&mut self, set: &PodSet) {
        self.cgroups.open(set);
    }

    /// The figures from the cgroups of the pods with these indices; all others stay unknown.
    pub(crate) fn read_these(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: impl Iterator<Item = usize>,
    ) -> Usage {
        let mut usage = Usage::default();
        report(&self.cgroups.read_these(now, set, pods, &mut usage));
        usage
    }

    /// Starts to count reads and writes of pods in the first cycle that finds I/O pressure.
    pub(crate) fn count_io(&mut self, pressure: bool, set: &PodSet) {
        self.pressure.count_io(pressure, set);
    }

    /// Whether no growth is known although a second walk would show it. The longest wait is the age at which the
    /// first figures become useless.
    fn waits_for_growth(
        &self,
        now: Timestamp,
        (signal, crossed): (Signal, Timestamp),
        usage: &Usage,
    ) -> bool {
        let mut pods = usage.pods.iter().flatten();
        let unknown = pods.all(|pod| pod.disk_growth.is_none());
        // A writer is recognised by the second walk, so the first one does not decide.
        let ranks = self.needs.growth && signal.resource() == StarvedResource::EphemeralStorage;
        ranks && unknown && now.duration_since(crossed) < MAX_AGE
    }

    fn waits_for_the_kubelet(
        &mut self,
        now: Timestamp,
        signal: Signal,
        crossed: Timestamp,
    ) -> bool {
        let summary = self.summary.as_mut();
        let summary = summary.filter(|summary| summary.tells(signal));
        summary.is_some_and(|summary| summary.is_awaited(now, crossed))
    }

    /// The answer to a request made at `crossed` or later, if there is one.
    fn kubelet_usage_since(
        &self,
        signal: Signal,
        crossed: Timestamp,
        now: Timestamp,
        set: &PodSet,
    ) -> Option<Usage> {
        let summary = self.summary.as_ref();
        let summary = summary.filter(|summary| summary.tells(signal));
        summary?.usage(now, crossed, set)
    }

    /// Why usage does not come from the configured source. A problem of a walk is reported for two minutes, because the
    /// next walk, which may find it over, may never be needed.
    pub fn problem(&self, now: Timestamp) -> Option<String> {
        let summary = self.summary.as_ref();
        let asked = summary.and_then(SummaryUsage::problem);
        let recent = |(begun, _): &&(Timestamp, String)| now.duration_since(*begun) < TOLD;
        let of_disk = self.disk_problem.as_ref().filter(recent);
        asked.or_else(|| of_disk.map(|(_, why)| why.clone()))
    }

    /// Adds the memory of one pod's containers, for its eviction message.
    pub(crate) async fn read_containers(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pod: usize,
        usage: &mut Usage,
    ) {
        let known = |one: &ContainerUsage| one.working_set.is_some();
        if usage
            .of(pod)
            .is_some_and(|pod| pod.containers.iter().any(known))
        {
            return;
        }
        report(&self.cgroups.containers(now, set, &[pod], usage).await);
    }

    /// Disk usage of these pods; `None` while it is being measured.
    pub(crate) fn read_disk(
        &mut self,
        now: Timestamp,
        set: &Arc<PodSet>,
        scope: WalkScope,
    ) -> Option<Usage> {
        // The time of the request does not matter here: a pod exceeds its own limit regardless of the node's state.
        let any = Timestamp::MIN;
        // The kubelet's figures save a walk.
        if self.waits_for_the_kubelet(now, Signal::NodefsAvailable, any) {
            return None;
        }
        let known = self.kubelet_usage_since(Signal::NodefsAvailable, any, now, set);
        known.or_else(|| Some(self.walk(now, any, set, scope)?.usage_of(set)))
    }

    /// Disk usage of these pods from a walk for a decision that was begun at `crossed` or later and is fresh
    /// enough; otherwise a walk is begun. For limits of pods the walk need not include pods that were added since.
    /// A ranking needs all pods of the set.
    fn walk(
        &mut self,
        now: Timestamp,
        crossed: Timestamp,
        set: &Arc<PodSet>,
        scope: WalkScope,
    ) -> Option<Arc<Walk>> {
        let is_usable = |walk: &Arc<Walk>| {
            let holds = match scope {
                WalkScope::LimitedPods => true,
                WalkScope::AllPods => walk.scope == WalkScope::AllPods && walk.covers(set),
            };
            holds
                && walk.purpose == Purpose::Decision
                && walk.begun >= crossed
                && walk.is_recent(now)
        };
        // Each walk decides once: the next decision must not rest on files of a pod that is gone.
        let walk = self.walked.take_if(|walk| is_usable(walk));
        if walk.is_none() && !self.between_walks.lasts() {
            self.start_walk(now, set, scope, (Purpose::Decision, crossed));
        }
        walk
    }

    /// The last result for every pod; if it is old, another walk is begun.
    fn last_walk(&mut self, now: Timestamp, set: &Arc<PodSet>) -> Option<Usage> {
        let last = self.shown.clone();
        let is_of_now = |walk: &Arc<Walk>| walk.is_recent(now) && walk.covers(set);
        if !last.as_ref().is_some_and(is_of_now) {
            let purpose = (Purpose::Question, Timestamp::MIN);
            self.start_walk(now, set, WalkScope::AllPods, purpose);
        }
        Some(last?.usage_of(set))
    }

    /// Begins a walk unless one is in progress.
    fn start_walk(
        &mut self,
        now: Timestamp,
        set: &Arc<PodSet>,
        scope: WalkScope,
        purpose: (Purpose, Timestamp),
    ) {
        self.start_walk_of(now, set, scope, purpose, Vec::new());
    }

    /// The same, and looks at these filesystems.
    fn start_walk_of(
        &mut self,
        now: Timestamp,
        set: &Arc<PodSet>,
        scope: WalkScope,
        (purpose, crossed): (Purpose, Timestamp),
        filesystems: Vec<WatchedFilesystem>,
    ) {
        // The meter moves into the task and comes back with the walk, so there is one walk at a time.
        let Some(mut meter) = self.disk.take() else {
            return;
        };
        let decides = (scope, purpose) == (WalkScope::AllPods, Purpose::Decision);
        meter.asks_runtime(!decides || self.needs.layers);
        let pods: Vec<usize> = (0..set.pods.len())
            .filter(|index| {
                scope == WalkScope::AllPods || local_storage::limited(&set.pods[*index])
            })
            .collect();
        let written = if filesystems.is_empty() {
            Vec::new()
        } else {
            self.pressure.written(set)
        };
        meter.decide_since(crossed);
        let set = Arc::clone(set);
        self.walking = Some(tokio::spawn(async move {
            let mut usage = Usage::default();
            let method = match scope {
                WalkScope::AllPods => Method::Walk,
                WalkScope::LimitedPods => Method::Changes,
            };
            let warnings = meter.measure(now, &set, &pods, method, &mut usage).await;
            let findings = if filesystems.is_empty() {
                None
            } else {
                meter.survey(now, &set, filesystems).await
            };
            let walk = Walk {
                findings: findings.map(|found| meter.complete(&set, found)),
                written,
                problem: meter.problem(),
                scope,
                purpose,
                begun: now,
                generation: set.generation,
                uids: set.pods.iter().map(|pod| pod.uid.clone()).collect(),
                usage,
                warnings,
            };
            (meter, walk)
        }));
    }

    /// Returns when a measurement may have ended. Cancel safe; waits for ever if none is in progress.
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
            () = self.postponement.over() => return,
            () = self.between_walks.over() => return,
            walked = walk => walked,
        };
        // A walk that was lost loses the meter too; disk usage is then unknown until the next start.
        if let Ok((meter, mut walk)) = walked {
            self.disk = Some(meter);
            report(&walk.warnings);
            self.take_problem(walk.begun, walk.problem.as_ref());
            if walk.scope == WalkScope::AllPods {
                let uids = walk.uids.iter().map(String::as_str);
                self.growth.add(walk.begun, uids, &mut walk.usage);
            }
            if let Some(mut findings) = walk.findings.take() {
                findings.compare(walk.begun, &walk.written, &mut self.growth_by_filesystem);
                self.findings = Some((walk.begun, findings));
            }
            let decides = walk.purpose == Purpose::Decision && lacks_files(&walk.usage);
            self.between_walks = if decides {
                Pause::of(WALK_AGAIN)
            } else {
                Pause::default()
            };
            let walk = Arc::new(walk);
            if walk.scope == WalkScope::AllPods {
                self.shown = Some(Arc::clone(&walk));
            }
            self.walked = Some(walk);
        }
        self.walking = None;
    }

    /// Takes the problem of a walk, and logs it once.
    fn take_problem(&mut self, begun: Timestamp, problem: Option<&String>) {
        let known = self.disk_problem.as_ref().map(|(_, why)| why);
        if let Some(problem) = problem.filter(|problem| known != Some(*problem)) {
            tracing::warn!("{problem}");
        }
        self.disk_problem = problem.map(|problem| (begun, problem.clone()));
    }
}

fn report(warnings: &[UsageWarning]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests;
