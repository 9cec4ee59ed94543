//! `evictd demo`: a real eviction on a small node that is made for it and removed again.

use super::Failure;
use super::output::Output;
use crate::{
    clock::Clock,
    demo::{self, scenario::Scenario, scene::Stage},
};
use anyhow::anyhow;
use clap::Args;
use std::time::Duration;

const EXAMPLE: &str = "Example:
  evictd demo --scenario memory";

/// How long nothing happens at first.
const CALM: Duration = Duration::from_millis(300);

/// A real eviction, on a small node that is made for it and removed again; needs no cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// What is played
    #[arg(long, value_enum, default_value = "memory")]
    scenario: Scenario,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let clock = Clock::start();
        let stage = Stage::new(self.scenario, "real", clock.now());
        let report = runtime.block_on(demo::play(self.scenario, clock, &stage, CALM))?;
        self.output.print(&report, |report| format!("{report:?}"))?;
        if report.as_expected() {
            Ok(())
        } else {
            Err(Failure::from(anyhow!("not what was expected")))
        }
    }
}
