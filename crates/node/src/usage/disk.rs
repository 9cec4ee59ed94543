//! Local volumes and logs of pods, by walking their directories within a budget.
//!
//! Walks run on a separate thread, one at a time: a filesystem that hangs blocks nothing else, and a busy disk gets
//! no more load than needed.

use super::{
    NotWalked, UsageWarning,
    deleted::OpenDeleted,
    directories::DiskRoots,
    layers::Layers,
    ledger::{self, Entry, Findings, HostPath, Kind},
    parts::{self, Part, PartKind, Projects},
    survey::{self, Survey, is_on_disk},
    upper::{self, LayerTarget, Place},
};
use crate::pods::{LocalPod, PodSet};
use evictd_cri::Client;
use evictd_eviction::{local_storage, rules::StorageLimits};
use evictd_kernel::{
    cgroup::Hierarchies,
    signals::WatchedFilesystem,
    threads::Pool,
    walk::{Budget, KeptTree, KeptTrees},
};
use evictd_pod::Pod;
use evictd_usage::{DeletedUsage, PodUsage, Usage};
use jiff::Timestamp;
use nix::sys::stat::stat;
use std::{
    collections::HashMap,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::oneshot::{Receiver, error::TryRecvError},
    time::{Sleep, sleep, timeout},
};

/// Limits of the effort of measuring.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The most files and directories of one pod.
    entries: u64,
    /// The longest time for one pod.
    pod: Duration,
    /// The longest time for all pods of one request.
    all: Duration,
    /// How long a walk may take to stop after the request to stop.
    stopping: Duration,
    /// The most walks that may hang at once.
    hanging: usize,
}

const DEFAULT_LIMITS: Limits = Limits {
    entries: 1_000_000,
    pod: Duration::from_secs(1),
    all: Duration::from_secs(4),
    stopping: Duration::from_millis(200),
    hanging: Pool::HANGING_WALKS,
};

/// How directories are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Every directory is walked.
    Walk,
    /// For limits of pods, which are checked all the time. A tree that was walked before is read again only where the
    /// kernel reports changes. Directories of the node are left out, because no limit counts them. A pod that exceeds a limit
    /// by these figures is walked.
    Changes,
}

/// Measures the disk usage of pods. The writable layers of running containers are walked unless the container runtime
/// has counted them in the last seconds.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub(crate) struct DiskMeter {
    roots: DiskRoots,
    limits: Limits,
    layers: Layers,
    /// Whether the next measurement asks the runtime, which may be frozen.
    asks_runtime: bool,
    /// `None` before the first use, and if the kernel gives no inotify instance.
    kept: Option<KeptTrees>,
    threads: Pool,
    deleted: OpenDeleted,
    /// Where the processes of pods are; `None` if their layers are not looked for.
    hierarchies: Option<Hierarchies>,
    /// The writable layers of running containers, as of the last walk.
    uppers: HashMap<Place, PathBuf>,
    /// A search for them that has not ended.
    searching: Option<Receiver<HashMap<Place, PathBuf>>>,
    /// A survey that has not ended.
    surveying: Option<Receiver<Findings>>,
    /// By UID.
    hanging: HashMap<String, Receiver<Walked>>,
    /// Whether the last walk looked for pods and found no directory of any.
    found_no_directory: bool,
    /// Whether there were containers of a runtime in the last walk whose layers were not found.
    lacks_layers: bool,
    /// Figures from before this moment do not show which pod caused the pressure.
    since: Timestamp,
    /// Whether the layer of a container was not found in the last walk, or not reached.
    walks_no_layer: bool,
    /// The layers that were looked for in the last walk.
    wanted: Vec<Place>,
    /// The sizes of the pods' directories in the last walk.
    entries: Vec<Entry>,
    host_paths: Vec<HostPath>,
}

/// The usage of a pod's directories, one by one; `None` if the kubelet has no directory for the pod.
type Walked = Option<Vec<(Part, Option<KeptTree>)>>;

