//! Admission of jobs: defaults, validation and updates.

pub(super) mod dependencies;
pub(super) mod mutate;
pub(super) mod policies;
pub(super) mod topology;
pub(super) mod update;
pub(super) mod validate;
mod volumes;
