//! Local volumes and logs of pods, by walking their directories within a budget.
//!
//! Walks run on a separate thread, one at a time: a filesystem that hangs blocks nothing else, and a busy disk gets
//! no more load than needed.

use super::{NotWalked, Truncation, UsageWarning, cgroup::container_usage};
use crate::pods::PodSet;
use evictd_eviction::usage::{FsUsage, PodUsage, Usage, VolumeUsage};
use evictd_kernel::threads::{HANGING_WALKS, Pool};
use evictd_kernel::walk::{Budget, DiskUsage, walk};
use evictd_pod::Pod;
use jiff::Timestamp;
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

/// Where the kubelet and the runtime keep the files of pods.
#[derive(Debug, Clone)]
pub struct DiskRoots {
    /// The kubelet's directory, for volumes: `<this>/pods/<uid>/volumes/<plugin>/<name>`.
    pub kubelet: PathBuf,
    /// Logs: `<this>/<namespace>_<name>_<uid>/<container>`.
    pub logs: PathBuf,
    /// `/proc` on a real machine; it lists the mounted volumes.
    pub proc: PathBuf,
}

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
    hanging: HANGING_WALKS,
};

/// Measures the disk usage of pods. Writable layers are left unknown; only the container runtime knows them.
#[derive(Debug)]
pub struct DiskMeter {
    roots: DiskRoots,
    limits: Limits,
    threads: Pool,
    /// By UID.
    hanging: HashMap<String, Receiver<Walked>>,
    /// Whether the last walk looked for pods and found no directory of any.
    found_no_directory: bool,
}

/// The usage of a pod's directories, one by one; `None` if the kubelet has no directory for the pod.
type Walked = Option<Vec<Part>>;

/// One directory of a pod.
#[derive(Debug, Clone)]
struct Part {
    kind: PartKind,
    path: PathBuf,
    /// None if there is no such directory.
    measured: Option<DiskUsage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PartKind {
    /// Logs of the container of this name.
    Logs(String),
    /// The volume of this name that lives and dies with the pod.
    Volume(String),
    /// The volume of this name that is a directory of the node.
    HostPath(String),
}

impl DiskMeter {
    /// Measures below these directories.
    pub fn new(roots: DiskRoots) -> Self {
        Self {
            roots,
            limits: DEFAULT_LIMITS,
            threads: Pool::of_this_process(),
            hanging: HashMap::new(),
            found_no_directory: false,
        }
    }

    /// Why the disk usage of pods was not found in the last walk.
    pub fn problem(&self) -> Option<String> {
        self.found_no_directory.then(|| {
            format!(
                "disk usage of pods is unknown: no pod has a directory in {}; set kubelet.rootDir to the kubelet's \
                 --root-dir",
                self.roots.pods().display()
            )
        })
    }

    /// Adds bytes and inodes of the local volumes and logs of the pods with these indices to `usage`. Takes
    /// slightly more than 4 s at most.
    pub async fn measure(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: &[usize],
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        self.hanging
            .retain(|_, walk| walk.try_recv().err() == Some(TryRecvError::Empty));
        usage.pods.resize_with(set.pods.len(), || None);
        let mut warnings = Vec::new();
        let mut all = Box::pin(sleep(self.limits.all));
        let (mut found, mut missing) = (0_usize, 0_usize);
        for &index in pods {
            let Some(pod) = set.pods.get(index) else {
                continue;
            };
            let by_manifest = pod.manifest.is_some();
            match self.walk(pod, by_manifest, all.as_mut()).await {
                Ok(Some(parts)) => {
                    found += 1;
                    warn(pod, index, &parts, &mut warnings);
                    add(now, &parts, usage.pods[index].get_or_insert_default());
                }
                // The files may be somewhere else, so the usage is unknown, not zero.
                Ok(None) => missing += 1,
                Err(why) => warnings.push(UsageWarning::NotWalked {
                    pod: pod.full_name(),
                    why,
                }),
            }
        }
        if found + missing > 0 {
            self.found_no_directory = found == 0;
        }
        warnings
    }

