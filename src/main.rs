//! `evictd`, the node agent and its command line.

mod cli;

use clap::Parser;
use cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd"),
    }
}
