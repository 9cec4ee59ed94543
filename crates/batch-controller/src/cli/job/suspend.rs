//! `evictd-batch job suspend` and `resume`.

use crate::cli::create_command::create_command;
use crate::cli::kind::JOBS;
use crate::cli::named::Named;
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const SUSPEND: &str = "Example:
  evictd-batch job suspend -n research -N train";
const RESUME: &str = "Example:
  evictd-batch job resume -n research -N train";

/// Suspends a job: its pods are deleted, and it can be resumed
///
/// Creates a Command `AbortJob`. The controllers delete the Command and then carry it out, so that it runs at most once.
#[derive(Debug, Args)]
#[command(after_help = SUSPEND)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
}

/// Resumes a suspended job
///
/// Creates a Command `ResumeJob`. The controllers delete the Command and then carry it out, so that it runs at most once.
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
        self.create_command(
            "AbortJob",
            "job name is mandatory to suspend a particular job",
        )
    }

    /// S6-147.
    pub(in crate::cli) fn resume(&self) -> Result<(), Failure> {
        self.create_command(
            "ResumeJob",
            "job name is mandatory to resume a particular job",
        )
    }

    /// `missing_name` is the error without a name.
    fn create_command(&self, action: &str, missing_name: &'static str) -> Result<(), Failure> {
        let name = self.required(missing_name)?;
        let cluster = self.connection.open()?;
        let sentence = create_command(&cluster, &JOBS, &self.namespace, name, action)?;
        write_to_stdout(&sentence)
    }
}
