//! Traces: jobs that arrive over time, played against nodes and queues in simulated time.
//!
//! A session is run each schedule period in which something has changed; quiet time is skipped. A pod that is bound runs
//! for its job's duration. One that is evicted holds its room for `terminationSeconds` more, is made anew
//! then, and starts over once it is bound again. The same trace and the same options always come to the same [`Report`].
//!
//! Jain's index of fairness is `(Σx)² / (n·Σx²)` over the `n` queues with demand at a moment: those with pods that wait
//! or run. `x` is a queue's allocation as a part of its entitlement. Both are dominant shares: the largest part of the
//! cluster that the queue holds, or holds and waits for, in any resource. A queue is entitled to its part of the
//! cluster by weight. One that wants less, or whose capability is less, is entitled to that, and the rest is divided
//! among the others (weighted max-min fairness). With fewer than two such queues there is no index.
//!
//! ```
//! use evictd_batch::conf::Conf;
//! use evictd_batch_objects::Compat;
//! use evictd_batch_trace::{SimulatorOptions, Seconds, Trace, play};
//!
//! // Two jobs of two pods on a node with room for three: the second one waits for the first.
//! let job = |name: &str, arrival: u32| {
//!     serde_json::json!({"name": name, "arrival": arrival, "duration": 60,
//!         "tasks": [{"replicas": 2, "requests": {"cpu": "1"}}]})
//! };
//! let trace: Trace = serde_json::from_value(serde_json::json!({
//!     "nodes": [{"name": "one", "allocatable": {"cpu": "3"}}],
//!     "jobs": [job("first", 0), job("second", 10)],
//! }))?;
//! assert!(trace.mistakes().is_empty());
//! let options = SimulatorOptions {
//!     conf: Conf::read("").expect("the built-in one"),
//!     compat: Compat::EVICTD,
//!     period: Seconds::from_millis(1000),
//! };
//! let report = play(&trace, &options, &mut |_, _| ());
//! assert_eq!(report.finished, 2);
//! assert!(report.wait_seconds.is_some_and(|wait| wait.max >= 50.0));
//! # Ok::<(), serde_json::Error>(())
//! ```

#![forbid(unsafe_code)]

mod check;
mod fairness;
mod generate;
mod objects;
mod random;
mod report;
mod series;
mod simulator;
pub mod svg;
mod usage;
mod wire;
mod world;

pub use generate::{Recipe, generate};
pub use report::{Fairness, QueueReport, Report, Spread, Timeline, Unfinished};
pub use simulator::{Simulator, SimulatorOptions, play};
pub use wire::{HyperNode, Job, Nodes, Queue, Seconds, Task, Trace};
