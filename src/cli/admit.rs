//! `evictd admit`: would this pod be let in here, and which pods would go for it.

use super::{Failure, output::Output};
use clap::Args;

const EXAMPLE: &str = "Example:
  kubectl get pods -A --field-selector spec.nodeName=node-1 -o json > pods.json
  evictd admit --pod coredns.yaml --pods pods.json --insufficient cpu=446m,memory=2Gi";

/// Would this pod be let in here; if not, why; if it is critical, which pods would go for it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.output.print(&"not yet", |text| (*text).to_owned())
    }
}
