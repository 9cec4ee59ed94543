//! The node agent: all input and output around the pure core of `evictd-eviction`.

pub mod agent;
pub mod config;
pub mod delivery;
pub mod evict;
pub mod fact;
pub mod filesystems;
pub mod history;
pub mod kept;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod pause;
pub mod pods;
pub mod process;
pub mod publish;
pub mod reclaim;
mod regular_file;
pub mod runtime;
pub mod sampling_interval;
pub mod server;
pub mod usage;
mod whole_file;
