//! Jobs, pod groups and queues: the shell around `evictd-batch`.

pub mod cli;
pub mod controllers;
pub mod definitions;
mod kueue;
pub mod manifests;
pub mod policies;
pub mod webhook;
