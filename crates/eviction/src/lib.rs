//! Which pod must be evicted from a node, and when: the pure core of the node agent.
//!
//! This crate has no clock, I/O or logging: the caller passes in the time and carries out the results. It begins a
//! cycle with an observation of the node ([`Housekeeper::begin`]) and fetches the data that the returned [`Step`]
//! names. It answers ([`Answer`]) until [`Step::Rest`], and carries out each [`Decision`]. The daemon, `simulate`,
//! `explain` and the demo all work this way.
//!
//! | for | look at |
//! |---|---|
//! | what can run out, and its thresholds | [`Signal`], [`Threshold`], [`ThresholdMaps`] |
//! | the rules of a kubelet, and those of evictd | [`Rules`] |
//! | what a pod uses, and what its end gives back | [`usage`], [`figure`] |
//! | which pod is evicted first, and why | [`rank`], [`why`] |
//! | how fast a signal falls, and when it is exhausted | [`forecast`] |
//! | what becomes of a pod that must leave | [`departures`] |
//! | what goes before a pod does: dead containers, unused images | [`reclaim`] |
//! | which pod is admitted | [`admission`], [`critical`] |
//! | what is remembered of a decision | [`record`] |
//!
//! One cycle; `examples/cycle.rs` ranks more pods, from the statistics of a kubelet:
//!
//! ```
//! use evictd_eviction::{
//!     Answer, Housekeeper, Observation, Observations, Rules, Signal, Step, ThresholdMaps, Usage,
//!     figure::Figure, usage::PodUsage,
//! };
//! use evictd_pod::Pod;
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

pub mod admission;
mod containerfs;
pub mod critical;
mod decision;
pub mod departures;
pub mod figure;
pub mod fit;
pub mod forecast;
mod futility;
pub mod growth;
mod headroom;
mod housekeeper;
pub mod local_storage;
pub mod message;
mod node;
mod observation;
mod observations;
pub mod pressure;
pub mod rank;
pub mod reclaim;
pub mod record;
mod relief;
pub mod retention;
mod returning;
pub mod rules;
mod signal;
pub mod simulation;
pub mod stalls;
mod step;
mod summary;
pub mod threshold;
mod unevictable;
pub mod usage;
mod watched;
pub mod why;

pub use decision::{
    ActingThreshold, Cause, Decision, Eviction, Excess, PassedOver, RankedPod, Shares, Spared,
    UnevictableGrowth, Unreachable, Withheld,
};
use evictd_pod::duration;
pub use headroom::Headroom;
pub use housekeeper::{Answer, Housekeeper};
pub use observation::Observation;
pub use observations::Observations;
pub use pressure::PressureLimit;
pub use returning::{Backoff, Owner, Returned};
pub use rules::Rules;
pub use signal::{ConditionMap, NodeCondition, Signal, SignalMap, StarvedResource};
pub use step::{Reclaim, Step, UsageNeed};
pub use summary::Summary;
pub use threshold::{Threshold, ThresholdMaps, ThresholdValue};
pub use usage::Usage;
