//! Jobs: what they get, whether they are let in, and what of them may change.

pub(super) mod dependencies;
pub(super) mod mutate;
pub(super) mod policies;
pub(super) mod topology;
pub(super) mod update;
pub(super) mod validate;
mod volumes;
