//! `evictd-batch job`: the subcommands for jobs, with the options and columns of vcctl.

pub(super) mod delete;
pub(super) mod list;
pub(super) mod run;
pub(super) mod suspend;
pub(super) mod view;

mod events;
mod page;

use clap::{Args, Subcommand};
use evictd_command::Failure;

/// Runs, shows, suspends and deletes jobs
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    List(list::Arguments),
    View(view::Arguments),
    Suspend(suspend::Arguments),
    Resume(suspend::ResumeArguments),
    Delete(delete::Arguments),
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Run(arguments) => arguments.run(),
            Command::List(arguments) => arguments.run(),
            Command::View(arguments) => arguments.run(),
            Command::Suspend(arguments) => arguments.run(),
            Command::Resume(arguments) => arguments.run(),
            Command::Delete(arguments) => arguments.run(),
        }
    }
}
