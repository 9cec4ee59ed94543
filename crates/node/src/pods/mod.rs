//! The port "which pods are on this node": sources list pods; the pod cache admits them and binds them to cgroups.
//!
//! ```text
//!   a source (manifests, later others)      the pod cache
//!   watches in the background          ->   admits new pods, binds each to its cgroup   ->   PodSet, a snapshot a cycle
//!   publishes a whole Listing               finds cgroups of pods that are not listed
//! ```

mod binding;
mod cache;
mod catalog;
mod cri;
mod directories;
mod kubelet;
mod kubernetes;
mod manifest;
pub(crate) mod manifests;
mod remote;
mod snapshot;
pub(crate) mod trim;
mod unknown;
mod watcher;

use evictd_document::Mistake;
use evictd_kernel::cgroup::PodCgroup;
use evictd_pod::Pod;
use jiff::Timestamp;
use std::{
    borrow::Borrow,
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

pub(crate) use binding::{Binder, Refusal};
pub(crate) use cache::PodCache;
pub(crate) use cri::Cri;
pub(crate) use directories::ManifestDirectory;
pub(crate) use kubelet::Kubelet;
pub(crate) use kubernetes::Kubernetes;
pub(crate) use manifest::ManifestRules;
pub(crate) use manifests::Manifests;
pub(crate) use snapshot::SnapshotFile;

/// The cgroup of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundCgroup {
    /// The cgroup, relative to the root of its hierarchy.
    pub relative: PathBuf,
    /// Whether the manifest names it, rather than the pod's UID. Then the cgroups below have the names of the
    /// containers.
    pub by_annotation: bool,
}

/// A source of pods.
pub(crate) trait PodSource {
    /// Lists the pods once, then keeps the listing up to date in the background until every receiver is dropped. A
    /// source that cannot list its pods publishes the last known ones, with a warning.
    fn start(self) -> impl Future<Output = watch::Receiver<Arc<Listing>>> + Send;
}

/// All pods that a source knows; a pod that is not listed does not exist.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The pods, in a stable order.
    pub pods: Vec<Listed>,
    /// The files that the source could not read, and their replacements.
    pub warnings: Vec<Warning>,
    /// Why the pods may be out of date; `None` if they are current.
    pub stale: Option<Stale>,
    /// The latest pods that are no longer listed, the last one first.
    pub deleted: Vec<Arc<DeletedPod>>,
}

/// A pod that is no longer listed. The source does not know whether it still runs.
#[derive(Debug, Clone)]
pub struct DeletedPod {
    /// The last known version.
    pub pod: Arc<Pod>,
    /// When it was first missing.
    pub at: Timestamp,
    /// How long its kubelet lets it terminate: the grace period of its deletion if known, else its own.
    pub grace: Duration,
}

/// A pod that is no longer listed but still runs: its kubelet is ending it, or is about to.
#[derive(Debug, Clone)]
pub struct StillRunning {
    /// The last known version.
    pub pod: Arc<Pod>,
    /// The cgroup in which its processes run.
    pub cgroup: BoundCgroup,
    /// When it was first missing.
    pub since: Timestamp,
    /// How long from then on its kubelet lets it terminate.
    pub grace: Duration,
}

/// The pods may be out of date, because their source does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Name of the source.
    pub server: &'static str,
    /// Why it does not answer.
    pub problem: String,
    /// When the pods were last certain; `None` if no pods are known at all.
    pub as_of: Option<Timestamp>,
}

/// A pod as a source lists it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The pod as its source describes it.
    pub pod: Arc<Pod>,
    /// The manifest that it was read from. Only such a pod may name its own cgroup.
    pub manifest: Option<Arc<Path>>,
    /// Its API form as JSON, if the source needs it kept for a restart.
    pub wire: Option<Arc<str>>,
    /// Whether the kubelet evicts or has evicted it.
    pub evicted: bool,
    /// When evictd evicted it, if its status says that it ended by that.
    pub evicted_at: Option<Timestamp>,
}

/// A pod that runs or is about to run on this node.
#[derive(Debug, Clone)]
pub struct LocalPod {
    /// The pod as its source describes it.
    pub pod: Arc<Pod>,
    /// Its cgroup, if it has one that evictd may write to.
    pub cgroup: Option<BoundCgroup>,
    /// The manifest that it was read from, if it was.
    pub manifest: Option<Arc<Path>>,
}

impl LocalPod {
    /// A pod that no manifest describes.
    pub fn new(pod: Pod, cgroup: Option<BoundCgroup>) -> Self {
        Self {
            pod: Arc::new(pod),
            cgroup,
            manifest: None,
        }
    }
}

/// `namespace/name`
impl fmt::Display for LocalPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pod.fmt(f)
    }
}

impl Deref for LocalPod {
    type Target = Pod;

    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl Borrow<Pod> for LocalPod {
    fn borrow(&self) -> &Pod {
        &self.pod
    }
}

/// The pods of this node at one moment.
#[derive(Debug, Default)]
pub struct PodSet {
    /// Counts changes: sets with the same generation are equal.
    pub generation: u64,
    /// The admitted pods, with their cgroups.
    pub pods: Vec<LocalPod>,
    /// Listed pods that were not admitted. They are not in `pods`, so they are never chosen.
    pub rejected: Vec<Rejected>,
    /// Cgroups of pods made by a kubelet on this node for pods that no source lists. They may be chosen only if
    /// that is configured; then `pods` contains placeholders for them.
    pub unknown: Vec<PodCgroup>,
    /// The unlisted pods that were listed before and still run. They have no placeholder, and are not in `pods`.
    pub still_running: Vec<StillRunning>,
    /// The problems of the present listing and of the cgroups.
    pub warnings: Vec<Warning>,
    /// UIDs of the pods that the kubelet evicts or has evicted.
    pub evicted: Vec<String>,
    /// When the pods were last certain, if they may be out of date.
    pub as_of: Option<Timestamp>,
}

impl PodSet {
    /// Whether a pod that is not in this set is certainly not on the node.
    pub(crate) fn is_certain(&self) -> bool {
        let mut warnings = self.warnings.iter();
        !warnings.any(|warning| {
            matches!(
                warning,
                Warning::Stale(_) | Warning::Cgroups { .. } | Warning::Directory { .. }
            )
        })
    }
}

/// Why a pod is not admitted (S1-085 to S1-088).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The reason, one word (`Evicted`).
    pub reason: String,
    /// The message, a sentence.
    pub message: String,
}

