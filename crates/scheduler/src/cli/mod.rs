//! The command line: one file a subcommand.

mod plan;

use clap::{Parser, Subcommand};
use evictd_command::Failure;

/// What kube-scheduler does to a cluster, worked out beforehand.
#[derive(Debug, Parser)]
#[command(name = "evictd-scheduler", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Arguments),
}

impl Cli {
    /// Does what was asked for.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Plan(arguments) => arguments.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
