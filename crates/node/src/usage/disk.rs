//! Local volumes and logs of pods, by walking their directories within a budget.
//!
//! Walks run on a thread of their own, one at a time, so that a filesystem that hangs holds up nobody and a busy
//! disk is not made busier than needed.

use super::{Cut, NotWalked, UsageWarning, cgroup::container_usage};
use crate::pods::PodSet;
use evictd_eviction::usage::{FsUsage, PodUsage, Usage, VolumeUsage};
use evictd_kernel::threads::{HANGING_WALKS, Pool};
use evictd_kernel::walk::{Budget, Held, walk};
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

/// Where the kubelet and the runtime keep what belongs to pods.
#[derive(Debug, Clone)]
pub struct DiskRoots {
    /// The kubelet's directory, for volumes: `<this>/pods/<uid>/volumes/<plugin>/<name>`.
    pub kubelet: PathBuf,
    /// Logs: `<this>/<namespace>_<name>_<uid>/<container>`.
    pub logs: PathBuf,
    /// `/proc` on a real machine, which tells what volumes are mounted.
    pub proc: PathBuf,
}

/// The most that is spent on counting.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Files and directories of one pod.
    entries: u64,
    /// Time for one pod.
    pod: Duration,
    /// Time for all pods of one request.
    all: Duration,
    /// Time that a walk that was told to stop has to do so.
    stopping: Duration,
    /// Walks that hang at once.
    hanging: usize,
}

const LIMITS: Limits = Limits {
    entries: 1_000_000,
    pod: Duration::from_secs(1),
    all: Duration::from_secs(4),
    stopping: Duration::from_millis(200),
    hanging: HANGING_WALKS,
};

/// Measures what pods hold on local disks. Writable layers are the runtime's to tell and are left unknown.
#[derive(Debug)]
pub struct DiskMeter {
    roots: DiskRoots,
    limits: Limits,
    threads: Pool,
    /// By UID.
    hanging: HashMap<String, Receiver<Walked>>,
    /// Whether pods were looked for in the last walk and none of them has a directory.
    astray: bool,
}

/// What a pod's directories hold, one by one; `None` where the kubelet has no directory for the pod.
type Walked = Option<Vec<Part>>;

/// One directory of a pod.
#[derive(Debug, Clone)]
struct Part {
    what: What,
    path: PathBuf,
    /// None if there is no such directory.
    held: Option<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
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
            limits: LIMITS,
            threads: Pool::of_this_process(),
            hanging: HashMap::new(),
            astray: false,
        }
    }

    /// Why what pods hold is not found where the last walk looked for it.
    pub fn problem(&self) -> Option<String> {
        self.astray.then(|| {
            format!(
                "disk usage of pods is unknown: none of them has a directory in {}; name the kubelet's --root-dir under \
                 kubelet.rootDir",
                self.roots.pods().display()
            )
        })
    }

    /// Adds bytes and inodes of the local volumes and logs of these pods, by their indices, to `usage`. Takes 4 s and
    /// a little at most.
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
                // It would be wrong to call nothing what may lie elsewhere.
                Ok(None) => missing += 1,
                Err(why) => warnings.push(UsageWarning::NotWalked {
                    pod: pod.full_name(),
                    why,
                }),
            }
        }
        if found + missing > 0 {
            self.astray = found == 0;
        }
        warnings
    }

    /// A pod that its manifest alone makes has no directory of the kubelet's, unless it has volumes there.
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
            let in_kubelets = |part: &Part| matches!(part.what, What::Volume(_));
            let needed = !by_manifest || parts.iter().any(in_kubelets);
            let directory = needed.then(|| self.roots.pods().join(&pod.uid));
            self.threads.run(move || {
                // Where it cannot be told, the walk says what cannot be read.
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
        part.held = walk(&part.path, &mut budget).unwrap_or_else(|_| {
            Some(Held {
                cut: Some(Cut::Unreadable),
                ..Held::default()
            })
        });
    }
    parts
}

impl DiskRoots {
    /// Where the kubelet has a directory for each pod, by its UID.
    fn pods(&self) -> PathBuf {
        self.kubelet.join("pods")
    }

    /// The directories of a pod that count as its local storage (S1-067).
    fn parts(&self, pod: &Pod) -> Vec<Part> {
        let part = |what, path| Part {
            what,
            path,
            held: None,
        };
        let volumes = self.pods().join(&pod.uid).join("volumes");
        let of_volumes = pod.volumes.iter().filter_map(|volume| {
            let name = volume.name.clone();
            match (volume.plugin_directory, &volume.host_path) {
                (Some(plugin), _) => {
                    let path = volumes.join(plugin).join(&name);
                    Some(part(What::Volume(name), path))
                }
                (None, Some(path)) => Some(part(What::HostPath(name), PathBuf::from(path))),
                (None, None) => None,
            }
        });
        let logs = self
            .logs
            .join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid));
        let of_containers = pod.containers.iter().map(|container| {
            part(
                What::Logs(container.name.clone()),
                logs.join(&container.name),
            )
        });
        of_volumes.chain(of_containers).collect()
    }
}

fn warn(pod: &Pod, index: usize, parts: &[Part], warnings: &mut Vec<UsageWarning>) {
    let cut = parts
        .iter()
        .filter_map(|part| Some((part, part.held?.cut?)));
    warnings.extend(cut.map(|(part, cut)| UsageWarning::AtLeast {
        pod: pod.full_name(),
        index,
        directory: part.path.clone(),
        cut,
    }));
}

/// The pod's total is of what lives and dies with it, as the kubelet has it (S1-070), without writable layers.
fn add(now: Timestamp, parts: &[Part], usage: &mut PodUsage) {
    usage.volumes.clear();
    usage.ephemeral_storage = None;
    for part in parts {
        // Of what could not even be opened nothing is known, not even that it is empty.
        let Some(held) = part.held.filter(|held| held.inodes > 0) else {
            continue;
        };
        let figures = FsUsage {
            bytes: Some(held.bytes),
            inodes: Some(held.inodes),
        };
        match &part.what {
            What::Logs(container) => container_usage(usage, container).logs = figures,
            What::Volume(name) | What::HostPath(name) => usage.volumes.push(VolumeUsage {
                name: name.clone(),
                usage: figures,
            }),
        }
        if !matches!(part.what, What::HostPath(_)) {
            let total = usage.ephemeral_storage.unwrap_or(0);
            usage.ephemeral_storage = Some(total.saturating_add(held.bytes));
        }
    }
    usage.time = Some(usage.time.map_or(now, |time| time.min(now)));
}

#[cfg(test)]
mod tests;
