//! `evictd report`: what this node went through, from the history of its decisions.

mod page;

use super::daemon::Daemon;
use super::history::{latest, problem, records};
use clap::Args;
use evictd_command::{Failure, PageOutput, warn};
use evictd_decision::report::Report;
use evictd_kernel::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const EXAMPLE: &str = "Example:
  evictd report
  evictd report --since 24h -o html > report.html

In a dry run it shows what evictd would have done, and which pods a kubelet
would have chosen for the same figures.";

/// What this node went through: evictions by owner and signal, pods above their requests, and what a kubelet would have chosen.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The time before now that is reported, such as 24h or 7d.
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = humantime::parse_duration)]
    since: Duration,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: PageOutput,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let all = latest(records(self.daemon.get("/v1/history")?));
        if let Some(problem) = problem(&self.daemon.get("/v1/status")?) {
            warn("evictd", &problem);
        }
        let until = Clock::start().now();
        let since = SignedDuration::try_from(self.since).unwrap_or(SignedDuration::MAX);
        let since = until.saturating_sub(since).unwrap_or(Timestamp::MIN);
        let report = Report::of(&all, since, until);
        self.output.print(&report, page::page, page::html)
    }
}
