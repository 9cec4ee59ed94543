//! `evictd-scheduler explain`: where a pod would go, why, and why not elsewhere.

use super::input::Input;
use crate::configuration;
use crate::explain::{Answer, Case, page};
use clap::Args;
use evictd_command::{Failure, Output, warn};
use evictd_scheduling::CustomPlugin;
use std::path::PathBuf;

const EXAMPLE: &str = "Example:
  kubectl get nodes,ns,pods,pdb,pc,svc,rc,rs,sts,pvc,pv,sc,csinodes,csidrivers,\\
csistoragecapacities,volumeattachments -A -o json > cluster.json
  evictd-scheduler explain --cluster cluster.json --pod pending.yaml
  evictd-scheduler explain --context prod --pod shop/checkout";

/// Where a pod would be placed, how every node was judged and scored, and what is in the way.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// A KubeSchedulerConfiguration; the profile that the pod names decides. Default: the one of kube-scheduler.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self, own: &[CustomPlugin]) -> Result<(), Failure> {
        let (loaded, pod) = self.input.read(true)?;
        let read = |path| configuration::read(path, own);
        let config = self.config.as_deref().map(read).transpose();
        let config = config.map_err(Failure::input)?.unwrap_or_default();
        let mut case = Case::new(loaded, pod, &config, own).map_err(Failure::input)?;
        let answer = Answer::new(&mut case)?;
        for warning in &answer.warnings {
            warn("evictd-scheduler", warning);
        }
        self.output.print(&answer, page)
    }
}
