//! The cluster's side: what kube-scheduler would preempt, worked out from a dump of the cluster.

pub mod cli;
mod clock;
pub mod dump;
mod extender;
mod live;
mod plan;
mod preemptor;
mod progress;
