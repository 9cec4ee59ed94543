//! `evictd-batch demo`: two queues and two gangs, simulated with the sessions of the scheduler.

mod picture;
mod scenario;

use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, Frames, Output, View};
use scenario::{Report, Scene};
use std::thread;
use std::time::Duration;

const EXAMPLE: &str = "Examples:
  evictd-batch demo
  evictd-batch demo -o json

Two queues of equal weight share four nodes of four cores. Queue research fills
all of them. Then a gang arrives in queue production, and reclaim evicts no more
pods than the gang needs. A second gang, whose pods fit on no node, waits as a
whole. The demo needs no cluster.

Exit codes: 0 the expected happened, 1 something else happened, 2 bad usage";

/// How long a terminal shows a scene.
const SCENE_DURATION: Duration = Duration::from_millis(600);

/// Shows how two queues share a cluster: reclaim, and gangs that start as a whole or wait.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let recording = scenario::run()?;
        let frames = self.output.is_for_people().then(Frames::open).flatten();
        let is_shown = frames.is_some();
        if let Some(frames) = frames {
            show(frames, &recording.scenes)?;
        }
        self.output.print(&recording.report, |report, view| {
            // The last frame stays on the terminal, with its log.
            let log = if is_shown { &[] } else { recording.log() };
            picture::summary(report, log, view)
        })?;
        recording.report.verdict()
    }
}

/// Draws each scene over the previous one.
fn show(mut frames: Frames, scenes: &[Scene]) -> Result<(), Failure> {
    for scene in scenes {
        frames.show(&picture::page(scene, View::of_stdout()))?;
        thread::park_timeout(SCENE_DURATION);
    }
    Ok(())
}

impl Report {
    fn verdict(&self) -> Result<(), Failure> {
        let failed: Vec<&str> = self
            .checks
            .iter()
            .filter(|check| !check.holds)
            .map(|check| check.what)
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        let failed = failed.join("; ");
        Err(anyhow!("this was expected and did not happen: {failed}").into())
    }
}