impl DiskMeter {
    /// Measures below these directories.
    pub(crate) fn new(roots: DiskRoots) -> Self {
        let threads = Pool::of_this_process();
        Self {
            deleted: OpenDeleted::new(roots.proc.clone(), threads.clone()),
            roots,
            limits: DEFAULT_LIMITS,
            layers: Layers::default(),
            asks_runtime: true,
            kept: None,
            hierarchies: None,
            uppers: HashMap::new(),
            searching: None,
            surveying: None,
            threads,
            hanging: HashMap::new(),
            found_no_directory: false,
            lacks_layers: false,
            since: Timestamp::MIN,
            walks_no_layer: false,
            wanted: Vec::new(),
            entries: Vec::new(),
            host_paths: Vec::new(),
        }
    }

    /// Asks this container runtime for writable layers.
    pub(super) fn ask(&mut self, runtime: Client) {
        self.layers = Layers::of(runtime);
    }

    /// Whether the next measurements need writable layers, for which the runtime is asked.
    pub(super) fn asks_runtime(&mut self, needed: bool) {
        self.asks_runtime = needed;
    }

    /// Finds the writable layers of containers by the processes in these hierarchies.
    pub(super) fn find_layers(&mut self, hierarchies: Hierarchies) {
        self.hierarchies = Some(hierarchies);
    }

    /// From now on figures from before this moment, that of the crossing, count as not known.
    pub(super) const fn decide_since(&mut self, crossed: Timestamp) {
        self.since = crossed;
    }

    /// Why the disk usage of pods was not found in the last walk, or a part of it.
    pub(crate) fn problem(&self) -> Option<String> {
        let not_found = self.found_no_directory.then(|| {
            format!(
                "disk usage of pods is unknown: no pod has a directory in {}; set kubelet.rootDir to the kubelet's \
                 --root-dir",
                self.roots.pods().display()
            )
        });
        let missing = || self.layers.missing().filter(|_| self.lacks_layers);
        let not_walked = || {
            self.walks_no_layer.then(|| {
                "writable layers of containers are not found here, so that only the container runtime counts them, every \
                 10 s: evictions for a disk wait for it (mount the runtime's directory at the same path, such as \
                 /var/lib/containerd, and share the node's process ids)"
                    .to_owned()
            })
        };
        not_found
            .or_else(|| self.layers.problem())
            .or_else(missing)
            .or_else(not_walked)
    }

    /// Adds bytes and inodes of the local volumes, logs and writable layers of the pods with these indices to `usage`.
    /// Takes slightly more than 4 s at most.
    pub(crate) async fn measure(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: &[usize],
        method: Method,
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        let mut all = Box::pin(sleep(self.limits.all));
        // Both are asked before the walks begin, because their answers say which layers need a walk.
        if !pods.is_empty() && self.asks_runtime {
            self.layers.read(now).await;
            self.uppers = self.search(now, set, pods).await;
        }
        if method == Method::Walk {
            let Limits { pod, stopping, .. } = self.limits;
            self.deleted.look(now, (pod, stopping)).await;
        }
        if method == Method::Changes {
            self.kept = self.kept.take().or_else(|| KeptTrees::new().ok());
            if let Some(kept) = &mut self.kept {
                kept.update();
            }
        }
        self.hanging
            .retain(|_, walk| walk.try_recv().err() == Some(TryRecvError::Empty));
        usage.pods.resize_with(set.pods.len(), || None);
        self.entries.clear();
        self.host_paths.clear();
        let mut warnings = Vec::new();
        let (mut found, mut missing) = (0_usize, 0_usize);
        for &index in pods {
            let Some(pod) = set.pods.get(index) else {
                continue;
            };
            let projects = self.projects(pod, method);
            let mut walked = self.walk(now, pod, (method, projects), all.as_mut()).await;
            if let Ok(Some(parts)) = &walked
                && method == Method::Changes
                && local_storage::exceeded(pod, &self.usage_of(now, pod, parts), StorageLimits::ALL)
                    .is_some()
            {
                // A change that was not reported must not evict a pod, so everything is read before a limit counts as
                // exceeded.
                let certain = (Method::Walk, projects);
                walked = self.walk(now, pod, certain, all.as_mut()).await;
            }
            match walked {
                Ok(Some(parts)) => {
                    found += 1;
                    self.take_layers(now, pod, &parts);
                    parts::warn(pod, index, &parts, &mut warnings);
                    let mut found = self.usage_of(now, pod, &parts);
                    if method == Method::Walk {
                        self.note(now, pod, &parts);
                        found.deleted = self.deleted_of(pod, &parts);
                    }
                    usage.pods[index] = Some(found);
                }
                // The files may be somewhere else, so the usage is unknown, not zero.
                Ok(None) => missing += 1,
                Err(why) => {
                    usage.pods[index] = Some(PodUsage::not_walked());
                    warnings.push(UsageWarning::NotWalked {
                        pod: pod.full_name(),
                        why,
                    });
                }
            }
        }
        if let Some(kept) = self.kept.as_mut().filter(|_| method == Method::Changes) {
            // Trees of pods that are gone would keep their watches, of which a user has a limited number.
            kept.forget_unused();
        }
        if found + missing > 0 {
            // One pod without a directory is new or static; none at all means that the path is wrong.
            self.found_no_directory = found == 0;
            let mut walked = pods.iter().filter_map(|index| set.pods.get(*index));
            self.lacks_layers = walked.any(|pod| self.lacks_layer_of(pod));
            let counted = |place: &&Place| self.layers.counts(place);
            let mut wanted = self.wanted.iter().filter(counted).peekable();
            self.walks_no_layer = wanted.peek().is_some()
                && !wanted.any(|place| self.layers.is_fresh((now, now), place));
        }
        warnings
    }

