//! `evictd-batch convert`: objects of Kueue as queues.

use crate::kueue::Conversion;
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, warn, write_to_stdout};
use evictd_document::{DocumentError, Loader, ObjectsError, Source};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "Example:
  kubectl get clusterqueues,cohorts,localqueues,resourceflavors -A -o yaml \\
    > kueue.yaml
  evictd-batch convert kueue.yaml > queues.yaml

Cohorts become parent queues, nominal quotas become deserved amounts, borrowing
limits the capability, and what is never lent the guarantee. The fields without
a counterpart are named on standard error, each with its place.";

/// Converts the queues and cohorts of Kueue into queues of ours, and names what cannot be converted.
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
            let source = open(path).map_err(Failure::input)?;
            let name = source.name.clone();
            let mut loader = Loader::of_cluster(&mut conversion, false);
            loader
                .read(source)
                .map_err(ObjectsError::from)
                .map_err(Failure::input)?;
            let input = loader.finish().map_err(Failure::input)?;
            for (kind, count) in &input.ignored {
                warn("evictd-batch", &format!("{name}: {count} {kind} left out"));
            }
            for note in conversion.take_notes() {
                warn("evictd-batch", &format!("{name}{note}"));
            }
        }
        if conversion.count == 0 {
            let message = "no object of kueue.x-k8s.io is in the input";
            return Err(Failure::Input(anyhow!(message)));
        }
        for queue in conversion.queues() {
            let text = serde_saphyr::to_string(&queue).map_err(anyhow::Error::from)?;
            write_to_stdout(&format!("---\n{}\n", text.trim_end()))?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Source<Box<dyn Read>>, DocumentError> {
    if path == Path::new("-") {
        let name = "standard input".to_owned();
        let text = Box::new(io::stdin().lock());
        return Ok(Source { name, text });
    }
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok(Source {
            name,
            text: Box::new(file),
        }),
        Err(source) => Err(DocumentError::Read { name, source }),
    }
}
