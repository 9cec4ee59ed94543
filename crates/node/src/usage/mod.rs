//! The port "usage of each pod". It measures only when a decision needs it.

mod cgroup;
mod cri;
mod deleted;
mod directories;
mod disk;
mod files_left;
mod io;
mod layers;
pub(crate) mod ledger;
mod merging;
mod parts;
mod postponement;
mod pressure;
mod reader;
mod remaining;
mod summary;
mod survey;
mod upper;
mod walk;

use crate::pods::PodSet;
use evictd_kernel::kernel_file::ReadError;
use evictd_signals::StarvedResource;
use evictd_usage::Usage;
use jiff::Timestamp;
use std::{fmt, path::PathBuf};

pub(crate) use cgroup::MemoryFiles;
pub use cgroup::{CgroupUsage, raise_open_files};
pub(crate) use directories::DiskRoots;
pub(crate) use disk::{DiskMeter, Method};
pub(crate) use evictd_kernel::walk::Truncation;
pub(crate) use reader::UsageReader;
pub(crate) use summary::{SummaryUsage, summary};
pub(crate) use walk::WalkScope;

/// A source of usage figures. `usage` becomes parallel to the pods of the set. Each method returns a warning for
/// figures that it could not read; a pod that has ended has no figures and causes no warning.
pub(crate) trait UsageSource {
    /// Memory, swap and processes of every pod; replaces the content of `usage`.
    fn every_pod(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        usage: &mut Usage,
    ) -> impl Future<Output = Vec<UsageWarning>> + Send;

    /// Adds the memory of the containers of the pods with these indices, for a victim's message.
    fn containers(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: &[usize],
        usage: &mut Usage,
    ) -> impl Future<Output = Vec<UsageWarning>> + Send;
}

/// A figure that is missing or incomplete.
#[derive(Debug)]
pub enum UsageWarning {
    /// A file of a pod's cgroup could not be read, not even at the second try; its figure is missing.
    Unreadable {
        /// `namespace/name`.
        pod: String,
        /// Index in the set of pods.
        index: usize,
        /// The resource of the figure.
        resource: StarvedResource,
        /// The error of the second try.
        error: ReadError,
    },
    /// A walk of a directory stopped early; its figure is a lower bound.
    AtLeast {
        /// `namespace/name`.
        pod: String,
        /// Index in the set of pods.
        index: usize,
        /// The directory that was not walked to its end.
        directory: PathBuf,
        /// Why the walk stopped.
        truncation: Truncation,
    },
    /// A pod's directories were not walked; their figures are missing.
    NotWalked {
        /// `namespace/name`.
        pod: String,
        /// The reason why the walk did not run.
        why: NotWalked,
    },
}

/// Why a pod's directories were not walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotWalked {
    /// A filesystem does not answer; the walk was abandoned.
    Hangs,
    /// An earlier walk of it is still waiting for a filesystem that does not answer.
    StillHangs,
    /// Too many walks hang.
    TooManyHang,
    /// The walks of the other pods took all the time.
    NoTime,
    /// The kernel gives no thread for the walk.
    NoThread,
}

impl fmt::Display for UsageWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { pod, error, .. } => write!(f, "usage of pod {pod}: {error}"),
            Self::AtLeast {
                pod,
                directory,
                truncation,
                ..
            } => write!(
                f,
                "disk usage of pod {pod} is at least what was counted in {}: {truncation}",
                directory.display()
            ),
            Self::NotWalked { pod, why } => {
                let why = match why {
                    NotWalked::Hangs => "its filesystem does not answer",
                    NotWalked::StillHangs => "its filesystem still does not answer",
                    NotWalked::TooManyHang => "too many filesystems do not answer",
                    NotWalked::NoTime => "the time for it was over",
                    NotWalked::NoThread => "no thread is free for it",
                };
                write!(f, "disk usage of pod {pod} is unknown: {why}")
            }
        }
    }
}
