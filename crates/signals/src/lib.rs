//! The signals of a node: what can run out, how much of it is left, and from when on that is too little.
//!
//! | for | look at |
//! |---|---|
//! | what can run out, and the condition of the node that it raises | [`Signal`], [`StarvedResource`], [`NodeCondition`] |
//! | how much is left | [`Observation`], [`Observations`], [`Headroom`] |
//! | when that is too little | [`Threshold`], [`ThresholdMaps`], [`threshold`] |
//! | signals of pressure, whose figure is a share of time | [`pressure`] |
//! | how fast a signal falls, and when it is exhausted | [`forecast`] |
//! | how often a threshold was nearly met, and how long conditions were raised | [`near_misses`] |
//!
//! ```
//! use evictd_signals::{Observation, Signal, ThresholdMaps};
//!
//! let mut maps = ThresholdMaps::default();
//! maps.hard.insert("memory.available".to_owned(), "100Mi".to_owned());
//! let thresholds = maps.parse().expect("a good threshold");
//! let memory = Observation { available: 50 << 20, capacity: 1 << 30, time: None };
//! assert_eq!(thresholds[0].signal, Signal::MemoryAvailable);
//! let threshold = thresholds[0].value.at(memory.capacity);
//! assert!(memory.available < threshold.value());
//! ```
#![forbid(unsafe_code)]

pub mod forecast;
mod headroom;
mod human;
pub mod near_misses;
mod node;
mod observation;
mod observations;
pub mod pressure;
mod signal;
pub mod threshold;

pub use headroom::Headroom;
pub use human::human_bytes;
pub use observation::Observation;
pub use observations::Observations;
pub use signal::{ConditionMap, NodeCondition, Signal, SignalMap, StarvedResource};
pub use threshold::{Threshold, ThresholdMaps, ThresholdValue};
