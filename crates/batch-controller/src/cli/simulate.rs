//! `evictd-batch simulate`: one session of the scheduler on a file, or jobs that arrive over time.

mod generate;
mod page;
mod trace;

use super::compat::CompatArg;
use clap::Args;
use evictd_batch::compat::Compat;
use evictd_batch::conf::ConfError;
use evictd_batch::session::{Objects, Setting, simulate};
use evictd_command::{Failure, Output, warn};
use evictd_document::{Document, LARGE};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLE: &str = r#"Examples:
  evictd-batch simulate session.json
  evictd-batch simulate session.json -o json --form volcano
  evictd-batch simulate --generate --jobs 10000 --seed 1 > trace.yaml
  evictd-batch simulate --trace trace.yaml --conf fifo.conf --svg fifo.svg
  evictd-batch simulate --trace trace.yaml --conf fifo.conf \
    --compare drf.conf --compare proportion.conf

A file holds a scheduler configuration and what the cluster holds:
  { "conf": "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n",
    "nodes": [ Nodes ], "queues": [ Queues ], "podGroups": [ PodGroups ],
    "pods": [ Pods, also those of other schedulers ],
    "priorityClasses": [ PriorityClasses ],
    "upstreamPodGroups": [ PodGroups of scheduling.k8s.io/v1beta1 ],
    "workloads": [ Workloads of the same ] }

Without conf the built-in one holds. Pods of the scheduler volcano whose annotation
scheduling.k8s.io/group-name names a PodGroup are its tasks; so are those whose
spec.schedulingGroup names one of scheduling.k8s.io. A configuration that
cannot be used is the answer { "confError": ... }, with exit code 2.

A trace holds nodes, queues and the jobs that come; times are in seconds:
  nodes:
  - {name: node, count: 8, allocatable: {cpu: 32, memory: 128Gi}}
  queues:
  - {name: research, weight: 2}
  jobs:
  - name: train
    queue: research
    owner: ada               # its namespace
    priority: 0
    arrival: 12
    duration: 600            # of each pod
    tasks:
    - {name: worker, replicas: 4, minAvailable: 4, requests: {cpu: 8}}
A queue can also have priority, deserved, capability, guarantee and reclaimable, a
trace terminationSeconds: how long a pod that has to go still holds its room."#;

/// Runs sessions of the scheduler without a cluster: one on a file, or as many as jobs need that arrive over time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The configuration and the objects, JSON or YAML; - is stdin.
    #[arg(required_unless_present_any = ["trace", "generate"], conflicts_with_all = ["trace", "generate"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    trace: trace::TraceArguments,
    #[command(flatten)]
    generate: generate::GenerateArguments,
    /// Decide as evictd, or exactly as Volcano.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd)]
    form: CompatArg,
    #[command(flatten)]
    output: Output,
}

/// The answer where the configuration cannot be used.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    conf_error: String,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let compat = self.form.compat();
        if self.generate.is_asked() {
            return self.generate.run(self.output);
        }
        match &self.file {
            Some(file) => self.session(file, compat),
            None => self.trace.run(compat, self.output),
        }
    }

    fn session(&self, file: &std::path::Path, compat: Compat) -> Result<(), Failure> {
        let document = Document::read(file, LARGE).map_err(Failure::input)?;
        let mut objects: Objects = document.parse().map_err(Failure::input)?;
        objects
            .pods
            .iter_mut()
            .for_each(evictd_pod::defaults::complete);
        let (outcome, warnings) = match simulate(&objects, &Setting::default(), compat) {
            Ok(answer) => answer,
            Err(error) => return self.refuse(&document, &error),
        };
        for warning in warnings {
            warn("evictd-batch", &warning);
        }
        self.output.print(&outcome, page::page)
    }

    /// The answer to a configuration that cannot be used. For people it stands on standard error.
    fn refuse(&self, document: &Document, error: &ConfError) -> Result<(), Failure> {
        if !self.output.is_for_people() {
            let refused = Refused {
                conf_error: error.to_string(),
            };
            self.output.print(&refused, |_, _| String::new())?;
        }
        let field = ("conf".to_owned(), error.to_string());
        Err(Failure::input(document.wrong_fields([field])))
    }
}
