//! `evictd-batch queue delete`: deletes a queue.

use super::Named;
use crate::cli::kind::{QUEUES, required};
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const EXAMPLE: &str = "Example:
  evictd-batch queue delete -n gold";

/// Deletes a queue
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
}

impl Arguments {
    /// S6-148.
    pub(super) fn run(self) -> Result<(), Failure> {
        let Named { name, connection } = &self.named;
        let name = required(name, "queue name must be specified")?;
        connection.open()?.delete(&QUEUES, "", name)?;
        write_to_stdout(&format!("delete queue {name} successfully"))
    }
}
