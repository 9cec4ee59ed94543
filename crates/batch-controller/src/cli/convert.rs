//! `evictd-batch convert`: objects of Kueue as queues.

use crate::kueue::Conversion;
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, warn, write_to_stdout};
use evictd_document::{Document, LARGE, Loader, Source};
use std::path::PathBuf;

const EXAMPLE: &str = "Example:
  kubectl get clusterqueues,cohorts,localqueues,resourceflavors -A -o yaml \\
    > kueue.yaml
  evictd-batch convert kueue.yaml > queues.yaml

Cohorts become parent queues, nominal quotas become deserved amounts, borrowing
limits the capability, and what is never lent the guarantee. The fields without
a counterpart are named on standard error, each with its place.";

/// Converts queues and cohorts of Kueue into Volcano queues, and lists fields without a counterpart.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// Objects of Kueue, JSON or YAML; - is stdin. May be several.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut conversion = Conversion::default();
        for path in &self.files {
            let document = Document::read(path, LARGE).map_err(Failure::input)?;
            let text = document.text().as_bytes();
            let name = document.name().to_owned();
            conversion.begin(&name);
            let mut loader = Loader::of_cluster(&mut conversion, false);
            loader
                .read(Source::new(name, text))
                .map_err(Failure::input)?;
            let read = loader.finish().map_err(Failure::input)?;
            let mut assumptions = read.assumptions;
            assumptions.ignore(&read.ignored, "");
            print(&assumptions.lines());
            print(&conversion.take_notes());
        }
        if conversion.count == 0 {
            let message = "no object of kueue.x-k8s.io is in the input";
            return Err(Failure::Input(anyhow!(message)));
        }
        let (queues, notes) = conversion.queues();
        print(&notes);
        for queue in queues {
            let text = serde_saphyr::to_string(&queue).map_err(anyhow::Error::from)?;
            write_to_stdout(&format!("---\n{}\n", text.trim_end()))?;
        }
        Ok(())
    }
}

fn print(warnings: &[String]) {
    for warning in warnings {
        warn("evictd-batch", warning);
    }
}
