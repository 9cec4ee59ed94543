//! What a scheduler decides between two placements, without I/O, clock or threads.
//!
//! [`Queue`] holds the pods that wait for a node: which one is next, how long one that failed backs off, and which
//! event of the cluster makes another attempt worth while.
//!
//! ```
//! use evictd_scheduling::{Event, Failure, Hint, Plugin, PluginSet, Pool, Queue, Requeueing, Settings};
//!
//! struct Hints;
//! const FIT: Plugin = Plugin::new(0).expect("below 64");
//! impl Requeueing<&'static str> for Hints {
//!     fn registered(&self, _: &&'static str) -> PluginSet {
//!         PluginSet::from_iter([FIT])
//!     }
//!     fn hint(&self, _: Plugin, _: &str, event: &&'static str) -> Hint {
//!         if *event == "big node" { Hint::Queue } else { Hint::Skip }
//!     }
//!     fn gate(&self, _: &str) -> Option<Plugin> {
//!         None
//!     }
//! }
//!
//! let now = jiff::Timestamp::UNIX_EPOCH;
//! let mut queue = Queue::new(Settings::default());
//! queue.add("uid-1".into(), 0, now, &Hints);
//! assert_eq!(queue.pop().expect("one waits").pod.as_ref(), "uid-1");
//! let failure = Failure { rejectors: PluginSet::from_iter([FIT]), pending: PluginSet::default() };
//! queue.failed("uid-1", failure, now, &Hints)?;
//! assert_eq!(queue.pool("uid-1"), Some(Pool::Unschedulable));
//! let event = Event { label: "NodeAdd", object: Some("big node") };
//! queue.event(event, now, &Hints);
//! assert_eq!(queue.pool("uid-1"), Some(Pool::Backoff));
//! # Ok::<(), evictd_scheduling::QueueError>(())
//! ```
#![forbid(unsafe_code)]

pub mod config;
mod cycle;
mod decider;
mod framework;
mod queue;

pub use cycle::{Failure as FitFailure, Filtered, PluginScores, Scores, Verdict};
pub use decider::{Decided, Decider};
pub use framework::{Framework, OwnPlugin, PostFilter, Shared};

pub use queue::{
    Event, Failure, Hint, MAX_IN_FLIGHT_EVENTS, Moved, Plugin, PluginSet, Pool, Popped, Queue,
    QueueError, Requeueing, Settings,
};
