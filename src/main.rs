//! `evictd`, the node agent and its command line.

mod cli;

use cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match evictd_command::parse::<Cli>().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd"),
    }
}
