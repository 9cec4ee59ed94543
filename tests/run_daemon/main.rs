//! The built daemon as an operator runs it: against control groups, processes, files and signals that are real.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test a panic is the report"
)]

mod admission;
mod api;
mod beside;
mod budget;
mod cluster;
mod container;
mod crashes;
mod daemon;
mod disk;
mod evicted_pods;
mod futility;
mod hidden;
mod kubelet;
mod lines;
mod memory;
mod metrics;
mod newcomers;
mod node;
mod pause;
mod preempting;
mod pressure;
mod refusals;
mod relief;
mod reload;
mod returning;
mod rights;
mod scale;
mod soft;
mod spared;
mod state;
mod systemd;
mod telling;
mod tenants;
mod threads;
mod tls;
mod unfinished;
mod uninstall;
mod unlisted;
mod usage;

#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "../../crates/kernel/tests/support/cgroup.rs"]
mod cgroup_support;
#[path = "../support/packaged.rs"]
mod packaged;
#[path = "../support/promtool.rs"]
mod promtool;
