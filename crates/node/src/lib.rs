//! The node agent: everything between the machine and the pure core that decides, `evictd-eviction`.
//!
//! [`run`] is the daemon: it builds an agent from a configuration ([`start::ready`]), runs its loop until a signal comes,
//! and applies each new configuration meanwhile. A cycle of the loop begins with a sample of the available resources. The
//! core asks for the usage of pods and decides; the loop terminates at most one pod and publishes the decision.
//!
//! | part | what it does |
//! |---|---|
//! | `agent` | the loop, and the parts that own its state: departures, terminations, admission, reclaim, pauses |
//! | `pods` | the pods of this node with their cgroups, from manifests, a kubelet, a container runtime or an API server |
//! | `usage` | what each pod uses, from cgroups, walks of directories, the runtime and the kubelet |
//! | `evict` | the ways to evict a pod: here, through the runtime, or by the eviction API |
//! | `reclaim` | frees dead containers, unused images and page cache before a pod is evicted |
//! | `delivery` | informs the API server of evicted pods and of the node's conditions |
//! | [`Fact`], [`Publish`] | what happens, and the one trait of all that publish it: log, metrics, history, events, status |
//! | [`History`] | decisions on disk, from which the next start continues |
//! | `server` | the operators' socket and the pages for probes; [`status`] and [`disk`] are its answers |
//!
//! The configuration is `evictd-node-config`'s. A demo or a test passes its own [`Publish`] to [`start::ready`] and sees
//! every [`Fact`].

mod agent;
#[cfg(test)]
#[path = "../../kernel/tests/support/cgroup.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "other tests use the rest of it; it may panic"
)]
mod cgroup_support;
mod delivery;
mod evict;
#[cfg(test)]
#[path = "../../kernel/tests/support/evictor.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "other tests use the rest of it; it may panic"
)]
mod evictor_support;
mod fact;
mod filesystems;
mod history;
mod hook;
mod kept;
pub mod logging;
mod metrics;
mod near_misses;
mod notify;
mod pause;
mod pods;
mod process;
mod publish;
mod reclaim;
mod regular_file;
mod runtime;
mod sampling_interval;
mod server;
#[cfg(test)]
mod tests;
mod usage;
mod whole_file;

pub use delivery::{
    ANNOTATIONS, CALM_HEARTBEAT, HEARTBEAT, NodeReporter, all_nodes, clean_pods,
    daemon_set_is_deleted,
};
use evictd_node_config as config;
pub use fact::{Cycle, Decided, Fact, Terminated};
pub use history::{History, Scanner, Waiting};
pub use metrics::{Format, Metrics, ThresholdState, Tier};
pub use pods::{BoundCgroup, LocalPod, PodSet};
pub use process::{Configuration, RunError, run};
pub use publish::{Publish, events::RECLAIMED};
pub use usage::{CgroupUsage, raise_open_files};

/// Builds an agent from a configuration.
pub mod start {
    pub use crate::agent::start::{StartError, behaviour, node_name, ready};
}

/// The agent's state as the socket shows it, and the questions that its loop answers.
pub mod status {
    pub use crate::server::state::{
        AdmissionStatus, ConditionStatus, ConfigurationStatus, ObservedStatus, Question,
        RefusedConfiguration, Shared, SignalStatus, Status, ThresholdStatus, Unanswered,
    };
}

/// The operators' socket.
pub mod socket {
    pub use crate::server::socket::{ANSWER_ANNOTATION, DEFAULT_PATH, GROUP, bind};
}

/// Who fills the node's disks: the answer of `evictd disk`.
pub mod disk {
    pub use crate::usage::ledger::{
        DiskLedger, FilesystemLedger, Kind, PodLedger, Reclaimable, ThresholdLine,
    };
}
