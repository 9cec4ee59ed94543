//! Which pod must be evicted from a node, and when: the pure core of the node agent.
//!
//! This crate has no clock, I/O or logging: the caller passes in the time and carries out the results. It begins a
//! cycle with an observation of the node ([`Housekeeper::begin`]) and fetches the data that the returned [`Step`]
//! names. It answers ([`Answer`]) until [`Step::Rest`], and carries out each [`Decision`](evictd_decision::Decision).
//! The daemon, `simulate`, `explain` and the demo all work this way.
//!
//! | for | look at |
//! |---|---|
//! | the rules of a kubelet, and those of evictd | [`Rules`] |
//! | which pod is evicted first | [`rank`] |
//! | the limits of a pod on local storage | [`local_storage`] |
//! | the message of an eviction | [`message`] |
//! | how long evicted pods are kept | [`retention`] |
//! | many cycles over captured statistics | [`simulation`] |
//!
//! The crates below it, from the lowest:
//!
//! | crate | contains |
//! |---|---|
//! | `evictd-signals` | what can run out, and its thresholds |
//! | `evictd-usage` | what a pod uses |
//! | `evictd-admission` | which new pod the node takes |
//! | `evictd-reclaim` | what is removed before a pod is evicted: dead containers, unused images |
//! | `evictd-decision` | a decision, why it was made, and its record |
//! | `evictd-departures` | the stages of a pod that must leave |
//!
//! One cycle; `examples/cycle.rs` ranks more pods, from the statistics of a kubelet:
//!
//! ```
//! use evictd_eviction::{Answer, Housekeeper, Rules, Step};
//! use evictd_pod::Pod;
//! use evictd_signals::{Observation, Observations, Signal, ThresholdMaps};
//! use evictd_usage::{PodUsage, Usage, figure::Figure};
//! use jiff::Timestamp;
//!
//! let mut maps = ThresholdMaps::default();
//! maps.hard.insert("memory.available".to_owned(), "100Mi".to_owned());
//! let thresholds = maps.parse().expect("a good threshold");
//! let mut housekeeper = Housekeeper::new(Rules { thresholds, ..Rules::evictd() });
//!
//! let pod = r#"{"metadata": {"name": "hog", "namespace": "shop", "uid": "1"}}"#;
//! let pods = [Pod::from_wire(serde_json::from_str(pod)?)];
//! let used = PodUsage { working_set: Some(Figure::bytes(900 << 20)), ..PodUsage::default() };
//! let usage = Usage { pods: vec![Some(used)], ..Usage::default() };
//! let memory = Observation { available: 50 << 20, capacity: 1 << 30, time: None };
//! let left: Observations = [(Signal::MemoryAvailable, memory)].into_iter().collect();
//!
//! let now = Timestamp::UNIX_EPOCH;
//! let mut step = housekeeper.begin(now, &left);
//! let mut decided = Vec::new();
//! while step != Step::Rest {
//!     let answer = match step {
//!         Step::Rest => break,
//!         Step::LocalStorage => Answer::LocalStorage(Some((&pods, &usage))),
//!         Step::Reclaim(_) => Answer::Reclaimed(None),
//!         Step::Measure(signal) => Answer::Measured(signal, &pods, &usage),
//!         Step::Watch(need) => Answer::Watched(need, &pods, &usage),
//!         Step::Rank(need) => Answer::Ranked { need, pods: &pods, usage: &usage, fresh: None },
//!     };
//!     let (next, decisions) = housekeeper.answer(now, answer);
//!     decided.extend(decisions);
//!     step = next;
//! }
//! let eviction = decided[0].eviction.as_ref().expect("a pod is evicted");
//! assert_eq!(eviction.pod, "shop/hog");
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod containerfs;
mod futility;
mod housekeeper;
pub mod local_storage;
pub mod message;
pub mod rank;
mod relief;
pub mod retention;
mod returning;
pub mod rules;
pub mod simulation;
mod step;
mod unevictable;
mod watched;

pub use housekeeper::{Answer, Housekeeper};
pub use returning::{Backoff, Returned};
pub use rules::Rules;
pub use step::{Reclaim, Step};
