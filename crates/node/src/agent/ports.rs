//! The agent's settings, and its connections to the machine and the cluster.

use super::{Allocatable, NodeReclaim, Pauses, Terminations, Timer, Unfinished};
use crate::{
    config::Admission, filesystems::WatchedPaths, hook::Hook, kept::Kept, near_misses::NearMissLog,
    pods::PodCache, publish::Publishers, usage,
};
use evictd_eviction::Rules;
use evictd_kernel::{signals::Sampler, wake::WakeListeners};
use std::{collections::BTreeMap, time::Duration};

/// The settings that may change while the agent runs.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The rules; their filesystem layout is detected, not configured.
    pub rules: Rules,
    /// The longest sleep between two cycles.
    pub housekeeping_interval: Duration,
    /// Decide and publish, but terminate no pod.
    pub dry_run: bool,
    /// How new pods are checked.
    pub admission: Admission,
    /// Priorities of the priority classes that manifests may name, in addition to the built-in ones.
    pub priority_classes: BTreeMap<String, i32>,
    /// The shortest time between SIGTERM and SIGKILL if the grace period is not zero (S1-049).
    pub least_grace: Duration,
    /// The pre-kill hook, if there is one.
    pub hook: Option<Hook>,
    /// Whether records have the command lines of processes.
    pub command_lines: bool,
}

/// The connections of an agent to the machine and the cluster.
pub struct Ports {
    /// The timer of the main loop.
    pub timer: Timer,
    /// Notifications that wake the main loop early.
    pub wake_listeners: WakeListeners,
    /// Reads the available amount of each signal.
    pub sampler: Sampler,
    /// Which directories it watches.
    pub filesystems: WatchedPaths,
    /// The pods of this node with their cgroups.
    pub pod_cache: PodCache,
    /// The node's allocatable resources.
    pub allocatable: Allocatable,
    /// Measures the usage of pods.
    pub usage: usage::UsageReader,
    /// Reclaims space and page cache without evicting a pod.
    pub reclaim: NodeReclaim,
    /// Terminates pods, and informs the cluster of it.
    pub terminations: Terminations,
    /// Pauses, which keep the agent from terminating pods for a while.
    pub pauses: Pauses,
    /// Publish decisions and state.
    pub publishers: Publishers,
    /// Decisions that an earlier run did not finish.
    pub unfinished: Vec<Unfinished>,
    /// The state that an earlier run kept.
    pub kept: Kept,
    /// How near the node came to its thresholds, also before this start.
    pub near_misses: NearMissLog,
    /// The kernel's boot id; empty where the kernel has none.
    pub boot_id: String,
}
