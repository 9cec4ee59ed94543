//! `evictd-batch`: jobs, pod groups and queues.

use clap::Parser;
use evictd_batch_controller::cli::{Cli, Short};
use std::{env, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let called = env::args_os().next().unwrap_or_default();
    let done = if Short::is_called(Path::new(&called)) {
        Short::parse().run()
    } else {
        evictd_command::parse::<Cli>().run()
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd-batch"),
    }
}
