//! The program under the names of Volcano's short programs: a link `vsub` to `evictd-batch` runs a job (S6-149). There -n is
//! the name and -N the namespace.

use super::connection::Connection;
use super::job;
use super::job::list::{Filter, list};
use super::job::run::Simple;
use super::job::view::view;
use super::queue;
use super::queue::Columns;
use anyhow::anyhow;
use clap::{Args, CommandFactory, Parser};
use evictd_command::{Failure, Output};
use std::{env, path::Path};

/// Volcano's short programs.
#[derive(Debug, Parser)]
#[command(multicall = true, version)]
pub enum Short {
    /// Runs a job of one task and one container
    Vsub(Submission),
    /// Deletes a job with its pods
    Vcancel(OneJob),
    /// Stops a job: its pods are deleted, and it can be resumed
    Vsuspend(OneJob),
    /// Starts a job again that was stopped
    Vresume(OneJob),
    /// One job, or the jobs of a namespace
    Vjobs(Jobs),
    /// One queue, or all
    Vqueues(Queues),
}

/// One job.
#[derive(Debug, Args)]
#[command(
    mut_arg("namespace", |own| own.short('N')),
    mut_arg("name", |own| own.short('n'))
)]
pub struct OneJob {
    #[command(flatten)]
    named: job::Named,
}

/// A job to run.
#[derive(Debug, Args)]
#[command(
    mut_arg("name", |own| own.short('n')),
    mut_arg("image", |own| own.default_value(of_environment("VOLCANO_DEFAULT_IMAGE", "busybox"))),
    mut_arg("scheduler", |own| own.default_value(of_environment("VOLCANO_SCHEDULER_NAME", "volcano")))
)]
pub struct Submission {
    /// The job's namespace.
    #[arg(
        short = 'N',
        long,
        value_name = "NAMESPACE",
        default_value = of_environment("VOLCANO_DEFAULT_JOB_NAMESPACE", "default")
    )]
    namespace: String,
    #[command(flatten)]
    simple: Simple,
    /// What the container runs, split into words as a shell does. Default: what its image says.
    #[arg(
        short,
        long,
        value_name = "COMMAND",
        default_value = "",
        hide_default_value = true
    )]
    command: String,
    #[command(flatten)]
    connection: Connection,
}

/// What a variable sets, or if it is unset or empty, `otherwise`. It is read once, and kept as long as the program runs.
fn of_environment(variable: &str, otherwise: &'static str) -> &'static str {
    let set = env::var(variable).ok().filter(|set| !set.is_empty());
    set.map_or(otherwise, |set| set.leak())
}

/// Jobs to show.
#[derive(Debug, Args)]
pub struct Jobs {
    #[command(flatten)]
    named: OneJob,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    output: Output,
}

/// Queues to show.
#[derive(Debug, Args)]
pub struct Queues {
    #[command(flatten)]
    named: queue::Named,
    #[command(flatten)]
    output: Output,
}

impl Short {
    /// Whether a program that was called so (argument 0) is one of them.
    pub fn is_called(called: &Path) -> bool {
        let name = called.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| Self::command().find_subcommand(name).is_some())
    }

    /// Does what the name says.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Vsub(submission) => submission.run(),
            Self::Vcancel(OneJob { named }) => {
                let otherwise = "job name is mandatory to cancel a particular job";
                named.delete("cancel", otherwise)
            }
            Self::Vsuspend(OneJob { named }) => named.suspend(),
            Self::Vresume(OneJob { named }) => named.resume(),
            Self::Vjobs(jobs) => jobs.run(),
            Self::Vqueues(queues) => queues.run(),
        }
    }
}

impl Submission {
    fn run(self) -> Result<(), Failure> {
        let words = shlex::split(&self.command);
        let words = words.ok_or_else(|| {
            Failure::Input(anyhow!("--command {}: a quote is not closed", self.command))
        })?;
        self.simple.run(&self.connection, &self.namespace, &words)
    }
}

impl Jobs {
    fn run(self) -> Result<(), Failure> {
        let named = &self.named.named;
        if !named.name.is_empty() {
            return view(named, self.output);
        }
        let (connection, namespace) = (&named.connection, &named.namespace);
        list(connection, namespace, &self.filter, |_| true, self.output)
    }
}

impl Queues {
    fn run(self) -> Result<(), Failure> {
        let queue::Named { name, connection } = &self.named;
        match name.as_str() {
            "" => queue::list::list(connection, Columns::Fewer, self.output),
            name => queue::get::get(connection, name, Columns::Fewer, self.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_149_six_names_are_known() {
        Short::command().debug_assert();
        for name in ["vsub", "vcancel", "vsuspend", "vresume", "vjobs", "vqueues"] {
            assert!(
                Short::is_called(&Path::new("/usr/bin").join(name)),
                "{name}"
            );
        }
        for other in ["evictd-batch", "kubectl-evictd_batch", "", "/usr/bin/"] {
            assert!(!Short::is_called(Path::new(other)), "{other}");
        }
    }
}
