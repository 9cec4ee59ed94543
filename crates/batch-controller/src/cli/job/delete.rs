//! `evictd-batch job delete`: deletes a job.

use super::Named;
use crate::cli::connection::Connection;
use crate::cli::kind::{JOBS, required};
use clap::Args;
use evictd_command::{Failure, write_to_stdout};

const EXAMPLE: &str = "Example:
  evictd-batch job delete -n research -N train";

/// Deletes a job with its pods
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let named = self.named;
        let otherwise = "job name is mandatory to delete a particular job";
        let name = required(&named.name, otherwise)?;
        delete(&named.connection, &named.namespace, name)?;
        write_to_stdout(&format!("delete job {name} successfully"))
    }
}

/// Deletes the job (S6-147).
pub(in crate::cli) fn delete(
    connection: &Connection,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    connection.open()?.delete(&JOBS, namespace, name)
}
