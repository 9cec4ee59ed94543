//! `evictd-batch queue get`: shows one queue.

use super::Named;
use super::table::{Columns, QueueRow, table};
use crate::cli::connection::Connection;
use crate::cli::kind::{POD_GROUPS, QUEUES, required};
use clap::Args;
use evictd_batch_objects::{PodGroup, Queue};
use evictd_command::{Failure, Output};

const EXAMPLE: &str = "Example:
  evictd-batch queue get -n gold";

/// Shows a queue, with its pod groups by phase
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Named { name, connection } = &self.named;
        let name = required(
            name,
            "name is mandatory to get the particular queue details",
        )?;
        get(connection, name, Columns::All, self.output)
    }
}

/// Prints one queue (S6-148).
pub(in crate::cli) fn get(
    connection: &Connection,
    name: &str,
    columns: Columns,
    output: Output,
) -> Result<(), Failure> {
    let cluster = connection.open()?;
    let queue: Queue = serde_json::from_value(cluster.get(&QUEUES, "", name)?)?;
    let groups: Vec<PodGroup> = cluster.list(&POD_GROUPS, "")?;
    let rows = QueueRow::of(vec![queue], &groups);
    output.print(&rows, |rows, view| table(rows, columns, view))
}
