//! The command line: one file a subcommand.

mod batch_flags;
mod dump;
mod explain;
mod flags;
mod flagz;
mod ignored_flags;
mod input;
mod pending;
mod plan;
mod run;
mod secure_port;
mod simulate;
mod top;

/// The command that writes what every command here reads, without the kinds that older servers lack.
macro_rules! kubectl_get {
    () => {
        "  kubectl get nodes,ns,pods,pdb,pc,svc,rc,rs,sts,pvc,pv,sc,csinodes,csidrivers,\\
csistoragecapacities,volumeattachments,resourceclaims,resourceclaimtemplates,\\
resourceslices,deviceclasses,runtimeclasses,limitranges -A -o json > cluster.json
"
    };
}
use kubectl_get;

use clap::{CommandFactory, Parser, Subcommand};
use evictd_command::{Completions, Failure, Manual, ManualArguments};
use evictd_scheduling::CustomPlugin;

const FILES: [(&str, &str); 1] = [(
    "$KUBECONFIG, ~/.kube/config",
    "Access to the cluster that --context names.",
)];

/// A scheduler that decides as kube-scheduler does and explains each decision. Only `run` changes a cluster.
#[derive(Debug, Parser)]
#[command(name = "evictd-scheduler", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dump(dump::Arguments),
    Explain(explain::Arguments),
    Pending(pending::Arguments),
    Plan(plan::Arguments),
    Run(Box<run::Arguments>),
    Simulate(simulate::Arguments),
    Top(top::Arguments),
    #[command(
        after_help = "Example:\n  evictd-scheduler completions bash > /etc/bash_completion.d/evictd-scheduler"
    )]
    Completions(Completions),
    #[command(after_help = "Example:\n  evictd-scheduler man evictd-scheduler-plan | man -l -")]
    Man(ManualArguments),
}

impl Cli {
    /// Runs the subcommand.
    pub fn run(self) -> Result<(), Failure> {
        self.run_with(&[])
    }

    /// Runs the subcommand with further plugins, which the configurations of `run` and `explain` may name.
    pub fn run_with(self, plugins: &[CustomPlugin]) -> Result<(), Failure> {
        match self.command {
            Command::Dump(arguments) => arguments.run(),
            Command::Explain(arguments) => arguments.run(plugins),
            Command::Pending(arguments) => arguments.run(),
            Command::Plan(arguments) => arguments.run(),
            Command::Run(arguments) => arguments.run(plugins),
            Command::Simulate(arguments) => arguments.run(),
            Command::Top(arguments) => arguments.run(),
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
