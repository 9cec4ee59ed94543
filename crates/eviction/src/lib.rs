//! What must go from this node, and when: the pure core of the node agent.
//!
//! No clock, no I/O and no logging in here. The shell fetches what the core asks for; the core decides.
#![forbid(unsafe_code)]

pub mod duration;
pub mod observation;
pub mod signal;
pub mod threshold;
pub mod usage;

pub use observation::{Observation, Observations};
pub use signal::{NodeCondition, Signal, StarvedResource};
pub use threshold::{Threshold, ThresholdMaps, ThresholdValue};
pub use usage::Usage;