    /// A pod from a manifest of evictd has no directory of a kubelet unless it has volumes there.
    async fn walk(
        &mut self,
        pod: &Pod,
        by_manifest: bool,
        all: Pin<&mut Sleep>,
    ) -> Result<Walked, NotWalked> {
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
            let (parts, entries, stop) = (
                self.roots.parts(pod),
                self.limits.entries,
                Arc::clone(&stop),
            );
            let in_kubelets = |part: &Part| matches!(part.kind, PartKind::Volume(_));
            let needed = !by_manifest || parts.iter().any(in_kubelets);
            let directory = needed.then(|| self.roots.pods().join(&pod.uid));
            self.threads.run(move || {
                // If that cannot be determined, the walk reports what it cannot read.
                if directory.is_some_and(|directory| matches!(directory.try_exists(), Ok(false))) {
                    return None;
                }
                let budget = Budget {
                    entries,
                    stop: &stop,
                };
                Some(walk_parts(parts, budget))
            })
        }
        .map_err(|_| NotWalked::NoThread)?;
        let in_time = tokio::select! {
            finished = &mut walk => Some(finished),
            () = sleep(self.limits.pod) => None,
            () = all => None,
        };
        if let Some(finished) = in_time {
            return finished.map_err(|_| NotWalked::Hangs);
        }
        stop.store(true, Ordering::Relaxed);
        let Ok(finished) = timeout(self.limits.stopping, &mut walk).await else {
            self.hanging.insert(pod.uid.clone(), walk);
            return Err(NotWalked::Hangs);
        };
        finished.map_err(|_| NotWalked::Hangs)
    }
}

fn walk_parts(mut parts: Vec<Part>, mut budget: Budget<'_>) -> Vec<Part> {
    for part in &mut parts {
        part.measured = walk(&part.path, &mut budget).unwrap_or_else(|_| {
            Some(DiskUsage {
                truncation: Some(Truncation::Unreadable),
                ..DiskUsage::default()
            })
        });
    }
    parts
}

impl DiskRoots {
    /// The directory that contains a directory for each pod, named by UID.
    fn pods(&self) -> PathBuf {
        self.kubelet.join("pods")
    }

    /// The directories of a pod that count as its local storage (S1-067).
    fn parts(&self, pod: &Pod) -> Vec<Part> {
        let part = |kind, path| Part {
            kind,
            path,
            measured: None,
        };
        let volumes = self.pods().join(&pod.uid).join("volumes");
        let of_volumes = pod.volumes.iter().filter_map(|volume| {
            let name = volume.name.clone();
            match (volume.plugin_directory, &volume.host_path) {
                (Some(plugin), _) => {
                    let path = volumes.join(plugin).join(&name);
                    Some(part(PartKind::Volume(name), path))
                }
                (None, Some(path)) => Some(part(PartKind::HostPath(name), PathBuf::from(path))),
                (None, None) => None,
            }
        });
        let logs = self
            .logs
            .join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid));
        let of_containers = pod.containers.iter().map(|container| {
            part(
                PartKind::Logs(container.name.clone()),
                logs.join(&container.name),
            )
        });
        of_volumes.chain(of_containers).collect()
    }
}

fn warn(pod: &Pod, index: usize, parts: &[Part], warnings: &mut Vec<UsageWarning>) {
    let truncation = parts
        .iter()
        .filter_map(|part| Some((part, part.measured?.truncation?)));
    warnings.extend(truncation.map(|(part, truncation)| UsageWarning::AtLeast {
        pod: pod.full_name(),
        index,
        directory: part.path.clone(),
        truncation,
    }));
}

/// The pod's total contains what is deleted with the pod, as the kubelet counts it (S1-070), but not writable
/// layers.
fn add(now: Timestamp, parts: &[Part], usage: &mut PodUsage) {
    usage.volumes.clear();
    usage.ephemeral_storage = None;
    for part in parts {
        // A directory that could not even be opened has unknown usage, not zero.
        let Some(measured) = part.measured.filter(|measured| measured.inodes > 0) else {
            continue;
        };
        let figures = FsUsage {
            bytes: Some(measured.bytes),
            inodes: Some(measured.inodes),
        };
        match &part.kind {
            PartKind::Logs(container) => container_usage(usage, container).logs = figures,
            PartKind::Volume(name) | PartKind::HostPath(name) => usage.volumes.push(VolumeUsage {
                name: name.clone(),
                usage: figures,
            }),
        }
        if !matches!(part.kind, PartKind::HostPath(_)) {
            let total = usage.ephemeral_storage.unwrap_or(0);
            usage.ephemeral_storage = Some(total.saturating_add(measured.bytes));
        }
    }
    usage.time = Some(usage.time.map_or(now, |time| time.min(now)));
}

#[cfg(test)]
mod tests;
