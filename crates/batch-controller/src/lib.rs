//! Jobs, pod groups and queues: the shell around `evictd-batch`.

pub mod cli;
