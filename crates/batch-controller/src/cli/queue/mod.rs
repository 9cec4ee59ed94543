//! `evictd-batch queue`: the subcommands for queues, with the options and columns of vcctl.

pub(super) mod get;
pub(super) mod list;

mod create;
mod delete;
mod operate;
mod table;

pub(super) use table::{Columns, GroupCounts};

use super::connection::Connection;
use clap::{Args, Subcommand};
use evictd_command::Failure;

/// Creates, shows, opens, closes and deletes queues
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Arguments),
    List(list::Arguments),
    Get(get::Arguments),
    Operate(operate::Arguments),
    Delete(delete::Arguments),
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Create(arguments) => arguments.run(),
            Command::List(arguments) => arguments.run(),
            Command::Get(arguments) => arguments.run(),
            Command::Operate(arguments) => arguments.run(),
            Command::Delete(arguments) => arguments.run(),
        }
    }
}

/// The options that name one queue.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// The name of the queue.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) connection: Connection,
}
