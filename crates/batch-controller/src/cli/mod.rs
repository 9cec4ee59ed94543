//! The command line: one file a subcommand.

mod controllers;
mod form;
mod reconcile;

use clap::{CommandFactory, Parser, Subcommand};
use evictd_command::{Completions, Failure, Manual, ManualArguments};

/// Jobs, pod groups and queues in Volcano's manner: what becomes of them, and why.
#[derive(Debug, Parser)]
#[command(name = "evictd-batch", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Controllers(controllers::Arguments),
    Reconcile(reconcile::Arguments),
    #[command(
        after_help = "Example:\n  evictd-batch completions bash > /etc/bash_completion.d/evictd-batch"
    )]
    Completions(Completions),
    #[command(after_help = "Example:\n  evictd-batch man evictd-batch-simulate | man -l -")]
    Man(ManualArguments),
}

impl Cli {
    /// Runs the subcommand.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Controllers(arguments) => arguments.run(),
            Command::Reconcile(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.print(Self::command()),
            Command::Man(arguments) => arguments.print(&Manual::new(Self::command())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
