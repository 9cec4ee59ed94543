//! The port "which pods are here": sources that list pods, and the roster that admits them and ties them to cgroups.
//!
//! ```text
//!   a source (manifests, later others)      the roster
//!   watches in the background          ->   admits new pods, binds each to its cgroup   ->   PodSet, a snapshot a cycle
//!   publishes a whole Listing               finds cgroups of pods that nobody listed
//! ```

mod binding;
mod catalog;
mod directories;
mod kept;
mod kubelet;
mod kubernetes;
mod manifest;
pub mod manifests;
mod remote;
mod roster;
mod trim;
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

pub use binding::{Binder, CGROUP_ANNOTATION, Refusal};
pub use directories::ManifestDirectory;
pub use kept::Keep;
pub use kubelet::Kubelet;
pub use kubernetes::{Kubernetes, WATCH_LIFE};
pub use manifest::ManifestRules;
pub use manifests::Manifests;
pub use roster::Roster;

/// The cgroup that is a pod's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundCgroup {
    /// The group, relative to the root of its hierarchy.
    pub relative: PathBuf,
    /// Whether the manifest names it, not the pod's UID. Its children are then called like the containers.
    pub by_annotation: bool,
}

/// A source of pods.
pub trait PodSource {
    /// Lists the pods once, then keeps the listing up to date in the background until every receiver is dropped. A
    /// source that can't list its pods publishes what it last knew, with a warning.
    fn start(self) -> impl Future<Output = watch::Receiver<Arc<Listing>>> + Send;
}

/// All pods that a source knows; a pod that is not in it (any more) is gone.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The pods, in an order that does not change by itself.
    pub pods: Vec<Listed>,
    /// What the source could not read, and what it did instead.
    pub warnings: Vec<Warning>,
    /// Why the pods are those of a while ago; `None` while they are those of now.
    pub stale: Option<Stale>,
    /// The latest that were listed and are no more, the last of them first.
    pub departed: Vec<Arc<Departed>>,
}

/// A pod that was listed and is no more. Whether it still runs its source does not know.
#[derive(Debug, Clone)]
pub struct Departed {
    /// As it was last known.
    pub pod: Arc<Pod>,
    /// When it was missed first.
    pub at: Timestamp,
    /// How long its kubelet lets it end by itself: as its deletion was asked with, else its own grace.
    pub grace: Duration,
}

/// A pod that was listed, is listed no more, and still runs: its kubelet ends it, or is about to.
#[derive(Debug, Clone)]
pub struct Vanished {
    /// As it was last known.
    pub pod: Arc<Pod>,
    /// Where it runs.
    pub cgroup: BoundCgroup,
    /// When it was missed first.
    pub since: Timestamp,
    /// How long from then on its kubelet lets it end by itself.
    pub grace: Duration,
}

/// Pods that are those of a while ago, since whoever tells them does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Who.
    pub server: &'static str,
    /// Why not.
    pub problem: String,
    /// When they were last certain; `None` where no pods are known at all.
    pub as_of: Option<Timestamp>,
}

/// A pod as a source lists it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The manifest it was read from. Only such a pod may name its cgroup itself.
    pub manifest: Option<Arc<Path>>,
    /// As a document of the wire, where the source forgets it with a restart.
    pub wire: Option<Arc<str>>,
    /// Whether the kubelet ends it, or has, to free the node.
    pub evicted: bool,
    /// When evictd evicted it, where its status says that it has ended by that.
    pub evicted_at: Option<Timestamp>,
}

/// A pod that runs, or is to run, on this node.
#[derive(Debug, Clone)]
pub struct LocalPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its cgroup, where it has one that evictd may touch.
    pub cgroup: Option<BoundCgroup>,
    /// The manifest that it was read from, where it was.
    pub manifest: Option<Arc<Path>>,
}