    /// Finds out whether the writable layers of these pods can be walked here, without walking them. Takes 3 s at most.
    pub(super) async fn look_for_layers(&mut self, now: Timestamp, set: &PodSet) {
        let every: Vec<usize> = (0..set.pods.len()).collect();
        self.layers.read(now).await;
        let uppers = self.search(now, set, &every).await;
        let mut wanted = self.wanted.iter();
        if !wanted.any(|place| self.layers.counts(place)) {
            return;
        }
        let is_there = move || uppers.values().any(|path| path.is_dir());
        let Ok(look) = self.threads.run(is_there) else {
            return;
        };
        let found = timeout(self.limits.pod, look).await;
        self.walks_no_layer = !matches!(found, Ok(Ok(true)));
    }

    /// The writable layers of these pods that the runtime has not counted in the last seconds. Takes 1 s at most.
    async fn search(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: &[usize],
    ) -> HashMap<Place, PathBuf> {
        let nothing = HashMap::new();
        let Some(hierarchies) = self.hierarchies.clone() else {
            return nothing;
        };
        // A search that hangs occupies its thread, so no second one is begun.
        if let Some(earlier) = &mut self.searching
            && earlier.try_recv().err() == Some(TryRecvError::Empty)
        {
            return nothing;
        }
        self.searching = None;
        self.wanted.clear();
        let pods = pods.iter().filter_map(|index| set.pods.get(*index));
        let targets = pods.flat_map(|pod| LayerTarget::of(pod, &self.layers));
        let moments = (now, self.since);
        let targets = targets.filter(|one| !self.layers.is_fresh(moments, &one.place));
        let targets: Vec<LayerTarget> = targets.collect();
        self.wanted
            .extend(targets.iter().map(|one| one.place.clone()));
        let proc = self.roots.proc.clone();
        let search = self
            .threads
            .run(move || upper::find(&proc, &hierarchies, targets));
        let Ok(mut search) = search else {
            return nothing;
        };
        if let Ok(found) = timeout(self.limits.pod, &mut search).await {
            return found.unwrap_or_default();
        }
        self.searching = Some(search);
        nothing
    }

    /// Whether a container of the pod was made by a runtime, and its layer is not known.
    fn lacks_layer_of(&self, pod: &LocalPod) -> bool {
        let mut made = pod
            .containers
            .iter()
            .filter(|container| container.id.is_some());
        made.any(|container| {
            let place = (pod.uid.clone(), container.name.clone());
            !self.layers.knows(&place)
        })
    }

    /// Takes the walked size of a pod's writable layers where it is newer than the runtime's.
    fn take_layers(&mut self, now: Timestamp, pod: &Pod, parts: &[Part]) {
        for part in parts {
            if let (PartKind::Layer(name), Some(measured)) = (&part.kind, part.known()) {
                let place = (pod.uid.clone(), name.clone());
                self.layers.walked(now, place, &measured);
            }
        }
    }

