//! Terminates the processes of a pod's cgroup: SIGTERM, the grace period, then a kill that no process escapes.

mod age;
mod cgroup;
mod contents;
mod cpu;
mod freezer;
mod group;
mod hidden;
mod process;
mod retry;
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

pub use cgroup::{CgroupEvictor, SigtermBy};
pub use evictd_decision::record::Method;
use evictd_decision::record::Survivor;
pub use hidden::warn_of_hidden_processes;
pub use spare::SpareFiles;

use crate::cgroup::CgroupError;

/// The pod to terminate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The pod's UID; a cgroup whose name has another one is refused.
    pub uid: String,
    /// The pod's cgroup, relative to the root of its hierarchy.
    pub cgroup: PathBuf,
    /// The container id of the pod's sandbox, if known.
    pub sandbox: Option<String>,
}

/// Ends a grace period early; create one per termination. Clones share their state, and a cut before the grace
/// period begins counts too.
#[derive(Debug, Clone, Default)]
pub struct GraceCut {
    cut: Arc<Notify>,
    killed: Arc<AtomicBool>,
}

impl GraceCut {
    /// Ends the grace period now: the remaining processes are killed.
    pub fn cut_grace(&self) {
        self.cut.notify_one();
    }

    /// Returns once the grace period is cut.
    pub async fn wait(&self) {
        self.cut.notified().await;
    }

    /// Notes that SIGKILL was sent to every process that was there.
    pub(super) fn note_killed(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// Whether SIGKILL was sent to every process that was there.
    pub fn has_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

/// How a termination went, whether or not it succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// When the first signal was sent; `None` if there was no process to signal.
    pub first_signal_at: Option<Timestamp>,
    /// When the first SIGKILL was sent; `None` if all processes exited before.
    pub killed_at: Option<Timestamp>,
    /// When the last process was seen to have exited; `None` while `survivors` remain.
    pub gone_at: Option<Timestamp>,
    /// How many processes were seen in the pod's cgroup in all.
    pub processes: usize,
    /// How the last process ended.
    pub method: Method,
    /// Processes that did not exit by the deadline, usually because they are in uninterruptible sleep.
    pub survivors: Vec<Survivor>,
}

/// Why a pod could not be terminated.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// The cgroup must not be killed.
    #[error("refusing to kill cgroup {}: {why}", cgroup.display())]
    Refused {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
        /// Which check it failed.
        why: Refusal,
    },
    /// The kernel lists process id 0: the processes are in a pid namespace that is not visible from here. No signal
    /// can reach them, and it could not be seen when they have exited.
    #[error(
        "processes of cgroup {} are in a pid namespace that evictd cannot see; run evictd in the host's (hostPID)",
        cgroup.display()
    )]
    ForeignPidNamespace {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
    },
    /// The cgroup lists processes, but according to `/proc/PID/cgroup` none of them is in it.
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
        /// The process id.
        pid: u32,
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel counts processes in the cgroup but lists none.
    #[error("cgroup {} lists no process, and the kernel says that there are some", cgroup.display())]
    Unlisted {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
    },
    /// An error that may pass has lasted until the deadline of the kill.
    #[error(
        "cannot kill cgroup {}: {tries} attempts in {:.3} s failed", cgroup.display(), over.as_secs_f64()
    )]
    GaveUp {
        /// The cgroup, relative to the root of its hierarchy.
        cgroup: PathBuf,
        /// How often the step was tried since the last success.
        tries: u32,
        /// For how long it was tried.
        over: Duration,
        /// The error of the last try.
        source: Box<KillError>,
    },
}

/// Whether a retry can help after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retryable {
    /// A retry may help.
    Yes,
    /// A permission is missing: a retry rarely helps.
    Rarely,
    /// No retry can help.
    No,
}

impl KillError {
    /// Whether evictd lacks a permission or a view of the host, so that it could not terminate any other pod either
    /// (exit code 3). An error that concerns a single pod, such as a refusal by a security module, does not count.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::ForeignPidNamespace { .. } => true,
            Self::Signal { .. } => {
                self.retryable() == Retryable::Rarely && !crate::protect::may_signal_others()
            }
            _ => false,
        }
    }

    fn retryable(&self) -> Retryable {
        match self {
            Self::Cgroup(CgroupError::Read { source, .. } | CgroupError::Write { source, .. })
            | Self::Signal { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Retryable::Rarely
            }
            Self::Cgroup(_) | Self::Signal { .. } | Self::Unlisted { .. } => Retryable::Yes,
            Self::Refused { .. }
            | Self::ForeignPidNamespace { .. }
            | Self::Unverifiable { .. }
            | Self::GaveUp { .. } => Retryable::No,
        }
    }
}

/// Why a cgroup must not be killed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not strictly below any of the cgroups that may contain pods.
    #[error("it is not below a configured pod cgroup")]
    OutsidePodCgroups,
    /// evictd itself runs in it or below it.
    #[error("evictd itself is in it")]
    HoldsEvictd,
    /// Process 1 is in it.
    #[error("process 1 is in it")]
    HoldsInit,
    /// According to its name it belongs to another pod.
    #[error("it is the cgroup of the pod with UID {found}")]
    OtherPod {
        /// The UID in the cgroup's name.
        found: String,
    },
}