impl LocalPod {
    /// A pod of which only the cgroup is known, if that.
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
    /// Counts the changes; equal generations are the same set.
    pub generation: u64,
    /// Every admitted pod.
    pub pods: Vec<LocalPod>,
    /// Listed pods that were not let in: without a place in `pods`, they are never chosen.
    pub rejected: Vec<Rejected>,
    /// Pods that have a cgroup of the kubelet's on this node, but that no source lists: chosen only where that is
    /// configured, and then in `pods` by what stands in for them.
    pub unknown: Vec<PodCgroup>,
    /// Of those the ones that were listed before and still run. They stand in for nothing, and are not in `pods`.
    pub vanished: Vec<Vanished>,
    /// What is wrong at present.
    pub warnings: Vec<Warning>,
    /// UIDs of the pods that the kubelet ends, or has ended, to free the node.
    pub evicted: Vec<String>,
    /// When the pods were last certain, where they are those of a while ago.
    pub as_of: Option<Timestamp>,
}

impl PodSet {
    /// Whether a pod that is not in it is not here.
    pub fn is_certain(&self) -> bool {
        let mut warnings = self.warnings.iter();
        !warnings.any(|warning| {
            matches!(
                warning,
                Warning::Stale(_) | Warning::Cgroups { .. } | Warning::Directory { .. }
            )
        })
    }
}

/// Why a pod is not let in (S1-085 to S1-088).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// One word (`Evicted`).
    pub reason: String,
    /// The sentence.
    pub message: String,
}

/// A pod that was not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// `namespace/name`.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// Its cgroup, where it has one that evictd may touch.
    pub cgroup: Option<BoundCgroup>,
    /// Why.
    pub rejection: Rejection,
}

/// Something about the pods that their owner should mend. Nothing else stops because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A manifest directory can't be read; the pods last read from it stay.
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The kernel does not tell of changes to the manifest directories; they are looked at every few seconds.
    NotWatching {
        /// Why not.
        problem: String,
    },
    /// A manifest has a mistake.
    Manifest {
        /// The file.
        file: Arc<Path>,
        /// The mistake.
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
    /// The source is away.
    Stale(Stale),
    /// The pods kept for a restart are of no use.
    Kept {
        /// The file.
        file: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A pod's object is not understood.
    Pod {
        /// `namespace/name`.
        pod: String,
        /// What is wrong with it.
        problem: String,
        /// Whether what was known before stays in use.
        earlier_in_use: bool,
    },
    /// A pod is not tied to the cgroup that it names or that has its UID.
    Cgroup {
        /// `namespace/name`.
        pod: String,
        /// The cgroup as it was named.
        path: String,
        /// Why not.
        refusal: Refusal,
    },
    /// A pod's cgroup can't be looked at; it stays tied to it.
    CgroupStays {
        /// `namespace/name`.
        pod: String,
        /// The cgroup.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The cgroups can't be looked through; every pod stays tied to the one that it had.
    Cgroups {
        /// Why not.
        problem: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { directory, problem } => write!(
                f,
                "{}: cannot read the manifest directory: {problem}; the pods last read from it stay",
                directory.display()
            ),
            Self::NotWatching { problem } => write!(
                f,
                "the kernel does not tell of changed manifests ({problem}); looking every few seconds"
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
                "{}: pod {pod} is already described by {}, which counts",
                second.display(),
                first.display()
            ),
            Self::Stale(stale) => stale.fmt(f),
            Self::Kept { file, problem } => write!(
                f,
                "{}: the pods kept there are of no use: {problem}",
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
                    "it is never chosen"
                };
                write!(f, "pod {pod} is not understood ({problem}); {so}")
            }
            Self::Cgroup { pod, path, refusal } => {
                write!(f, "pod {pod} is not tied to cgroup {path:?}: {refusal}")
            }
            Self::CgroupStays { pod, path, problem } => write!(
                f,
                "cannot look at the cgroup of pod {pod} ({problem}); it stays tied to {}",
                path.display()
            ),
            Self::Cgroups { problem } => write!(
                f,
                "cannot look through the cgroups: {problem}; pods stay tied to those that they had"
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
                "no pods from {server} ({problem}), and none are known from before: nobody is evicted"
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
