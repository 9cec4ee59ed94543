//! Objects of batch.volcano.sh, scheduling.volcano.sh and bus.volcano.sh. The definitions of the custom resources are
//! generated from these types, with all fields, defaults and limits.
//!
//! A field that no program reads is not stored where that would cost memory. Unknown fields are skipped and `null` counts as
//! absent. Objects are changed by patches, so that no field is lost.

mod command;
mod job;
mod open_enum;
mod phase;
mod pod_group;
mod queue;
mod schema;
mod task_pod;
mod workload;

pub use command::*;
pub use job::*;
pub use open_enum::{KnownValues, OpenEnum};
pub use phase::*;
pub use pod_group::*;
pub use queue::*;
pub use task_pod::*;
pub use workload::*;
