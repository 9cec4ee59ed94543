//! `evictd-batch simulate`: one session of the scheduler on a file, or a trace of jobs that arrive over time.

mod generate;
mod page;
mod trace;

use super::compat::CompatArg;
use super::extender::ExtenderFlag;
use super::session_file;
use anyhow::anyhow;
use clap::Args;
use evictd_batch::conf::{Conf, ConfError};
use evictd_batch::session::{Setting, simulate};
use evictd_batch_objects::Compat;
use evictd_command::{Failure, PageOutput, warn};
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

The file holds the configuration of the scheduler and the objects of the cluster:
  { "conf": "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n",
    "nodes": [ Nodes ], "queues": [ Queues ], "podGroups": [ PodGroups ],
    "pods": [ Pods, including those of other schedulers ],
    "priorityClasses": [ PriorityClasses ],
    "upstreamPodGroups": [ PodGroups of scheduling.k8s.io/v1beta1 ],
    "workloads": [ Workloads of the same ],
    "owners": [ ReplicaSets and StatefulSets of pods without a group ] }

Without conf the built-in configuration applies. Pods of the scheduler volcano
belong to the PodGroup in their annotation scheduling.k8s.io/group-name, or to the
one of scheduling.k8s.io in spec.schedulingGroup. The answer to an invalid
configuration is { "confError": ... }, with exit code 2.

A trace holds nodes, queues and jobs. Times are in seconds:
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
A queue can also have priority, deserved, capability, guarantee, reclaimable, parent
and affinity; nodes have labels, and the times at which they join and are lost (joins,
leaves); a job has annotations, and the time at which it is deleted (deleted); a task
has a nodeSelector. A trace can have terminationSeconds: how long an evicted pod still
uses its node, and groups of near nodes, to which networkTopology of a job refers:
  hyperNodes:
  - {name: rack, tier: 1, nodes: [node]}    # also tierName, hyperNodes"#;

/// Runs sessions of the scheduler without a cluster: one session on a file, or a trace of jobs that arrive over time.
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
    /// The rules of evictd, or exactly those of Volcano.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd)]
    form: CompatArg,
    #[command(flatten)]
    extender: ExtenderFlag,
    #[command(flatten)]
    output: PageOutput,
}

/// The answer to an invalid configuration.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvalidConf {
    conf_error: String,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let compat = self.form.compat();
        if self.generate.is_requested() {
            let output = self.output.without_html();
            let output = output.ok_or_else(|| {
                Failure::input(anyhow!(
                    "-o html: a generated trace is for programs; --trace shows its report in a browser"
                ))
            });
            return self.generate.run(output?);
        }
        match &self.file {
            Some(file) => self.session(file, compat),
            None => self.trace.run(compat, self.output),
        }
    }

    fn session(&self, file: &std::path::Path, compat: Compat) -> Result<(), Failure> {
        let document = Document::read(file, LARGE).map_err(Failure::input)?;
        // Pods in files may lack the defaults of the API server, which sessions rely on.
        let (mut objects, of_file) = session_file::read(&document)?;
        objects
            .pods
            .iter_mut()
            .for_each(evictd_pod::defaults::complete);
        if let Ok(conf) = Conf::parse("conf", &objects.conf) {
            self.extender.warn(&conf);
        }
        let setting = self.extender.setting(Setting::default());
        let (outcome, warnings) = match simulate(&objects, &setting, compat) {
            Ok(answer) => answer,
            Err(error) => return self.report_invalid_conf(&document, &error),
        };
        for warning in of_file.into_iter().chain(warnings) {
            warn("evictd-batch", &warning);
        }
        self.output.print(&outcome, page::page, page::html)
    }

    /// Prints the answer to an invalid configuration. A table is for people, who read the error on stderr.
    fn report_invalid_conf(&self, document: &Document, error: &ConfError) -> Result<(), Failure> {
        let output = self.output.without_html();
        if let Some(output) = output.filter(|output| !output.is_for_people()) {
            let answer = InvalidConf {
                conf_error: error.first.clone(),
            };
            output.print(&answer, |_, _| String::new())?;
        }
        let mistakes = error.invalid.mistakes.iter();
        let fields = mistakes.map(|mistake| ("conf".to_owned(), mistake.within_text()));
        Err(Failure::input(document.wrong_fields(fields)))
    }
}
