//! `evictd-batch job suspend`: stops a job so that it can be resumed.

use super::Named;
use crate::cli::connection::Connection;
use crate::cli::issue::issue;
use crate::cli::kind::{JOBS, required};
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const EXAMPLE: &str = "Example:
  evictd-batch job suspend -n research -N train";

/// Stops a job: its pods are deleted, and it can be resumed
///
/// A Command `AbortJob` is made. The controllers delete it and then carry it out, so that it is carried out once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let named = self.named;
        suspend(&named.connection, &named.namespace, &named.name)
    }
}

/// Makes the Command (S6-147).
pub(in crate::cli) fn suspend(
    connection: &Connection,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let name = required(name, "job name is mandatory to suspend a particular job")?;
    let told = issue(&connection.open()?, &JOBS, namespace, name, "AbortJob")?;
    write_to_stdout(&told)
}
