//! The command line, with a file for each subcommand.

mod admit;
mod aliases;
mod cluster;
mod compat;
mod connection;
mod controllers;
mod convert;
mod create_command;
mod credentials;
mod demo;
mod extender;
mod job;
mod kind;
mod manifest_file;
mod manifests;
mod named;
mod queue;
mod reconcile;
mod session_file;
mod simulate;
mod top;
mod webhook;
mod why;
mod workflow;

pub use aliases::Alias;

use clap::{CommandFactory, Parser, Subcommand};
use evictd_command::{Completions, Failure, Manual, ManualArguments};

const FILES: [(&str, &str); 1] = [(
    "$KUBECONFIG, ~/.kube/config",
    "The credentials and the address of the cluster.",
)];

/// Jobs, pod groups and queues of Volcano: controllers, webhook and command line.
#[derive(Debug, Parser)]
#[command(name = "evictd-batch", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Simulate(simulate::Arguments),
    Why(why::Arguments),
    Top(top::Arguments),
    Job(job::Arguments),
    Queue(queue::Arguments),
    #[command(name = "cronjob")]
    CronJob(workflow::CronJobs),
    #[command(name = "jobflow")]
    JobFlow(workflow::JobFlows),
    #[command(name = "jobtemplate")]
    JobTemplate(workflow::JobTemplates),
    Admit(admit::Arguments),
    Convert(convert::Arguments),
    Crds(manifests::Definitions),
    Policies(manifests::Policies),
    Controllers(controllers::Arguments),
    Demo(demo::Arguments),
    Reconcile(reconcile::Arguments),
    Webhook(Box<webhook::Arguments>),
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
            Command::Simulate(arguments) => arguments.run(),
            Command::Why(arguments) => arguments.run(),
            Command::Top(arguments) => arguments.run(),
            Command::Job(arguments) => arguments.run(),
            Command::Queue(arguments) => arguments.run(),
            Command::CronJob(arguments) => arguments.run(),
            Command::JobFlow(arguments) => arguments.run(),
            Command::JobTemplate(arguments) => arguments.run(),
            Command::Admit(arguments) => arguments.run(),
            Command::Convert(arguments) => arguments.run(),
            Command::Crds(manifests::Definitions {}) => manifests::Definitions::run(),
            Command::Policies(manifests::Policies {}) => manifests::Policies::run(),
            Command::Controllers(arguments) => arguments.run(),
            Command::Demo(arguments) => arguments.run(),
            Command::Reconcile(arguments) => arguments.run(),
            Command::Webhook(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.print(Self::command()),
            Command::Man(arguments) => arguments.print(&Manual::new(Self::command()).files(&FILES)),
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
