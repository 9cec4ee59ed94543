//! `evictd-scheduler`, the cluster's side and its command line.

use evictd_scheduler::cli::Cli;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A dump leaves millions of small pieces behind. The C library's allocator tidies them up all at once when next it needs
/// something large, which takes ten times as long as the plan that needs it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match evictd_command::parse::<Cli>().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd-scheduler"),
    }
}
