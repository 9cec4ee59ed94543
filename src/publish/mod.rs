//! What the world is told: views of the same decisions and observations.

pub mod journal;
pub mod metrics;
