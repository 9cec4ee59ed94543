//! Ending the processes of a pod's control group: SIGTERM, its grace, then a kill that no process escapes.

mod age;
mod cgroup;
mod cpu;
mod freezer;
mod group;
mod hidden;
mod patience;
mod process;
mod spare;

use std::io;
use std::path::PathBuf;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

pub use cgroup::{Asks, CgroupEvictor};
pub use evictd_eviction::record::{Method, Survivor};
pub use hidden::warn_of_hidden_processes;
pub use spare::SpareFiles;

use crate::cgroup::CgroupError;

/// Who has to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The pod's UID.
    pub uid: String,
    /// The pod's cgroup, relative to the root of its hierarchy.
    pub cgroup: PathBuf,
    /// The container id of the pod's sandbox, where it is known.
    pub sandbox: Option<String>,
}

/// Ends a running grace period early; one for each termination. Clones cut the same grace, and a cut made before it
/// begins counts too.
#[derive(Debug, Clone, Default)]
pub struct GraceCut {
    cut: Arc<Notify>,
    killed: Arc<AtomicBool>,
}

impl GraceCut {
    /// Ends the grace now: what is still running is killed.
    pub fn cut_grace(&self) {
        self.cut.notify_one();
    }

    /// Returns once it is cut.
    pub async fn wait(&self) {
        self.cut.notified().await;
    }

    /// SIGKILL has reached every process that was there.
    pub(super) fn note_killed(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// Whether SIGKILL has reached every process that was there.
    pub fn has_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

/// How a pod left, or did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// When the first signal was sent; None if there was nothing left to signal.
    pub first_signal_at: Option<Timestamp>,
    /// When the first SIGKILL was sent; None if all left without.
    pub killed_at: Option<Timestamp>,
    /// When the last process was seen gone; None while `survivors` remain.
    pub gone_at: Option<Timestamp>,
    /// How many processes were seen in the pod's cgroup in all.
    pub processes: usize,
    /// What ended the last of them.
    pub method: Method,
    /// Who would not die by the deadline, in uninterruptible sleep as a rule.
    pub survivors: Vec<Survivor>,
}

/// Why a pod could not be made to leave.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// It must not be touched.
    #[error("refusing to end cgroup {}: {why}", cgroup.display())]
    Refused {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
        /// What forbids it.
        why: Refusal,
    },
    /// The kernel shows process id 0: the processes live in a pid namespace that we cannot see, so no signal can reach
    /// them and nobody could tell when they are gone.
    #[error(
        "processes of cgroup {} are in a pid namespace that is not visible from here; run evictd in the host's (hostPID)",
        cgroup.display()
    )]
    ForeignPidNamespace {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
    },
    /// The cgroup lists processes of which none says in `/proc/PID/cgroup` that it is there.
    #[error(
        "no process listed in cgroup {} says so in /proc/PID/cgroup; run evictd in the host's pid and cgroup namespaces",
        cgroup.display()
    )]
    Unverifiable {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
    },
    /// The cgroup could not be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A signal could not be sent.
    #[error("cannot signal process {pid}")]
    Signal {
        /// The process.
        pid: u32,
        /// Why not.
        source: io::Error,
    },
    /// The kernel counts processes in it and lists none.
    #[error("cgroup {} lists no process, and the kernel says that there are some", cgroup.display())]
    Unlisted {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
    },
    /// What might have passed has not until the kill's deadline.
    #[error(
        "cannot end cgroup {}: it was tried {tries} times in {:.3} s", cgroup.display(), over.as_secs_f64()
    )]
    GaveUp {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
        /// How often it was tried since all went well.
        tries: u32,
        /// For how long.
        over: Duration,
        /// What came of the last try.
        source: Box<KillError>,
    },
}

/// What is to be hoped of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passes {
    /// Another try may do.
    Perhaps,
    /// A permission is missing.
    Seldom,
    /// No other try can do.
    Never,
}

impl KillError {
    /// Whether evictd lacks a permission or a view of the host, so that it could not end any other pod either (exit code 3).
    /// What holds for one pod only, as what a security module forbids, is no reason to end.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::ForeignPidNamespace { .. } => true,
            Self::Signal { .. } => {
                self.passes() == Passes::Seldom && !crate::protect::may_end_others()
            }
            _ => false,
        }
    }

    fn passes(&self) -> Passes {
        match self {
            Self::Cgroup(CgroupError::Read { source, .. } | CgroupError::Write { source, .. })
            | Self::Signal { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Passes::Seldom
            }
            Self::Cgroup(_) | Self::Signal { .. } | Self::Unlisted { .. } => Passes::Perhaps,
            Self::Refused { .. }
            | Self::ForeignPidNamespace { .. }
            | Self::Unverifiable { .. }
            | Self::GaveUp { .. } => Passes::Never,
        }
    }
}

/// What forbids to end a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not strictly below any of the cgroups that may hold pods.
    #[error("it is not below a configured pod cgroup")]
    OutsidePodCgroups,
    /// evictd runs in it or below it.
    #[error("evictd itself is in it")]
    HoldsEvictd,
    /// The machine's first process is in it.
    #[error("process 1 is in it")]
    HoldsInit,
    /// By its name it belongs to another pod.
    #[error("it is the cgroup of the pod with UID {found}")]
    OtherPod {
        /// The UID in the cgroup's name.
        found: String,
    },
}
