//! `evictd-batch admit`: the decision of the webhook on one object, without a cluster.

use super::compat::CompatArg;
use clap::Args;
use evictd_batch_admission::{Answer, Question};
use evictd_command::{Failure, Output, View};
use evictd_document::{Document, LARGE};
use std::path::PathBuf;

const EXAMPLE: &str = r#"Example:
  evictd-batch admit question.json

The file holds the request of the API server, and the other objects that count:
  { "path": "/jobs/validate", "operation": "CREATE",
    "object": { "kind": "Job", ... }, "oldObject": { the object before an UPDATE },
    "name": "the queue of a DELETE",
    "queues": [ all queues ], "namespaces": [ with their annotations ],
    "flags": { "max-queue-depth": 5, "enable-root-queue-protection": true,
               "enable-queue-allocated-pods-check": false } }

Paths are /jobs, /queues, /pods and /podgroups, each with /mutate and /validate,
and /cronjobs/validate, /jobflows/validate, /hypernodes/validate."#;

/// Decides on an object as the webhook does, without a cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The request, JSON or YAML; - is stdin.
    file: PathBuf,
    /// Whose patch is shown: evictd's names the fields that it sets, Volcano's replaces all tasks of a job.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd, value_name = "FORM")]
    form: CompatArg,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = Document::read(&self.file, LARGE).map_err(Failure::input)?;
        let question: Question = document.parse().map_err(Failure::input)?;
        let answer = match self.form {
            CompatArg::Evictd => question.answer(),
            CompatArg::Volcano => question.answer_of_volcano(),
        };
        let answer = answer.map_err(|error| {
            let field = (error.field.to_owned(), error.problem);
            Failure::input(document.wrong_fields([field]))
        })?;
        self.output.print(&answer, page)
    }
}

fn page(answer: &Answer, _: View) -> String {
    let mut lines = vec![match &answer.message {
        None => "allowed".to_owned(),
        Some(message) => format!("denied: {message}"),
    }];
    let changes = answer.patch.iter();
    lines.extend(changes.map(|change| format!("{} = {}", change.path, change.value)));
    lines.join("\n")
}
