//! The decisions of kube-scheduler without I/O, clock or threads. [`Scheduler`] is the whole scheduler as a value: its cache and
//! queue, the scheduling cycle and the binding cycle.
//!
//! [`SchedulingQueue`] holds the pods that wait for a node. It decides which pod is next, how long a failed pod backs off, and
//! which event wakes a rejected pod. Every watch event is reported by [`SchedulingQueue::on`]. An attempt begins with
//! [`pop`](SchedulingQueue::pop). It ends with [`failed`](SchedulingQueue::failed), or with [`assume`](SchedulingQueue::assume)
//! and [`done`](SchedulingQueue::done). After these [`binding_failed`](SchedulingQueue::binding_failed) may still follow. As time
//! passes, two flushes are called.
//!
//! ```
//! use evictd_pod::{Node, wire};
//! use evictd_scheduling::{Change, Delta, Failure, PluginName, Pool, SchedulingQueue, Settings};
//! use std::sync::Arc;
//!
//! let now = jiff::Timestamp::UNIX_EPOCH;
//! let mut queue = SchedulingQueue::new(Settings::default(), ["default-scheduler".to_owned()], false);
//! let pod = r#"{"metadata": {"name": "web", "uid": "1"}, "spec": {"containers": [
//!     {"name": "main", "resources": {"requests": {"cpu": "8"}}}]}}"#;
//! let pod: wire::Pod = serde_json::from_str(pod)?;
//! queue.on(now, &Change::Pod(Delta { old: None, new: Some(Arc::new(pod)) }));
//! assert_eq!(&*queue.pop().expect("one waits").pod, "1");
//! let rejectors = [PluginName::NodeResourcesFit].into_iter().collect();
//! queue.failed(now, "1", &Failure { rejectors, ..Failure::default() }).expect("it was in flight");
//! assert_eq!(queue.pods_in(Pool::Unschedulable).len(), 1);
//!
//! // A node that is too small changes nothing; one that is large enough does.
//! for (cpu, waits) in [("4", 1), ("16", 0)] {
//!     let node = format!(r#"{{"metadata": {{"name": "n{cpu}"}}, "status": {{"allocatable": {{"cpu": "{cpu}", "pods": "9"}}}}}}"#);
//!     let node: Node = serde_json::from_str(&node)?;
//!     queue.on(now, &Change::Node(Delta { old: None, new: Some(Arc::new(node)) }));
//!     assert_eq!(queue.pods_in(Pool::Unschedulable).len(), waits);
//! }
//! assert_eq!(queue.pods_in(Pool::Backoff).len(), 1);
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod change;
pub mod config;
mod cycle;
mod events;
mod evidence;
mod extenders;
mod framework;
mod gang;
mod hints;
mod incoming_pods;
mod not_tried;
mod parallelize;
mod plugins;
mod pod_lifecycle;
mod post_filter;
mod pre_bind;
mod queue;
mod recorder;
mod replicas;
pub mod resizes;
mod scheduler;
mod scheduling_algorithm;
mod scheduling_queue;
pub mod simulation;
mod suggestions;

pub use change::{Change, Delta};
pub use cycle::{Filtered, PluginScores, Scores, Verdict};
pub use evidence::{DecidingScore, Evidence, RejectedNodes};
pub use extenders::{ExtenderRequest, ExtenderResponse, NodeVictims, NodesResponse, is_interested};
pub use framework::{CustomPlugin, Framework, PostFilter, SharedPlugin, TieBreak};
pub use gang::{GangPlacement, GroupObject, GroupOutcome, GroupResult, PodGroups};
pub use hints::waking_events;
pub use not_tried::NotTried;
pub use parallelize::{Chunk, Parallelizer, Sequential};
pub use plugins::{PluginName, PluginSet};
pub use pod_lifecycle::{Binding, Phase, Preemption};
pub use post_filter::{PostFilterResult, PreemptionInput};
pub use pre_bind::{ClaimRef, PreBindPlan};
pub use queue::{
    MAX_IN_FLIGHT_EVENTS, Moved, Pool, Popped, QueueError, QueuedPod, Settings, USUAL_COST,
};
pub use recorder::Recorder;
pub use replicas::{MOST_REPLICAS, replicas};
pub use scheduler::{Attempt, Event, NotBound, Outcome, Rejected, Scheduler, Suggestions};
pub use scheduling_algorithm::{ScheduleResult, SchedulingAlgorithm};
pub use scheduling_queue::{Failure, Nomination, SchedulingQueue};
pub use suggestions::{NodeSuggestions, suggestions};
