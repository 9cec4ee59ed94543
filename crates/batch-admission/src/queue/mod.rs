//! Admission of queues: defaults, validation and deletion.

mod amounts;
mod hierarchy;
pub(super) mod mutate;
mod resources;
mod tree;
pub(super) mod validate;
