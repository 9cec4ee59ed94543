//! `evictd-batch job suspend` and `resume`: stops a job so that it can be resumed, and starts it again.

use super::Named;
use crate::cli::issue::issue;
use crate::cli::kind::{JOBS, required};
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const SUSPEND: &str = "Example:
  evictd-batch job suspend -n research -N train";
const RESUME: &str = "Example:
  evictd-batch job resume -n research -N train";

/// Stops a job: its pods are deleted, and it can be resumed
///
/// A Command `AbortJob` is made. The controllers delete it and then carry it out, so that it is carried out once.
#[derive(Debug, Args)]
#[command(after_help = SUSPEND)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
}

/// Starts a job again that was stopped
///
/// A Command `ResumeJob` is made. The controllers delete it and then carry it out, so that it is carried out once.
#[derive(Debug, Args)]
#[command(after_help = RESUME)]
pub(super) struct ResumeArguments {
    #[command(flatten)]
    named: Named,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.named.suspend()
    }
}

impl ResumeArguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.named.resume()
    }
}

impl Named {
    /// S6-147.
    pub(in crate::cli) fn suspend(&self) -> Result<(), Failure> {
        self.ask_for(
            "AbortJob",
            "job name is mandatory to suspend a particular job",
        )
    }

    /// S6-147.
    pub(in crate::cli) fn resume(&self) -> Result<(), Failure> {
        self.ask_for(
            "ResumeJob",
            "job name is mandatory to resume a particular job",
        )
    }

    /// Makes the Command for this action; `otherwise` is said where no job is named.
    fn ask_for(&self, action: &str, otherwise: &'static str) -> Result<(), Failure> {
        let name = required(&self.name, otherwise)?;
        let cluster = self.connection.open()?;
        let told = issue(&cluster, &JOBS, &self.namespace, name, action)?;
        write_to_stdout(&told)
    }
}
