//! `evictd pause`: no pod is terminated for a while.

use super::{daemon::Daemon, table::moment};
use clap::Args;
use evictd_command::{Failure, Output};
use serde_json::{Value, json};
use std::time::Duration;

const EXAMPLE: &str = "Example:
  evictd pause --for 30m --reason 'moving the database'
  kubectl annotate node NODE evictd.dev/paused='moving the database'

The annotation does the same in a cluster, within a minute.";

/// Pauses evictions until `evictd resume`, or for a given time
///
/// Decisions are only published, as in a dry run. Terminations that have begun are finished. The pause survives a restart of the daemon, but not a reboot.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// How long, such as 90s, 30m or 2h; without it, until `evictd resume`.
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// The reason, shown wherever the pause is shown
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        // Rounded up, because half a second must not become no pause.
        let whole =
            |duration: Duration| duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        let asked = json!({ "seconds": self.duration.map(whole), "reason": self.reason });
        let answer = self.daemon.post("/v1/pause", &asked)?;
        self.output
            .print(&answer, |answer, view| view.sentences(sentences(answer)))
    }
}

/// The pause in force, and whether there is a problem with it.
pub(super) fn sentences(answer: &Value) -> Vec<String> {
    let paused = &answer["paused"];
    let in_force = if paused.is_null() {
        "The pause is over.".to_owned()
    } else {
        let until = paused["until"].as_str().and_then(|text| text.parse().ok());
        let until = until.map_or_else(String::new, |time| format!(", until {}", moment(time)));
        let by = match paused["by"].as_str() {
            // `evictd resume` cannot end this one: the annotation would begin it again.
            Some("annotation") => {
                " by this node's annotation (kubectl annotate node NODE evictd.dev/paused- ends it)"
            }
            _ => " (`evictd resume` ends it)",
        };
        format!("Paused{until}: no pod is terminated{by}.")
    };
    let problem = answer["notKept"].as_str();
    let problem = problem
        .map(|problem| format!("The pause will not survive a restart of the daemon: {problem}"));
    std::iter::once(in_force).chain(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_command::View;

    #[test]
    fn a_pause_and_its_problem_are_two_lines_without_an_escape() {
        for (answer, lines) in [
            (json!({ "paused": null }), 1),
            (json!({ "paused": { "by": "command" } }), 1),
            (json!({ "paused": null, "notKept": "no space left" }), 2),
        ] {
            let page = View::WHOLE.sentences(sentences(&answer));
            assert_eq!(page.lines().count(), lines, "{page}");
            assert!(!page.contains('\\'), "{page}");
        }
    }
}
