//! `evictd-batch reconcile`: one step of the controllers on a file, without a cluster.

use super::compat::CompatArg;
use clap::Args;
use evictd_batch_jobs::reconcile::{JobCase, JobOutcome, QueueCase, QueueOutcome};
use evictd_batch_workflows::{WorkflowCase, WorkflowOutcome};
use evictd_command::{Failure, Output, View, printable_line};
use evictd_document::{Document, SMALL};
use evictd_hyper_nodes::{HyperNodeCase, HyperNodeOutcome};
use evictd_reconcile::Unanswerable;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::path::PathBuf;

const EXAMPLE: &str = r#"Examples:
  evictd-batch reconcile job.json
  evictd-batch reconcile queue.json -o json --form volcano

The file holds a request to a job,
  { "job": { a Job }, "pods": [ its pods ], "podGroup": { its PodGroup },
    "queue": { its Queue }, "priorityClasses": [ ... ],
    "request": { "event": "PodFailed", "exitCode": 137, "taskName": "worker",
                 "podName": "train-worker-0", "jobVersion": 0 } }
or to a queue:
  { "queues": [ Queues ], "podGroups": [ PodGroups ],
    "request": { "queueName": "research", "action": "CloseQueue" } }

Instead of a request the file can hold a watch event: "handler" (addPod,
updatePod, deletePod, updatePodGroup, updateJob; addQueue, updateQueue,
deleteQueue, addPodGroup, updatePodGroup, deletePodGroup) with "old" and "new".
The answer is then the requests that the event causes.

A file with a kind holds one sync of an object that creates jobs:
  { "kind": "cronjob", "now": "2026-03-02T10:05:00Z", "cronJob": { a CronJob },
    "jobs": [ Jobs ] }
  { "kind": "jobflow", "jobFlow": { a JobFlow }, "jobTemplates": [ ... ],
    "jobs": [ Jobs ] }
  { "kind": "jobtemplate", "namespace": "ml", "name": "train",
    "jobTemplates": [ ... ], "jobs": [ Jobs ] }
