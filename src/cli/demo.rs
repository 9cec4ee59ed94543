//! `evictd demo`: a real eviction on a small node that is created for it and removed again.

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::{Failure, Output, warn};
use evictd_demo::{
    self as demo, DemoError, Report, Scenario, Screen, Stage, guardian, picture,
    summary::{below_picture, summary, verdict},
};
use evictd_kernel::clock::Clock;
use ratatui::{buffer::Buffer, layout::Rect};
use std::{fs, path::PathBuf, time::Duration};

const EXAMPLE: &str = "Example:
  evictd demo --scenario memory
  evictd demo --scenario soft -o json

A cgroup of 512 MiB stands for the node, and real processes in it are the
pods. The daemon's own loop runs on them. Everything is removed at the end,
also after a failure. Creating a cgroup needs root; without it the same
scenario is simulated, and the output says what is missing.

Exit codes: 0 only the expected pod was evicted, 1 otherwise, 2 bad usage";

/// How long nothing happens at the beginning and at the end, so that a person can look at the node. A program gets
/// no pause.
const CALM_FOR_PEOPLE: Duration = Duration::from_millis(1500);
const CALM: Duration = Duration::from_millis(300);
/// Size of a frame that is written to a file.
const PICTURE: Rect = Rect::new(0, 0, 100, 30);

/// Shows a real eviction on a small node that is created for it and removed again; needs no cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The scenario to play
    #[arg(long, value_enum, default_value = "memory")]
    scenario: Scenario,
    #[command(flatten)]
    output: Output,
    /// Write the last frame as SVG
    #[arg(long, value_name = "FILE", hide = true)]
    picture: Option<PathBuf>,
    /// Process id of the guardian
    #[arg(long = guardian::FLAG, value_name = "PID", hide = true)]
    guardian: Option<i32>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        if let Some(guardian) = self.guardian {
            guardian::be_guarded(guardian)?;
            return runtime.block_on(self.play());
        }
        match runtime.block_on(guardian::guard())? {
            0 => Ok(()),
            // The guarded process has printed the reason.
            code => std::process::exit(code.into()),
        }
    }

    async fn play(self) -> Result<(), Failure> {
        let mut stop = guardian::Stop::listen()?;
        let clock = Clock::start();
        let stage = Stage::new(self.scenario, clock.now());
        let people = self.output.is_for_people();
        let calm = if people { CALM_FOR_PEOPLE } else { CALM };
        let screen = people.then(|| Screen::start(stage.clone())).transpose()?;
        let play = demo::play(self.scenario, clock, &stage, calm, stop.asked());
        let played = Box::pin(play).await;
        self.end(&stage, screen, played)
    }

    fn end(
        &self,
        stage: &Stage,
        screen: Option<Screen>,
        played: Result<Report, DemoError>,
    ) -> Result<(), Failure> {
        if let Ok(report) = &played {
            stage.scene().verdict = Some((report.as_expected(), verdict(report)));
        }
        let mut pictured = false;
        if let Some(screen) = screen {
            // The terminal is given back before anything is printed, also before an error.
            pictured = screen.finish();
        } else if let Some(missing) = &stage.scene().missing {
            warn(
                "evictd",
                &format!("{missing}; the scenario is simulated instead"),
            );
        }
        let report = played?;
        if let Some(path) = &self.picture {
            let mut frame = Buffer::empty(PICTURE);
            picture::draw(&stage.scene(), PICTURE, &mut frame);
            fs::write(path, picture::svg::of(&frame))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let missing = stage.scene().missing.clone();
        self.output.print(&report, |report, view| {
            let lines = if pictured {
                below_picture(report)
            } else {
                summary(report, missing.as_deref())
            };
            view.sentences(lines.lines())
        })?;
        if report.as_expected() {
            Ok(())
        } else {
            Err(Failure::from(anyhow!("{}", verdict(&report))))
        }
    }
}
