//! `evictd-scheduler`: a scheduler that decides as kube-scheduler does, over every node, and explains each decision.
//!
//! The decisions themselves are in other crates, which do no I/O: `evictd-scheduling` (queue, plugins, one attempt),
//! `evictd-preemption` (victims), `evictd-placement` (filters and scores) and `evictd-batch` (jobs and queues). This crate is
//! the program around them. [`cli`] is its face, one module for each subcommand:
//!
//! | subcommand | module | input |
//! |---|---|---|
//! | `plan`, `explain` | `plan`, `explain` | a dump of a cluster, read by [`dump`], or a live one (`live`); the pod (`preemptor`) |
//! | `simulate` | `simulate` | a file of events, or a dump and pods to add (`what_if`) |
//! | `run` | `run` | the API server |
//! | `pending` | `cli` | a running scheduler, over its secure port |
//!
//! Each of the first three answers as JSON (`answer`) and as a page for people (`page`). `run` is a process; its own page says
//! how watches, scheduling loop and writer work together.
//!
//! A program with further plugins needs only [`cli::Cli::run_with`]; `examples/custom_scheduler.rs` is one.

mod attempt;
pub mod cli;
mod clock;
mod configuration;
pub mod dump;
mod emulation;
mod explain;
mod http_extender;
mod live;
mod plan;
mod preempt_extender;
mod preemptor;
mod progress;
mod run;
mod simulate;
mod values;
