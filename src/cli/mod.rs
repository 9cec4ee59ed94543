//! The command line; one file per subcommand.

mod admit;
mod check_config;
mod daemon;
mod demo;
mod disk;
mod evidence;
mod explain;
mod history;
mod machine;
mod manual;
mod mistakes;
mod outcome;
mod pause;
mod rank;
mod ranking;
mod report;
mod resume;
mod run;
mod simulate;
mod status;
mod table;
mod top;
mod uninstall_node;
mod worker;

use clap::{CommandFactory, Parser, Subcommand};
use evictd_command::{Completions, Failure, ManualArguments};

/// Evicts the right pod before the kernel's OOM killer picks the wrong one.
#[derive(Debug, Parser)]
#[command(name = "evictd", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::Arguments),
    Simulate(simulate::Arguments),
    Run(run::Arguments),
    Demo(demo::Arguments),
    #[command(hide = true)]
    Worker(worker::Arguments),
    Admit(admit::Arguments),
    Status(status::Arguments),
    Rank(rank::Arguments),
    Disk(disk::Arguments),
    Top(top::Arguments),
    History(history::Arguments),
    Report(report::Arguments),
    Pause(pause::Arguments),
    Resume(resume::Arguments),
    CheckConfig(check_config::Arguments),
    UninstallNode(uninstall_node::Arguments),
    #[command(after_help = "Example:\n  evictd completions bash > /etc/bash_completion.d/evictd")]
    Completions(Completions),
    #[command(after_help = "Example:\n  evictd man evictd-status | man -l -")]
    Man(ManualArguments),
}

impl Cli {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Explain(arguments) => arguments.run(),
            Command::Simulate(arguments) => arguments.run(),
            Command::Run(arguments) => arguments.run(),
            Command::Demo(arguments) => arguments.run(),
            Command::Worker(arguments) => arguments.run(),
            Command::Admit(arguments) => arguments.run(),
            Command::Status(arguments) => arguments.run(),
            Command::Rank(arguments) => arguments.run(),
            Command::Disk(arguments) => arguments.run(),
            Command::Top(arguments) => arguments.run(),
            Command::History(arguments) => arguments.run(),
            Command::Report(arguments) => arguments.run(),
            Command::Pause(arguments) => arguments.run(),
            Command::Resume(arguments) => arguments.run(),
            Command::CheckConfig(arguments) => arguments.run(),
            Command::UninstallNode(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.print(Self::command()),
            Command::Man(arguments) => arguments.print(&manual::manual(Self::command())),
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

    #[test]
    fn every_help_fits_80_columns() {
        let mut commands: Vec<_> = Cli::command().get_subcommands().cloned().collect();
        commands.push(Cli::command());
        for command in commands {
            let mut command = command.term_width(80);
            let help = command.render_long_help().to_string();
            let long: Vec<&str> = help.lines().filter(|line| line.len() > 80).collect();
            assert!(long.is_empty(), "{}: {long:#?}", command.get_name());
            // A longer line of an example would be wrapped, and could not be copied.
            let examples = command.get_after_help().map(ToString::to_string);
            let examples = examples.unwrap_or_default();
            let wrapped: Vec<&str> = examples.lines().filter(|line| line.len() > 79).collect();
            assert!(wrapped.is_empty(), "{}: {wrapped:#?}", command.get_name());
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in Cli::command()
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
        {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