or one step for HyperNodes, the groups of near nodes:
  { "kind": "hypernode-count", "name": "rack-1", "hyperNodes": [ ... ],
    "nodes": [ Nodes ] }
  { "kind": "hypernode-discover", "nodes": [ Nodes ], "hyperNodes": [ ... ],
    "config": { "networkTopologyTypes": { "net": [ {"nodeLabel": "row"},
      {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"} ] } } }
  { "kind": "hypernode-reconcile", "source": "label", "found": [ HyperNodes ],
    "hyperNodes": [ ... ] }"#;

/// Runs one step of a controller on a file: a request, the requests that a watch event causes, or one sync.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The objects, and a request or a watch event, JSON or YAML; - is stdin.
    file: PathBuf,
    /// The rules of evictd, or exactly those of Volcano.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd)]
    form: CompatArg,
    #[command(flatten)]
    output: Output,
}

/// The fields that distinguish the kinds of files.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    queues: Option<IgnoredAny>,
    job: Option<IgnoredAny>,
    kind: Option<String>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = Document::read(&self.file, SMALL).map_err(Failure::input)?;
        let shape: Shape = document.parse().map_err(Failure::input)?;
        if shape.job.is_some() && shape.queues.is_some() {
            let message = "a file holds either a job or queues, and this one holds both".to_owned();
            let field = ("queues".to_owned(), message);
            return Err(Failure::input(document.wrong_fields([field])));
        }
        let unanswerable = |error: Unanswerable| {
            let field = (error.field.to_owned(), error.message);
            Failure::input(document.wrong_fields([field]))
        };
        if shape.kind.as_deref().is_some_and(HyperNodeCase::has_kind) {
            let case: HyperNodeCase = document.parse().map_err(Failure::input)?;
            let outcome = case.answer(self.form == CompatArg::Volcano);
            let outcome = outcome.map_err(|error| {
                let field = ("kind".to_owned(), error.to_string());
                Failure::input(document.wrong_fields([field]))
            })?;
            return self.output.print(&outcome, hyper_node_page);
        }
        if shape.kind.is_some() {
            let case: WorkflowCase = document.parse().map_err(Failure::input)?;
            let outcome = case.answer(self.form.compat(), Timestamp::UNIX_EPOCH);
            let outcome = outcome.map_err(unanswerable)?;
            return self.output.print(&outcome, workflow_page);
        }
        if shape.queues.is_some() {
            let case: QueueCase = document.parse().map_err(Failure::input)?;
            let outcome = case.answer().map_err(unanswerable)?;
            return self.output.print(&outcome, queue_page);
        }
        let case: JobCase = document.parse().map_err(Failure::input)?;
        let outcome = case
            // The answer to a file must not depend on the time of day.
            .answer(self.form.compat(), Timestamp::UNIX_EPOCH)
            .map_err(unanswerable)?;
        self.output.print(&outcome, job_page)
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn job_page(outcome: &JobOutcome, _: View) -> String {
    match outcome {
        JobOutcome::Requests { requests } => requests_page(requests),
        JobOutcome::Delayed {
            action,
            delay_seconds,
            ..
        } => format!("{action} after {delay_seconds} s"),
        JobOutcome::Taken(taken) => {
            let status = |key: &str| taken.status[key].to_string();
            let phase = taken.status["phase"].as_str().unwrap_or_default();
            let created: Vec<String> = taken.created_pods.keys().cloned().collect();
            let groups: Vec<String> = taken.pod_groups.keys().cloned().collect();
            let mut rows = vec![
                ("action", taken.action.clone()),
                ("phase", phase.to_owned()),
                ("version", status("version")),
                ("retries", status("retryCount")),
                ("pods kept", listed(&taken.kept_pods)),
                ("pods deleted", listed(&taken.deleted_pods)),
                ("pods created", listed(&created)),
                ("pod groups", listed(&groups)),
            ];
            rows.extend(taken.events.iter().map(|event| ("event", event.clone())));
            rows.extend(taken.error.iter().map(|error| ("error", error.clone())));
            rows_page(&rows)
        }
    }
}

fn queue_page(outcome: &QueueOutcome, _: View) -> String {
    match outcome {
        QueueOutcome::Requests { requests, .. } => requests_page(requests),
        QueueOutcome::Done {
            queues,
            enqueued,
            events,
            error,
            ..
        } => {
            let state = |queue: &Value| queue["state"].as_str().unwrap_or_default().to_owned();
            let rows = queues
                .iter()
                .map(|(name, queue)| (name.as_str(), state(queue)));
            let mut rows: Vec<(&str, String)> = rows.collect();
            rows.extend(enqueued.iter().map(|request| ("then", request.to_string())));
            rows.extend(events.iter().map(|event| ("event", event.clone())));
            rows.extend(error.iter().map(|error| ("error", error.clone())));
            rows_page(&rows)
        }
    }
}

fn hyper_node_page(outcome: &HyperNodeOutcome, _: View) -> String {
    match outcome {
        HyperNodeOutcome::Count { node_count: None } => "the count is right".to_owned(),
        HyperNodeOutcome::Count {
            node_count: Some(count),
        } => rows_page(&[("nodeCount", count.to_string())]),
        HyperNodeOutcome::Reconciled { writes, .. } => {
            let rows = writes.iter().map(|write| ("write", write.clone()));
            let rows: Vec<_> = rows.collect();
            if rows.is_empty() {
                return "nothing to write".to_owned();
            }
            rows_page(&rows)
        }
        HyperNodeOutcome::Discovered { found, ignored } => {
            let text = |one: &Value| {
                let members = one["members"].as_array().map_or(0, Vec::len);
                let name = one["name"].as_str().unwrap_or_default();
                format!("{name}, tier {}, members: {members}", one["tier"])
            };
            let rows = found.iter().map(|one| ("found", text(one)));
            let ignored = ignored.iter().map(|why| ("left out", why.clone()));
            let rows: Vec<_> = rows.chain(ignored).collect();
            if rows.is_empty() {
                return "nothing found".to_owned();
            }
            rows_page(&rows)
        }
    }
}

fn workflow_page(outcome: &WorkflowOutcome, _: View) -> String {
    let written = |status: &Option<Value>| {
        let written = status.as_ref().map(Value::to_string);
        (
            "status",
            written.unwrap_or_else(|| "not written".to_owned()),
        )
    };
    match outcome {
        WorkflowOutcome::Template { status } => rows_page(&[written(status)]),
        WorkflowOutcome::Jobs {
            created_jobs,
            deleted_jobs,
            error,
            events,
            requeue_after_seconds,
            status,
        } => {
            let name = |job: &Value| job["metadata"]["name"].as_str().map(str::to_owned);
            let created: Vec<String> = created_jobs.iter().filter_map(name).collect();
            let deleted: Vec<String> = deleted_jobs.iter().cloned().collect();
            let mut rows = vec![
                ("jobs created", listed(&created)),
                ("jobs deleted", listed(&deleted)),
                written(status),
            ];
            let again = requeue_after_seconds.iter();
            rows.extend(again.map(|seconds| ("again after", format!("{seconds} s"))));
            rows.extend(events.iter().map(|event| ("event", event.clone())));
            rows.extend(error.iter().map(|error| ("error", error.clone())));
            rows_page(&rows)
        }
    }
}

fn requests_page(requests: &[Value]) -> String {
    let rows = requests
        .iter()
        .map(|request| ("request", request.to_string()));
    match requests.len() {
        0 => "no requests".to_owned(),
        _ => rows_page(&rows.collect::<Vec<_>>()),
    }
}

fn rows_page(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    let lines = rows.iter().map(|(name, text)| {
        let (name, text) = (printable_line(name), printable_line(text));
        format!("{name:width$}  {text}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
