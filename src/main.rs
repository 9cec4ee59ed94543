//! `evictd`, the node agent and its command line.

use evictd::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match evictd_command::parse::<Cli>().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("evictd: {failure}");
            failure.exit_code()
        }
    }
}