    /// Surveys these filesystems, and adds the findings in the directories of pods. Takes slightly more than 1 s at
    /// most; `None` if a filesystem does not answer.
    pub(super) async fn survey(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        filesystems: Vec<WatchedFilesystem>,
    ) -> Option<Findings> {
        if let Some(earlier) = &mut self.surveying
            && earlier.try_recv().err() == Some(TryRecvError::Empty)
        {
            return None;
        }
        let pods = set.pods.iter();
        let survey = Survey {
            now,
            filesystems,
            deleted: self.deleted.found(),
            pods: pods
                .filter_map(|pod| Some((pod.uid.clone(), pod.cgroup.as_ref()?.relative.clone())))
                .collect(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut survey = self.threads.run(move || survey.run(&stopped)).ok()?;
        let patience = self.limits.pod;
        let found = if let Ok(found) = timeout(patience, &mut survey).await {
            found.ok()
        } else {
            // A survey that is stopped in time still gives what it has counted so far.
            stop.store(true, Ordering::Relaxed);
            let late = timeout(self.limits.stopping, &mut survey).await;
            late.ok().and_then(Result::ok)
        };
        if found.is_none() {
            self.surveying = Some(survey);
        }
        found
    }

    /// Adds the sizes measured in the directories of pods since the last call.
    pub(super) fn complete(&mut self, set: &PodSet, mut findings: Findings) -> Findings {
        let entries = std::mem::take(&mut self.entries);
        findings.host_paths = std::mem::take(&mut self.host_paths);
        let contain_those_of_pods = self.roots.logs.starts_with(survey::SYSTEM_LOGS);
        for (what, device, bytes, _) in &mut findings.unowned {
            let of_pods = |entry: &&Entry| entry.kind == Kind::Logs && entry.device == *device;
            // The logs of pods lie below the directory of all logs and are shown as the pods' own.
            if *what == survey::LOGS && contain_those_of_pods {
                let of_pods = entries.iter().filter(of_pods).map(|one| one.bytes);
                let of_pods = of_pods.fold(0, i64::saturating_add);
                *bytes = bytes.saturating_sub(of_pods).max(0);
            }
        }
        findings.entries.extend(entries);
        for pod in &set.pods {
            findings.entries.extend(self.layers.entries(&pod.uid));
        }
        let images = self.layers.images();
        findings
            .unowned
            .extend(images.map(|(bytes, at)| (ledger::IMAGES, None, bytes, at)));
        findings
    }

    /// Notes the sizes of a pod's directories, by kind.
    fn note(&mut self, now: Timestamp, pod: &Pod, parts: &[Part]) {
        for part in parts {
            let Some(measured) = part.known() else {
                continue;
            };
            let kind = match &part.kind {
                PartKind::Logs(_) => Kind::Logs,
                PartKind::KubeletFiles => Kind::KubeletFiles,
                PartKind::Volume(name) => {
                    let mut volumes = pod.volumes.iter();
                    let volume = volumes.find(|volume| volume.name == *name);
                    match volume.and_then(|volume| volume.plugin_directory) {
                        Some("kubernetes.io~empty-dir") => Kind::EmptyDirs,
                        _ => Kind::OtherVolumes,
                    }
                }
                PartKind::HostPath if is_on_disk(&part.path) => {
                    self.host_paths.push(HostPath {
                        pod: pod.full_name(),
                        path: part.path.clone(),
                        device: measured.device,
                    });
                    continue;
                }
                // Layers are noted with those that the runtime has counted.
                PartKind::HostPath | PartKind::Layer(_) => continue,
            };
            self.entries.push(Entry {
                uid: pod.uid.clone(),
                kind,
                device: Some(measured.device),
                bytes: measured.bytes,
                inodes: measured.inodes,
                at: now,
            });
        }
    }

    fn usage_of(&self, now: Timestamp, pod: &Pod, parts: &[Part]) -> PodUsage {
        let mut usage = PodUsage::default();
        // In a container of its own only this directory of the kubelet's is mounted.
        let node = stat(&self.roots.pods()).ok().map(|found| found.st_dev);
        parts::add(now, parts, node, &mut usage);
        self.layers.add(&pod.uid, self.since, &mut usage);
        usage
    }

    /// The deleted files that the pod holds open: where the kubelet keeps volumes, in the pod's directories, and in its
    /// layers.
    fn deleted_of(&self, pod: &LocalPod, parts: &[Part]) -> DeletedUsage {
        let Some(cgroup) = &pod.cgroup else {
            return DeletedUsage::default();
        };
        let kubelet = stat(&self.roots.kubelet).map(|found| found.st_dev);
        let of_parts = parts.iter().filter_map(|part| Some(part.measured?.device));
        let devices: Vec<u64> = of_parts.chain(kubelet).collect();
        self.deleted.of(&cgroup.relative, &devices)
    }

    /// The directories of a pod with their usage; `None` if the kubelet has no directory for it. A pod from a manifest
    /// of evictd has none unless it has volumes there.
    async fn walk(
        &mut self,
        now: Timestamp,
        pod: &LocalPod,
        (method, projects): (Method, Projects),
        all: Pin<&mut Sleep>,
    ) -> Result<Option<Vec<Part>>, NotWalked> {
        if self.hanging.contains_key(&pod.uid) {
            return Err(NotWalked::StillHangs);
        }
        if self.hanging.len() >= self.limits.hanging {
            return Err(NotWalked::TooManyHang);
        }
        if all.is_elapsed() {
            return Err(NotWalked::NoTime);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut walk = {
            let parts = self.parts(pod, method);
            let (entries, stop) = (self.limits.entries, Arc::clone(&stop));
            let in_kubelets = |part: &Part| matches!(part.kind, PartKind::Volume(_));
            let needed = pod.manifest.is_none() || parts.iter().any(|(part, _)| in_kubelets(part));
            let directory = needed.then(|| self.roots.pods().join(&pod.uid));
            self.threads.run(move || {
                // If that cannot be determined, the walk reports the directories that it cannot read.
                if directory.is_some_and(|directory| matches!(directory.try_exists(), Ok(false))) {
                    return None;
                }
                let budget = Budget {
                    entries,
                    stop: &stop,
                };
                Some(parts::measure(now, parts, projects, budget))
            })
        }
        .map_err(|_| NotWalked::NoThread)?;
        let in_time = tokio::select! {
            finished = &mut walk => Some(finished),
            () = sleep(self.limits.pod) => None,
            () = all => None,
        };
        let finished = if let Some(finished) = in_time {
            finished
        } else {
            stop.store(true, Ordering::Relaxed);
            let Ok(finished) = timeout(self.limits.stopping, &mut walk).await else {
                self.hanging.insert(pod.uid.clone(), walk);
                return Err(NotWalked::Hangs);
            };
            finished
        };
        let walked = finished.map_err(|_| NotWalked::Hangs)?;
        Ok(walked.map(|parts| self.keep(parts)))
    }

    /// The directories to measure, with their kept trees.
    fn parts(&mut self, pod: &Pod, method: Method) -> Vec<(Part, Option<KeptTree>)> {
        let mut parts = self.roots.parts(pod);
        let uppers = self.uppers.iter().filter(|((of, _), _)| *of == pod.uid);
        parts.extend(
            uppers.map(|((_, name), path)| Part::new(PartKind::Layer(name.clone()), path.clone())),
        );
        if method == Method::Changes {
            // Other programs write there, too, and such a directory may be as large as the disk.
            parts.retain(|part| !matches!(part.kind, PartKind::HostPath));
        }
        let kept = &mut self.kept;
        let with_tree = |part: Part| {
            let kept = kept.as_mut().filter(|_| method == Method::Changes);
            let tree = kept.map(|kept| kept.take(&part.path));
            (part, tree)
        };
        parts.into_iter().map(with_tree).collect()
    }

    fn projects(&self, pod: &LocalPod, method: Method) -> Projects {
        match method {
            Method::Changes => Projects::ForBytes,
            Method::Walk if self.deleted_of(pod, &[]).on_disk.bytes.is_some() => {
                Projects::AsLowerBound
            }
            Method::Walk => Projects::ForAll,
        }
    }

    fn keep(&mut self, parts: Vec<(Part, Option<KeptTree>)>) -> Vec<Part> {
        let without_tree = |(part, tree)| {
            if let Some((kept, tree)) = self.kept.as_mut().zip(tree) {
                kept.put(tree);
            }
            part
        };
        parts.into_iter().map(without_tree).collect()
    }
}

#[cfg(test)]
mod tests;
