//! `evictd-scheduler explain`: one scheduling attempt for a pod, with the verdict and the scores of each node.

use super::input::Input;
use crate::attempt::Case;
use crate::configuration;
use crate::dump::Nominations;
use crate::explain::{Answer, html, page};
use clap::Args;
use evictd_command::{Failure, PageOutput, warn};
use evictd_scheduling::CustomPlugin;
use std::path::PathBuf;

const EXAMPLE: &str = concat!(
    "Example:
  evictd-scheduler dump --context prod > cluster.json
  evictd-scheduler explain --cluster cluster.json --pod pending.yaml
  evictd-scheduler explain --context prod --pod shop/checkout

Instead of dump, which writes the kinds that the server has:
",
    super::kubectl_get!()
);

/// Shows which node a pod would get, the verdict and the scores of each node, and the changes that would make the pod fit.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// A KubeSchedulerConfiguration with the profile that the pod names. Default: kube-scheduler's.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: PageOutput,
}

impl Arguments {
    pub(super) fn run(self, plugins: &[CustomPlugin]) -> Result<(), Failure> {
        let (loaded, pod) = self.input.read(true, Nominations::All)?;
        let read = |path| configuration::read(path, plugins);
        let config = self.config.as_deref().map(read).transpose();
        let config = config?.unwrap_or_default();
        let mut case = Case::new(loaded, pod, &config, plugins).map_err(Failure::input)?;
        let answer = Answer::new(&mut case)?;
        for warning in &answer.warnings {
            warn("evictd-scheduler", warning);
        }
        self.output.print(&answer, page, html)
    }
}
