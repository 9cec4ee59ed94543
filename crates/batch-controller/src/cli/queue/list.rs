//! `evictd-batch queue list`: lists queues.

use super::table::{Columns, QueueRow, table};
use crate::cli::connection::Connection;
use crate::cli::kind::{POD_GROUPS, QUEUES};
use clap::Args;
use evictd_batch_objects::{PodGroup, Queue};
use evictd_command::{Failure, Output};

const EXAMPLE: &str = "Example:
  evictd-batch queue list";

/// Lists all queues, with their pod groups by phase
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        list(&self.connection, Columns::All, self.output)
    }
}

/// Prints all queues (S6-148).
pub(in crate::cli) fn list(
    connection: &Connection,
    columns: Columns,
    output: Output,
) -> Result<(), Failure> {
    let cluster = connection.open()?;
    let queues: Vec<Queue> = cluster.list(&QUEUES, "")?;
    let groups: Vec<PodGroup> = match queues.as_slice() {
        // Without queues there is nothing to count.
        [] => Vec::new(),
        _ => cluster.list(&POD_GROUPS, "")?,
    };
    let rows = QueueRow::of(queues, &groups);
    output.print(&rows, |rows, view| table(rows, columns, view))
}
