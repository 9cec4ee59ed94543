#![doc = include_str!("../README.md")]
//!
//! [`Scheduler`] is the whole scheduler as a value: its cache and queue, the scheduling cycle and the binding cycle.
//!
//! [`SchedulingQueue`] holds the pods that wait for a node. It decides which pod is next, how long a failed pod backs off, and
//! which event wakes a rejected pod. Every watch event is reported by [`SchedulingQueue::on`]. An attempt begins with
//! [`pop`](SchedulingQueue::pop). It ends with [`failed`](SchedulingQueue::failed), or with [`assume`](SchedulingQueue::assume)
//! and [`done`](SchedulingQueue::done). After these [`binding_failed`](SchedulingQueue::binding_failed) may still follow. As time
//! passes, two flushes are called.
#![forbid(unsafe_code)]

mod change;
pub mod config;
mod cycle;
mod events;
mod evidence;
mod extenders;
mod filter_error;
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
mod pre_filter;
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
