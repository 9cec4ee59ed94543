//! What must go from this node, and when: the pure core of the node agent.
//!
//! No clock, no I/O and no logging in here. The shell fetches what the core asks for; the core decides.
#![forbid(unsafe_code)]

pub mod admission;
mod containerfs;
pub mod critical;
pub mod decision;
pub mod departures;
pub mod duration;
pub mod fit;
mod futility;
pub mod housekeeper;
pub mod local_storage;
pub mod message;
mod node;
mod observation;
mod observations;
pub mod pressure;
pub mod rank;
pub mod record;
mod relief;
pub mod retention;
pub mod returning;
pub mod rules;
pub mod signal;
pub mod simulation;
mod step;
pub mod summary;
pub mod threshold;
pub mod usage;
mod watched;
pub mod why;

pub use decision::{Cause, Decision, Eviction, RankedPod};
pub use housekeeper::{Answer, Housekeeper};
pub use observation::Observation;
pub use observations::Observations;
pub use pressure::PressureLimit;
pub use returning::{Owner, Returned};
pub use rules::Rules;
pub use signal::{ConditionMap, NodeCondition, Signal, SignalMap, StarvedResource};
pub use step::{Reclaim, Step, UsageNeed};
pub use summary::Summary;
pub use threshold::{Threshold, ThresholdMaps, ThresholdValue};
pub use usage::Usage;
pub use why::DecidingKey;
