//! `evictd rank`: the pods in the order in which they would go now.

use super::Failure;
use super::daemon::Daemon;
use super::output::Output;
use super::table::{quantity, table, text, yes};
use clap::Args;
use clap::builder::PossibleValuesParser;
use evictd_eviction::Signal;
use serde_json::Value;

const EXAMPLE: &str = "Example:
  evictd rank
  evictd rank --signal nodefs.available -o json";

/// The pods in the order in which they would go now, with every key that put them there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// Rank for this signal; without it, for the one nearest to its threshold.
    #[arg(long, value_name = "SIGNAL", value_parser = PossibleValuesParser::new(Signal::ALL.map(Signal::as_str)))]
    signal: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let asked = self
            .signal
            .map(|signal| format!("?signal={signal}"))
            .unwrap_or_default();
        let answer = self.daemon.get(&format!("/v1/ranking{asked}"))?;
        self.output.print(&answer, page)
    }
}

fn page(answer: &Value) -> String {
    let next = match &answer["next"] {
        Value::Null => "nobody would go".to_owned(),
        next => format!("{} would go next", text(next)),
    };
    let ranking = ranking(signal_of(answer), &answer["pods"]);
    format!("For {}, {next}.\n\n{ranking}\n", text(&answer["signal"]))
}

/// The signal that an answer is about.
pub(super) fn signal_of(answer: &Value) -> Option<Signal> {
    answer["signal"].as_str().and_then(Signal::parse)
}

/// The table of ranked pods.
pub(super) fn ranking(signal: Option<Signal>, pods: &Value) -> String {
    let pods = pods.as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = pods.iter().zip(1..).map(|(pod, place)| {
        vec![
            pod["rank"].as_u64().unwrap_or(place).to_string(),
            text(&pod["pod"]),
            yes(&pod["exceedsRequest"]),
            text(&pod["priority"]),
            quantity(signal, &pod["usage"]),
            quantity(signal, &pod["request"]),
            quantity(signal, &pod["overage"]),
            text(&pod["qos"]),
            notes(pod),
        ]
    });
    let headings = [
        ">#",
        "POD",
        "OVER REQUEST",
        ">PRIORITY",
        ">USAGE",
        ">REQUEST",
        ">OVERAGE",
        "QOS",
        "NOTES",
    ];
    table(&headings, rows)
}

fn notes(pod: &Value) -> String {
    let flags = [
        ("critical", "critical: never chosen"),
        ("protected", "protected: never chosen"),
        ("terminating", "terminating"),
        ("returnsToThisNode", "would come straight back"),
    ];
    let mut notes: Vec<&str> = flags
        .iter()
        .filter(|(key, _)| pod[key] == true)
        .map(|(_, note)| *note)
        .collect();
    notes.extend(pod["preference"].as_str());
    notes.extend(pod["why"].as_str());
    notes.join(", ")
}
