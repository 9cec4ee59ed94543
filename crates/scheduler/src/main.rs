//! `evictd-scheduler`, the cluster's side and its command line.

use clap::Parser;
use evictd_scheduler::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("evictd-scheduler: {failure}");
            failure.exit_code()
        }
    }
}
