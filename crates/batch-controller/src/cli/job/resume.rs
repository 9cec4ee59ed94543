//! `evictd-batch job resume`: starts a job again that was stopped.

use super::Named;
use crate::cli::connection::Connection;
use crate::cli::issue::issue;
use crate::cli::kind::{JOBS, required};
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const EXAMPLE: &str = "Example:
  evictd-batch job resume -n research -N train";

/// Starts a job again that was stopped
///
/// A Command `ResumeJob` is made. The controllers delete it and then carry it out, so that it is carried out once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let named = self.named;
        resume(&named.connection, &named.namespace, &named.name)
    }
}

/// Makes the Command (S6-147).
pub(in crate::cli) fn resume(
    connection: &Connection,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let name = required(name, "job name is mandatory to resume a particular job")?;
    let told = issue(&connection.open()?, &JOBS, namespace, name, "ResumeJob")?;
    write_to_stdout(&told)
}
