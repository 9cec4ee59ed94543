//! `evictd rank`: the pods in the order in which they would be evicted now.

use super::daemon::Daemon;
use super::ranking;
use super::table::{seconds, text};
use clap::Args;
use clap::builder::PossibleValuesParser;
use evictd_command::{Failure, Output, View};
use evictd_signals::Signal;
use serde_json::Value;

const EXAMPLE: &str = "Example:
  evictd rank
  evictd rank --signal nodefs.available -o json";

/// The pods in the order in which they would be evicted now, with every sort key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// Rank for this signal. Default: the one nearest to its threshold.
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

fn page(answer: &Value, view: View) -> String {
    let next = match &answer["next"] {
        Value::Null => "no pod would be evicted".to_owned(),
        next => format!("{} would be evicted next", text(next)),
    };
    let age = answer["ageSeconds"].as_f64().filter(|age| *age >= 1.0);
    let age = age.map(|age| format!(" (from figures up to {} old)", seconds(age)));
    let age = age.unwrap_or_default();
    let ranking = ranking::page(answer, view);
    let signal = text(&answer["signal"]);
    let head = view.sentence(&format!("For {signal}, {next}{age}."));
    format!("{head}\n\n{ranking}\n")
}
