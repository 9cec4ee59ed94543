//! `evictd-batch queue create`: creates a queue.

use crate::cli::connection::Connection;
use crate::cli::kind::QUEUES;
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, warn, write_to_stdout};
use serde_json::json;

const EXAMPLE: &str = "Example:
  evictd-batch queue create -n gold -w 4";

/// Creates a queue
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The name of the queue.
    #[arg(short, long, value_name = "NAME", default_value = "test")]
    name: String,
    /// The weight of the queue among its siblings.
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
        // The API server drops the status of a new object, so that no webhook can check it.
        if !["", "Open", "Closed"].contains(&state.as_str()) {
            return Err(Failure::Input(anyhow!(
                "queue state must be in [Open Closed], and {state} is neither"
            )));
        }
        let queue = json!({
            "apiVersion": QUEUES.api_version(), "kind": QUEUES.name,
            "metadata": {"name": name}, "spec": {"weight": self.weight}, "status": {"state": state},
        });
        let created = self.connection.open()?.create(&QUEUES, "", &queue)?;
        write_to_stdout(&format!("create queue {name} successfully"))?;
        // A definition without the status subresource would keep the state.
        if state == "Closed" && created["status"]["state"] != *state {
            let warning = format!(
                "the API server did not keep the state Closed: `evictd-batch queue operate -n {name} -a close` closes the queue"
            );
            warn("evictd-batch", &warning);
        }
        Ok(())
    }
}
