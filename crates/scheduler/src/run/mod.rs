//! What `evictd-scheduler run` stands on: writes to the API server, events, metrics and the secure port.
//!
//! ```text
//!   decisions -> Writer -> bindings, status patches, preemptions -> Outcome -> the owner of cache and queue
//!                  `-> Events: what users see of a pod
//! ```

mod attempts;
mod batch;
mod batch_conf;
mod deadline;
mod engine;
mod events;
mod extenders;
mod frameworks;
mod gangs;
mod groups;
mod kept;
mod leases;
pub mod metrics;
mod pages;
mod pod_ref;
pub mod process;
mod queues;
pub mod serve;
mod threads;
pub mod view;
mod watches;
mod writer;

pub use attempts::{Failure, FailureKind};
pub use batch::{Batch, BatchSettings};
pub use batch_conf::BatchError;
pub use deadline::Deadline;
pub use engine::{Engine, Ports};
pub use events::Events;
pub use extenders::{Binder, Extenders, Replies};
pub use pod_ref::PodRef;
pub use threads::Threads;
pub use watches::{BatchChange, KINDS, News, Start, start as watch};
pub use writer::{
    BatchStatus, Busy, Condition, Eviction, GroupCondition, GroupStatus, Limits, Outcome,
    Preemption, StatusPatch, Together, With, Writer,
};
