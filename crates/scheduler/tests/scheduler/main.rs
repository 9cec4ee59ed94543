//! `evictd-scheduler` as a user starts it, and its reader of dumps.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod agreement;
mod bad_input;
mod cluster;
mod configuration;
mod devices_oracle;
mod documents;
mod dump;
mod dump_command;
mod dump_shapes;
mod explain;
mod extender;
mod gang_plans;
mod group_claims;
mod group_victims;
mod live;
mod live_bad_input;
mod live_bare;
mod live_batch;
mod live_batch_extender;
mod live_devices;
mod live_drivers;
mod live_extenders;
mod live_faults;
mod live_gangs;
mod live_groups;
mod live_large;
mod live_rate;
mod live_resizes;
mod live_rights;
mod live_scheduling;
mod live_static_pod;
mod live_stop;
mod live_top;
mod live_upstream;
mod live_words;
mod messages;
mod one_model;
mod oracle;
mod preemptor;
mod questions;
mod replicas;
mod schedule_oracle;
mod shown;
mod simulate;
mod used_rights;
mod what_if;
mod workload_controllers;

use evictd_testkit::program;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output};

/// Runs `evictd-scheduler plan --cluster - ARGUMENTS` with the cluster on stdin and the pod in a file.
fn plan(cluster: impl AsRef<[u8]>, pod: &Value, arguments: &[&str]) -> Output {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{pod}").unwrap();
    let path = file.path().to_str().unwrap();
    run(cluster, &[&["--pod", path], arguments].concat())
}

fn run(cluster: impl AsRef<[u8]>, arguments: &[&str]) -> Output {
    let mut command = scheduler();
    command.args(["plan", "--cluster", "-"]).args(arguments);
    program::run(&mut command, cluster)
}

fn scheduler() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-scheduler"))
}
