//! The names of Volcano's small programs: a link `vsub` to `evictd-batch` runs a job (S6-149). With these names -n is the name
//! and -N the namespace.

use super::connection::Connection;
use super::job::list::{Filter, list};
use super::job::run::Simple;
use super::job::view::view;
use super::named::Named;
use super::queue;
use super::queue::Columns;
use anyhow::anyhow;
use clap::{Args, CommandFactory, Parser};
use evictd_command::{Failure, Output};
use std::{env, path::Path};

/// The programs.
#[derive(Debug, Parser)]
#[command(multicall = true, version)]
pub enum Alias {
    /// Runs a job of one task and one container
    Vsub(Submission),
    /// Deletes a job with its pods
    Vcancel(OneJob),
    /// Suspends a job: its pods are deleted, and it can be resumed
    Vsuspend(OneJob),
    /// Resumes a suspended job
    Vresume(OneJob),
    /// Shows a job, or lists the jobs of a namespace
    Vjobs(Jobs),
    /// Shows a queue, or lists all queues
    Vqueues(Queues),
}

/// The options that name one job.
#[derive(Debug, Args)]
#[command(
    mut_arg("namespace", |option| option.short('N')),
    mut_arg("name", |option| option.short('n'))
)]
pub struct OneJob {
    #[command(flatten)]
    named: Named,
}

/// The options of `vsub`.
#[derive(Debug, Args)]
#[command(
    mut_arg("name", |option| option.short('n')),
    mut_arg("image", |option| option.default_value(env_or("VOLCANO_DEFAULT_IMAGE", "busybox"))),
    mut_arg("scheduler", |option| option.default_value(env_or("VOLCANO_SCHEDULER_NAME", "volcano")))
)]
pub struct Submission {
    /// The namespace of the job.
    #[arg(
        short = 'N',
        long,
        value_name = "NAMESPACE",
        default_value = env_or("VOLCANO_DEFAULT_JOB_NAMESPACE", "default")
    )]
    namespace: String,
    #[command(flatten)]
    simple: Simple,
    /// The command of the container, split into words as in a shell. Default: the command of the image.
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

/// The value of an environment variable, or `default` if it is unset or empty.
fn env_or(variable: &str, default: &'static str) -> &'static str {
    let value = env::var(variable).ok().filter(|value| !value.is_empty());
    // clap keeps defaults for the life of the process. This is called once for each option.
    value.map_or(default, |value| value.leak())
}

/// The options of `vjobs`.
#[derive(Debug, Args)]
pub struct Jobs {
    #[command(flatten)]
    named: OneJob,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    output: Output,
}

/// The options of `vqueues`.
#[derive(Debug, Args)]
pub struct Queues {
    #[command(flatten)]
    named: queue::Named,
    #[command(flatten)]
    output: Output,
}

impl Alias {
    /// Whether the program was started under one of these names. `program` is argument 0.
    pub fn is_used(program: &Path) -> bool {
        let name = program.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| Self::command().find_subcommand(name).is_some())
    }

    /// Runs the program of that name.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Vsub(submission) => submission.run(),
            Self::Vcancel(OneJob { named }) => {
                named.delete("cancel", "job name is mandatory to cancel a particular job")
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
        let words = shlex::split(&self.command).ok_or_else(|| {
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
    fn s6_149_the_program_has_six_names_of_volcano() {
        Alias::command().debug_assert();
        for name in ["vsub", "vcancel", "vsuspend", "vresume", "vjobs", "vqueues"] {
            assert!(Alias::is_used(&Path::new("/usr/bin").join(name)), "{name}");
        }
        for other in ["evictd-batch", "kubectl-evictd_batch", "", "/usr/bin/"] {
            assert!(!Alias::is_used(Path::new(other)), "{other}");
        }
    }
}
