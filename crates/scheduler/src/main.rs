//! `evictd-scheduler`: the command line of the preemption planner.

use evictd_scheduler::cli::Cli;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Loading a dump frees millions of small allocations. The C library's allocator merges them all when it next needs a large
/// one, which takes ten times as long as the plan.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match evictd_command::parse::<Cli>().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd-scheduler"),
    }
}
