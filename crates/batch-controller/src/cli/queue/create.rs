//! `evictd-batch queue create`: makes a queue.

use crate::cli::connection::Connection;
use crate::cli::kind::QUEUES;
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, warn, write_to_stdout};
use serde_json::json;

const EXAMPLE: &str = "Example:
  evictd-batch queue create -n gold -w 4";

/// Makes a queue
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The queue's name.
    #[arg(short, long, value_name = "NAME", default_value = "test")]
    name: String,
    /// Its share beside those of the other queues.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 1)]
    weight: i32,
    /// Open or Closed.
    #[arg(short = 'S', long, value_name = "STATE", default_value = "Open")]
    state: String,
    #[command(flatten)]
    connection: Connection,
}

impl Arguments {
    /// S6-148.
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, state, .. } = &self;
        // An API server drops the status of a new object before anybody can judge it.
        if !["", "Open", "Closed"].contains(&state.as_str()) {
            let told = "queue state must be in [Open Closed]";
            return Err(Failure::Input(anyhow!("{told}, and {state} is neither")));
        }
        let queue = json!({
            "apiVersion": QUEUES.api_version(), "kind": QUEUES.name,
            "metadata": {"name": name}, "spec": {"weight": self.weight}, "status": {"state": state},
        });
        let made = self.connection.open()?.create(&QUEUES, "", &queue)?;
        write_to_stdout(&format!("create queue {name} successfully"))?;
        if state == "Closed" && made["status"]["state"] != *state {
            let told = format!(
                "the API server did not keep the state Closed: `evictd-batch queue operate -n {name} -a close` closes the queue"
            );
            warn("evictd-batch", &told);
        }
        Ok(())
    }
}
