//! `evictd-batch queue delete`: deletes a queue.

use crate::cli::connection::Connection;
use crate::cli::kind::{QUEUES, required};
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const EXAMPLE: &str = "Example:
  evictd-batch queue delete -n gold";

/// Deletes a queue
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The queue.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    name: String,
    #[command(flatten)]
    connection: Connection,
}

impl Arguments {
    /// S6-148.
    pub(super) fn run(self) -> Result<(), Failure> {
        let name = required(&self.name, "queue name must be specified")?;
        self.connection.open()?.delete(&QUEUES, "", name)?;
        write_to_stdout(&format!("delete queue {name} successfully"))
    }
}