/// A pod that was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// `namespace/name`.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Its cgroup, if it has one that evictd may write to.
    pub cgroup: Option<BoundCgroup>,
    /// The reason and the message of the refusal.
    pub rejection: Rejection,
}

/// A problem with the pods that their owner should correct. It does not stop anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A manifest directory cannot be read; the pods last read from it stay.
    Directory {
        /// The path of the directory.
        directory: PathBuf,
        /// A description of the error.
        problem: String,
    },
    /// The kernel does not report changes of the manifest directories, so they are scanned every few seconds.
    NotWatching {
        /// A description of the error.
        problem: String,
    },
    /// A manifest has a mistake.
    Manifest {
        /// The path of the file.
        file: Arc<Path>,
        /// The mistake, with its place in the file.
        mistake: Mistake,
        /// Whether pods of an earlier version of the file stay in use.
        earlier_version_in_use: bool,
    },
    /// Two manifests describe one pod; the first counts.
    Duplicate {
        /// `namespace/name`.
        pod: String,
        /// The manifest that counts.
        first: Arc<Path>,
        /// The manifest that does not.
        second: Arc<Path>,
    },
    /// The source does not answer.
    Stale(Stale),
    /// The pods kept for a restart cannot be used.
    Snapshot {
        /// The path of the file.
        file: PathBuf,
        /// A description of the error.
        problem: String,
    },
    /// A pod's object cannot be parsed.
    Pod {
        /// `namespace/name`.
        pod: String,
        /// A description of the error.
        problem: String,
        /// Whether the earlier version is used.
        earlier_in_use: bool,
    },
    /// A pod is not bound to the cgroup that it names or that has its UID.
    Cgroup {
        /// `namespace/name`.
        pod: String,
        /// The cgroup as written.
        path: String,
        /// Which check the cgroup failed.
        refusal: Refusal,
    },
    /// A pod's cgroup cannot be read; the pod stays bound to it.
    CgroupStays {
        /// `namespace/name`.
        pod: String,
        /// The cgroup, as a path from the root of its hierarchy.
        path: PathBuf,
        /// A description of the error.
        problem: String,
    },
    /// The cgroups cannot be read; every pod stays bound to the one that it had.
    Cgroups {
        /// A description of the error.
        problem: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { directory, problem } => write!(
                f,
                "{}: cannot read the manifest directory: {problem}; the pods last read from it stay in use",
                directory.display()
            ),
            Self::NotWatching { problem } => write!(
                f,
                "the kernel does not report changed manifests ({problem}); scanning every few seconds"
            ),
            Self::Manifest {
                file,
                mistake,
                earlier_version_in_use,
            } => {
                write!(f, "{}{mistake}", file.display())?;
                if *earlier_version_in_use {
                    f.write_str("; its last good version stays in use")?;
                }
                Ok(())
            }
            Self::Duplicate { pod, first, second } => write!(
                f,
                "{}: pod {pod} is already described by {}, which is used",
                second.display(),
                first.display()
            ),
            Self::Stale(stale) => stale.fmt(f),
            Self::Snapshot { file, problem } => write!(
                f,
                "{}: the pods saved there cannot be used: {problem}",
                file.display()
            ),
            Self::Pod {
                pod,
                problem,
                earlier_in_use,
            } => {
                let so = if *earlier_in_use {
                    "it stays as it was"
                } else {
                    "it is never evicted"
                };
                write!(f, "pod {pod} cannot be read ({problem}); {so}")
            }
            Self::Cgroup { pod, path, refusal } => {
                write!(f, "pod {pod} is not tied to cgroup {path:?}: {refusal}")
            }
            Self::CgroupStays { pod, path, problem } => write!(
                f,
                "cannot inspect the cgroup of pod {pod} ({problem}); it stays tied to {}",
                path.display()
            ),
            Self::Cgroups { problem } => write!(
                f,
                "cannot search the cgroups: {problem}; pods stay tied to the ones they had"
            ),
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server, problem, ..
        } = self;
        match self.as_of {
            Some(as_of) => write!(
                f,
                "no pods from {server} ({problem}); those of {as_of:.0} stay in use"
            ),
            None => write!(
                f,
                "no pods from {server} ({problem}), and none are known from before: no pod is evicted"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_not_gone_because_what_lists_it_cannot_be_read() {
        let problem = || "not there".to_owned();
        let with = |warning| PodSet {
            warnings: vec![warning],
            ..PodSet::default()
        };
        assert!(PodSet::default().is_certain());
        assert!(with(Warning::NotWatching { problem: problem() }).is_certain());
        assert!(!with(Warning::Cgroups { problem: problem() }).is_certain());
        let directory = PathBuf::from("/not/mounted/yet");
        let unread = Warning::Directory {
            directory,
            problem: problem(),
        };
        assert!(!with(unread).is_certain());
    }
}
