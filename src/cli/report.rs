//! `evictd report`: a summary of the decisions in the history of this node, and how near it came to its thresholds.

mod near_misses;
mod page;

use super::daemon::Daemon;
use super::history::{latest, problem, records};
use clap::Args;
use evictd_command::{Failure, PageOutput, warn};
use evictd_decision::report::Report;
use evictd_kernel::clock::Clock;
use evictd_signals::near_misses::{Kept, NearReport};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

const EXAMPLE: &str = "Example:
  evictd report
  evictd report --since 24h -o html > report.html

In a dry run it shows what evictd would have done, how often a threshold was
nearly met, and which pods a kubelet would have chosen for the same figures.";

/// A summary of this node: evictions by owner and signal, near misses, time under conditions, pods above their requests, and what a
/// kubelet would have chosen.
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
        let kept = self.daemon.get("/v1/history")?;
        let problem = problem(&self.daemon.get("/v1/status")?);
        if let Some(problem) = &problem {
            warn("evictd", problem);
        }
        let until = Clock::start().now();
        let since = SignedDuration::try_from(self.since).unwrap_or(SignedDuration::MAX);
        let since = until.saturating_sub(since).unwrap_or(Timestamp::MIN);
        let near = self.daemon.get_if_served("/v1/near-misses")?;
        let whole = Whole {
            report: report(kept, problem, (since, until)),
            near: near_report(near.as_ref(), (since, until)),
        };
        self.output.print(&whole, page::page, page::html)
    }
}

/// All that the command prints.
#[derive(Debug, Serialize)]
struct Whole {
    #[serde(flatten)]
    report: Report,
    #[serde(flatten)]
    near: NearReport,
}

/// Empty for a daemon of another version, which has no answer or one that cannot be read.
fn near_report(kept: Option<&Value>, (since, until): (Timestamp, Timestamp)) -> NearReport {
    let kept = kept.and_then(|kept| Kept::deserialize(kept).ok());
    let kept = kept.unwrap_or_default();
    kept.report(since, until)
}

fn report(kept: Value, problem: Option<String>, (since, until): (Timestamp, Timestamp)) -> Report {
    let all = kept.as_array().map_or(0, Vec::len);
    let understood = records(kept);
    let not_understood = all - understood.len();
    Report {
        problem,
        not_understood,
        ..Report::of(&latest(understood), since, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_command::View;
    use serde_json::json;

    #[test]
    fn where_records_are_missing_nothing_says_that_no_decision_was_made() {
        let (since, until) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1_800_000_000));
        let until = until.unwrap();
        let page = |kept: Value, problem: Option<&str>| {
            let whole = Whole {
                report: report(kept, problem.map(str::to_owned), (since, until)),
                near: NearReport::default(),
            };
            page::page(&whole, View::WHOLE)
        };
        let empty = page(json!([]), None);
        assert!(empty.contains("no decision was made"), "{empty}");
        let later =
            json!({ "id": "1", "time": "2100-01-01T00:00:00Z", "kind": "hard", "signal": "x" });
        for (kept, problem, expected) in [
            (json!([]), Some("it is not open"), "it is not open"),
            (
                json!([{ "id": 1 }, 7]),
                None,
                "another version are not counted: 2",
            ),
            (json!([later]), None, "later than now are not counted: 1"),
        ] {
            let page = page(kept, problem);
            assert!(page.contains(expected), "{page}");
            assert!(page.contains("no decision is known"), "{page}");
        }
    }
}
