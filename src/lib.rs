//! The node agent: everything that reads, waits, talks or kills around the pure core of `evictd-eviction`.

pub mod agent;
pub mod api;
pub mod cgroup;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod doors;
pub mod evict;
pub mod history;
pub mod logging;
pub mod notify;
pub mod outbox;
pub mod pace;
pub mod pause;
pub mod pods;
mod protect;
pub mod publish;
pub mod signals;
#[cfg(test)]
mod testing;
pub mod threads;
pub mod usage;
pub mod wake;
mod whole_file;
