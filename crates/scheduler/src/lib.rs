//! Computes what kube-scheduler would preempt, from a dump of the cluster or a live one.

pub mod cli;
mod clock;
mod configuration;
pub mod dump;
mod explain;
mod extender;
mod live;
mod plan;
mod preemptor;
mod progress;
pub mod run;
mod simulate;
