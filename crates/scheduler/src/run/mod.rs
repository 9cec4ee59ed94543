//! What `evictd-scheduler run` stands on: writes to the API server, events, metrics and the secure port.
//!
//! ```text
//!   decisions -> Writer -> bindings, status patches, preemptions -> Outcome -> the owner of cache and queue
//!                  `-> Events: what users see of a pod
//! ```

mod engine;
mod events;
pub mod metrics;
mod pod_ref;
pub mod process;
pub mod serve;
pub mod view;
mod watches;
mod writer;

pub use engine::{Engine, Ports};
pub use events::Events;
pub use pod_ref::PodRef;
pub use watches::{KINDS, News, start as watch};
pub use writer::{
    Busy, Condition, Failure, FailureKind, Limits, Outcome, Preemption, StatusPatch, Writer,
};
