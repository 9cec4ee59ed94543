//! `evictd-batch queue get`: one queue.

use super::Named;
use super::table::{Columns, Shown, table};
use crate::cli::connection::Connection;
use crate::cli::kind::{POD_GROUPS, QUEUES, required};
use clap::Args;
use evictd_batch::wire::{PodGroup, Queue};
use evictd_command::{Failure, Output};

const EXAMPLE: &str = "Example:
  evictd-batch queue get -n gold";

/// One queue, and how many of its pod groups are in which phase
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
        let otherwise = "name is mandatory to get the particular queue details";
        let Named { name, connection } = &self.named;
        let name = required(name, otherwise)?;
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
    let shown = Shown::of(vec![queue], &groups);
    output.print(&shown, |shown, view| table(shown, columns, view))
}
