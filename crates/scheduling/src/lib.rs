//! What a scheduler decides between two placements, without I/O, clock or threads.
//!
//! [`SchedulingQueue`] holds the pods that wait for a node: which one is next, how long one that failed backs off, and
//! which change in the cluster makes another attempt worth while. Whoever watches the cluster tells it every change of
//! every object by [`SchedulingQueue::on`]; whoever schedules takes pods out with [`pop`](SchedulingQueue::pop) and ends
//! each attempt with [`failed`](SchedulingQueue::failed), or with [`assume`](SchedulingQueue::assume) and
//! [`done`](SchedulingQueue::done), after which [`binding_failed`](SchedulingQueue::binding_failed) may still follow.
//! Two flushes are called as time passes.
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
mod decider;
mod events;
mod evidence;
mod extending;
mod framework;
mod gang;
mod hints;
mod moves;
mod plugins;
mod pod_lifecycle;
mod preparations;
mod queue;
mod remedies;
mod scheduler;
mod scheduling_queue;
pub mod simulation;
mod workers;

pub use change::{Change, Delta, pod_key};
pub use cycle::{Failure as FitFailure, Filtered, PluginScores, Scores, Verdict};
pub use decider::{Decided, Decider};
pub use evidence::{DecidingScore, Evidence, RejectedNodes};
pub use extending::{NodesReply, Offered, Question, Reply, is_interested};
pub use framework::{Framework, OwnPlugin, PostFilter, Shared, Ties};
pub use gang::{GroupNews, GroupOutcome};
pub use hints::waking;
pub use plugins::{PluginName, PluginSet};
pub use pod_lifecycle::{Binding, Phase};
pub use preparations::{ClaimRef, Preparations};
pub use queue::{MAX_IN_FLIGHT_EVENTS, Moved, Pool, Popped, QueueError, Settings, Waiting};
pub use remedies::{NodeRemedies, Remedy, remedies};
pub use scheduler::{Attempt, Event, Help, NotBound, Outcome, Rejected, Scheduler};
pub use scheduling_queue::{Failure, Nomination, SchedulingQueue};
pub use workers::{OneByOne, Part, Workers};
