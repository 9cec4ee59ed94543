//! `evictd-batch`: the batch controllers, their webhook and command line.

use clap::Parser;
use evictd_batch_controller::cli::{Alias, Cli};
use std::{env, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let program = env::args_os().next().unwrap_or_default();
    let result = if Alias::is_used(Path::new(&program)) {
        Alias::parse().run()
    } else {
        evictd_command::parse::<Cli>().run()
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd-batch"),
    }
}
