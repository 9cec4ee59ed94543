//! Objects of batch.volcano.sh, scheduling.volcano.sh and bus.volcano.sh, with only the fields in use. Unknown fields
//! are skipped and `null` counts as absent. Objects are changed by patches, so that no field is lost.

mod command;
mod job;
mod phase;
mod pod_group;
mod queue;
mod task_pod;
mod workload;

pub use command::*;
pub use job::*;
pub use phase::*;
pub use pod_group::*;
pub use queue::*;
pub use task_pod::*;
pub use workload::*;
