//! Traces: jobs that arrive over time, played against nodes and queues in simulated time.
//!
//! A session is run each schedule period in which something has changed; quiet time is skipped. A pod that is bound runs
//! for its job's duration. One that is evicted holds its room for `terminationSeconds` more, is made anew
//! then, and starts over once it is bound again. The same trace and the same rules always come to the same [`Report`].
//!
//! Jain's index of fairness is `(Σx)² / (n·Σx²)` over the `n` queues that want something at a moment: those that have a pod
//! which waits or runs. `x` is what a queue holds, as a part of what it is entitled to. Both are dominant shares: of the
//! resource of which the queue holds (or holds and waits for) the largest part of the cluster, that part. A queue is
//! entitled to its part of the cluster by weight; whoever wants less, or may have no more by its capability, is entitled to
//! just that, and the rest is divided among the others in the same way (weighted max-min fairness). Where fewer than two
//! queues want something there is no index.
//!
//! ```
//! use evictd_batch::conf::Conf;
//! use evictd_batch::session::Form;
//! use evictd_batch::trace::{Rules, Seconds, Trace, play};
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
//! let rules = Rules {
//!     conf: Conf::read("").expect("the built-in one"),
//!     form: Form::default(),
//!     period: Seconds::from_millis(1000),
//! };
//! let report = play(&trace, &rules, &mut |_, _| ());
//! assert_eq!(report.finished, 2);
//! assert!(report.wait_seconds.max >= 50.0);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod check;
mod fairness;
mod generate;
mod ledger;
mod objects;
mod player;
mod random;
mod report;
mod series;
mod wire;
mod world;

pub use generate::{Recipe, generate};
pub use player::{Player, Rules, play};
pub use report::{Fairness, QueueReport, Report, Spread, Timeline, Unfinished};
pub use wire::{Job, Nodes, Queue, Seconds, Task, Trace};
