//! Objects of batch.volcano.sh, scheduling.volcano.sh and bus.volcano.sh, with only the fields that are used. Unknown
//! fields are skipped and `null` counts as absent; whoever changes an object patches it, so that nothing is lost.

mod command;
mod job;
mod pod_group;
mod queue;
mod task_pod;
mod workload;

pub use command::*;
pub use job::*;
pub use pod_group::*;
pub use queue::*;
pub use task_pod::*;
pub use workload::*;
