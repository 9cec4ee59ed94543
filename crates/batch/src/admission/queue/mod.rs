//! Queues: what they get, whether they are let in, and whether they may go.

mod amounts;
mod hierarchy;
pub(super) mod mutate;
mod resources;
mod tree;
pub(super) mod validate;
