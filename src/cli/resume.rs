//! `evictd resume`: ends a pause.

use super::{daemon::Daemon, pause::sentences};
use clap::Args;
use evictd_command::{Failure, Output};
use serde_json::json;

const EXAMPLE: &str = "Example:
  evictd resume
  kubectl annotate node NODE evictd.dev/paused-   # if an annotation began it";

/// Ends the pause that `evictd pause` began.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let answer = self.daemon.post("/v1/resume", &json!({}))?;
        self.output
            .print(&answer, |answer, view| view.sentences(sentences(answer)))
    }
}
