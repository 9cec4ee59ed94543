//! `evictd-batch controllers`: the controllers on a cluster.
//!
//! ```text
//!   watches -> WatchEvent -> Engine -> JobMachine, QueueMachine -> calls -> API server
//!                              ^----------- TaskResult ------------'
//! ```
//!
//! `workflows` runs another machine in another task, for cron jobs, flows and job templates. The engine sends it the jobs.
//! `hyper_nodes` does the same for HyperNodes, from the labels of nodes and a file.
//!
//! The state machines are in `evictd_batch_jobs`. `engine` passes events to them and carries out their commands. `garbage_collector` and
//! `pod_groups` are named as Volcano's controllers.

mod cache;
mod calls;
mod commands;
mod delay_queue;
mod engine;
mod events;
mod garbage_collector;
mod health;
mod hyper_nodes;
mod metrics;
mod pod_groups;
mod process;
mod results;
mod ssh_keys;
mod watches;
mod workflows;

pub use process::{RunError, Settings, run};
