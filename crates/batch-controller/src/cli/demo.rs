//! `evictd-batch demo`: two queues and a gang, played on the sessions themselves.

mod picture;
mod play;

use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, Frames, Output, View};
use play::{Report, Scene};
use std::thread;
use std::time::Duration;

const EXAMPLE: &str = "Examples:
  evictd-batch demo
  evictd-batch demo -o json

Two queues of equal weight share four nodes of four cores. Research fills all
of them; then production brings a gang, for which reclaim takes as few pods as
will do; and a gang whose pods fit on no node waits as a whole. No cluster is
needed.

Exit codes: 0 what was expected happened, 1 otherwise, 2 bad usage";

/// How long each scene stays on a terminal.
const SCENE: Duration = Duration::from_millis(600);

/// Shows on a terminal how two queues share a cluster: reclaim, and gangs that start whole or wait.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let played = play::play()?;
        let frames = self.output.is_for_people().then(Frames::open).flatten();
        let shown = frames.is_some();
        if let Some(frames) = frames {
            show(frames, &played.scenes)?;
        }
        self.output.print(&played.report, |report, view| {
            let log = if shown { &[] } else { played.log() };
            picture::summary(report, log, view)
        })?;
        played.report.verdict()
    }
}

/// Draws one scene after the other, over it.
fn show(mut frames: Frames, scenes: &[Scene]) -> Result<(), Failure> {
    for scene in scenes {
        frames.show(&picture::page(scene, View::of_stdout()))?;
        thread::park_timeout(SCENE);
    }
    Ok(())
}

impl Report {
    fn verdict(&self) -> Result<(), Failure> {
        let wrong = self.checks.iter().filter(|check| !check.holds);
        let wrong: Vec<&str> = wrong.map(|check| check.what).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let told = wrong.join("; ");
        Err(anyhow!("this was expected and did not happen: {told}").into())
    }
}
