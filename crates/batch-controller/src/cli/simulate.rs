//! `evictd-batch simulate`: one session of the scheduler, on a file.

mod page;

use clap::{Args, ValueEnum};
use evictd_batch::conf::ConfError;
use evictd_batch::session::{Form, Objects, Setting, simulate};
use evictd_command::{Failure, Output, warn};
use evictd_document::{Document, LARGE};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLE: &str = r#"Examples:
  evictd-batch simulate session.json
  evictd-batch simulate session.json -o json --form volcano

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
cannot be used is the answer { "confError": ... }, with exit code 2."#;

/// Runs one session of the scheduler without a cluster: what would be bound, evicted and written.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The configuration and the objects, JSON or YAML; - is stdin.
    file: PathBuf,
    /// Whose rules decide: ours, or exactly Volcano's.
    #[arg(long, value_enum, default_value_t = FormName::Evictd)]
    form: FormName,
    #[command(flatten)]
    output: Output,
}

/// Whose rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormName {
    /// Ours.
    Evictd,
    /// Volcano's, with all that it does by mistake.
    Volcano,
}

/// The answer where the configuration cannot be used.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    conf_error: String,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = Document::read(&self.file, LARGE).map_err(Failure::input)?;
        let objects: Objects = document.parse().map_err(Failure::input)?;
        let form = match self.form {
            FormName::Evictd => Form::default(),
            FormName::Volcano => Form::volcano(),
        };
        let (outcome, warnings) = match simulate(&objects, &Setting::default(), &form) {
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
