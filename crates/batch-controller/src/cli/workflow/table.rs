//! The tables of cron jobs, flows and templates.

use evictd_batch_workflows::{CronJob, JobFlow, JobTemplate};
use evictd_command::{Column, Failure, Output, Table, View};
use evictd_pod::wire::{Metadata, Time};
use serde::Serialize;
use serde_json::{Value, json};

/// A kind of objects with its columns behind namespace, name and creation.
pub(super) trait Row {
    const COLUMNS: &'static [&'static str];

    fn metadata(&self) -> &Metadata;

    /// The fields by the keys of JSON, in the order of the columns.
    fn fields(&self) -> Vec<(&'static str, Value)>;
}

impl Row for CronJob {
    const COLUMNS: &'static [&'static str] = &["Schedule", "Suspend", "Active", "LastSchedule"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("schedule", json!(self.spec.schedule)),
            ("suspend", json!(self.spec.suspend)),
            ("active", json!(self.status.active.len())),
            ("lastSchedule", json!(self.status.last_schedule_time)),
        ]
    }
}

impl Row for JobFlow {
    const COLUMNS: &'static [&'static str] = &["Phase", "Flows", "Completed", "Failed"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let status = &self.status;
        vec![
            ("phase", json!(status.state.phase.to_string())),
            ("flows", json!(self.spec.flows.len())),
            ("completed", json!(status.completed_jobs.len())),
            ("failed", json!(status.failed_jobs.len())),
        ]
    }
}

impl Row for JobTemplate {
    const COLUMNS: &'static [&'static str] = &["Jobs"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let jobs = self.status.job_depends_on_list.len();
        vec![("jobs", json!(jobs))]
    }
}

#[derive(Debug, Serialize)]
struct Shown {
    namespace: String,
    name: String,
    creation: Option<jiff::Timestamp>,
    #[serde(flatten)]
    fields: serde_json::Map<String, Value>,
}

/// Prints the objects as a table, or all figures of the table as JSON or YAML.
pub(super) fn print<T: Row>(
    objects: &[T],
    all_namespaces: bool,
    output: Output,
) -> Result<(), Failure> {
    let rows: Vec<Shown> = objects.iter().map(shown).collect();
    output.print(&rows, |_, view| table(objects, all_namespaces, view))
}

fn shown<T: Row>(object: &T) -> Shown {
    let metadata = object.metadata();
    let fields = object.fields().into_iter();
    Shown {
        namespace: metadata.namespace.to_string(),
        name: metadata.name.clone(),
        creation: metadata.creation_timestamp.map(Time::timestamp),
        fields: fields.map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn table<T: Row>(objects: &[T], all_namespaces: bool, view: View) -> String {
    if objects.is_empty() {
        return "No resources found".to_owned();
    }
    let mut columns = vec![Column::name("Name", 13), Column::words("Creation", 4)];
    columns.extend(T::COLUMNS.iter().map(|column| Column::words(column, 8)));
    if all_namespaces {
        columns.insert(0, Column::name("Namespace", 13));
    }
    let rows = objects.iter().map(|object| {
        let shown = shown(object);
        let day = shown
            .creation
            .map(|time| time.strftime("%Y-%m-%d").to_string());
        let fields = object.fields().into_iter().map(|(_, value)| match value {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        });
        let mut cells = vec![shown.name, day.unwrap_or_default()];
        cells.extend(fields);
        if all_namespaces {
            cells.insert(0, shown.namespace);
        }
        cells
    });
    Table::new(columns, rows).shown(view)
}
