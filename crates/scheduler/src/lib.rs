//! Computes what kube-scheduler would preempt, from a dump of the cluster or a live one.

pub mod cli;
mod clock;
pub mod dump;
mod extender;
mod live;
mod plan;
mod preemptor;
mod progress;
pub mod run;
