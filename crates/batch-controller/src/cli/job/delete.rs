//! `evictd-batch job delete`: deletes a job.

use crate::cli::kind::JOBS;
use crate::cli::named::Named;
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
        self.named
            .delete("delete", "job name is mandatory to delete a particular job")
    }
}

impl Named {
    /// Deletes the job, and prints that with Volcano's verb. `missing_name` is the error without a name (S6-147).
    pub(in crate::cli) fn delete(
        &self,
        verb: &str,
        missing_name: &'static str,
    ) -> Result<(), Failure> {
        let name = self.required(missing_name)?;
        let cluster = self.connection.open()?;
        cluster.delete(&JOBS, &self.namespace, name)?;
        write_to_stdout(&format!("{verb} job {name} successfully"))
    }
}
