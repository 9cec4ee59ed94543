//! `evictd-batch`: jobs, pod groups and queues.

use evictd_batch_controller::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match evictd_command::parse::<Cli>().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd-batch"),
    }
}
