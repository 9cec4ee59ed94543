//! `evictd-batch job delete`: deletes a job.

use super::Named;
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
        let otherwise = "job name is mandatory to delete a particular job";
        self.named.delete("delete", otherwise)
    }
}

impl Named {
    /// Deletes the job, and says so with Volcano's word for it; `otherwise` is said where no job is named (S6-147).
    pub(in crate::cli) fn delete(
        &self,
        word: &str,
        otherwise: &'static str,
    ) -> Result<(), Failure> {
        let name = required(&self.name, otherwise)?;
        let cluster = self.connection.open()?;
        cluster.delete(&JOBS, &self.namespace, name)?;
        write_to_stdout(&format!("{word} job {name} successfully"))
    }
}
