//! The program under the names of Volcano's short programs: a link `vsub` to `evictd-batch` runs a job (S6-149). There -n is
//! the name and -N the namespace.

use super::connection::Connection;
use super::job::list::{Filter, list};
use super::job::run::{NO_NAME, Simple, Size, run};
use super::job::{delete::delete, resume::resume, suspend::suspend, view::view};
use super::kind::required;
use super::queue;
use super::queue::Columns;
use anyhow::anyhow;
use clap::{Args, CommandFactory, Parser};
use evictd_command::{Failure, Output, write_to_stdout};
use std::{env, path::Path};

/// Volcano's short programs.
#[derive(Debug, Parser)]
#[command(multicall = true, version)]
pub enum Short {
    /// Runs a job of one task and one container
    Vsub(Submission),
    /// Deletes a job with its pods
    Vcancel(Named),
    /// Stops a job: its pods are deleted, and it can be resumed
    Vsuspend(Named),
    /// Starts a job again that was stopped
    Vresume(Named),
    /// One job, or the jobs of a namespace
    Vjobs(Jobs),
    /// One queue, or all
    Vqueues(Queues),
}

/// One job.
#[derive(Debug, Args)]
pub struct Named {
    /// The job's namespace.
    #[arg(short = 'N', long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// The job.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    name: String,
    #[command(flatten)]
    connection: Connection,
}

/// A job to run.
#[derive(Debug, Args)]
pub struct Submission {
    /// The job's namespace.
    #[arg(
        short = 'N',
        long,
        value_name = "NAMESPACE",
        default_value_t = of_environment("VOLCANO_DEFAULT_JOB_NAMESPACE", "default")
    )]
    namespace: String,
    /// The job's name.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    name: String,
    /// The image of its container.
    #[arg(
        short,
        long,
        value_name = "IMAGE",
        default_value_t = of_environment("VOLCANO_DEFAULT_IMAGE", "busybox")
    )]
    image: String,
    /// The scheduler of its pods.
    #[arg(
        short = 'S',
        long,
        value_name = "NAME",
        default_value_t = of_environment("VOLCANO_SCHEDULER_NAME", "volcano")
    )]
    scheduler: String,
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
    size: Size,
    #[command(flatten)]
    connection: Connection,
}

/// What a variable sets, or if it is unset or empty, `otherwise`.
fn of_environment(variable: &str, otherwise: &str) -> String {
    let set = env::var(variable).ok().filter(|set| !set.is_empty());
    set.unwrap_or_else(|| otherwise.to_owned())
}

/// Jobs to show.
#[derive(Debug, Args)]
pub struct Jobs {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    output: Output,
}

/// Queues to show.
#[derive(Debug, Args)]
pub struct Queues {
    /// Only this queue.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    name: String,
    #[command(flatten)]
    connection: Connection,
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
            Self::Vcancel(named) => named.cancel(),
            Self::Vsuspend(Named {
                namespace,
                name,
                connection,
            }) => suspend(&connection, &namespace, &name),
            Self::Vresume(Named {
                namespace,
                name,
                connection,
            }) => resume(&connection, &namespace, &name),
            Self::Vjobs(jobs) => jobs.run(),
            Self::Vqueues(queues) => queues.run(),
        }
    }
}

impl Submission {
    fn run(self) -> Result<(), Failure> {
        required(&self.name, NO_NAME)?;
        let words = shlex::split(&self.command);
        let words = words.ok_or_else(|| {
            Failure::Input(anyhow!("--command {}: a quote is not closed", self.command))
        });
        let simple = Simple {
            command: words?,
            name: self.name,
            image: self.image,
            scheduler: self.scheduler,
            size: self.size,
        };
        run(
            &self.connection,
            &self.namespace,
            &simple.job(&self.namespace),
        )
    }
}

impl Named {
    fn cancel(self) -> Result<(), Failure> {
        let otherwise = "job name is mandatory to cancel a particular job";
        let name = required(&self.name, otherwise)?;
        delete(&self.connection, &self.namespace, name)?;
        write_to_stdout(&format!("cancel job {name} successfully"))
    }
}

impl Jobs {
    fn run(self) -> Result<(), Failure> {
        let Named {
            namespace,
            name,
            connection,
        } = &self.named;
        match name.as_str() {
            "" => list(connection, namespace, &self.filter, |_| true, self.output),
            name => view(connection, namespace, name, self.output),
        }
    }
}

impl Queues {
    fn run(self) -> Result<(), Failure> {
        match self.name.as_str() {
            "" => queue::list::list(&self.connection, Columns::Fewer, self.output),
            name => queue::get::get(&self.connection, name, Columns::Fewer, self.output),
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
