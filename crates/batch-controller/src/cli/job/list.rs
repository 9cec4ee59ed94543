//! `evictd-batch job list`: lists jobs.

use crate::cli::connection::Connection;
use crate::cli::kind::JOBS;
use clap::Args;
use evictd_batch_objects::Job;
use evictd_command::{Column, Failure, Output, Table, View};
use evictd_pod::wire::Time;
use jiff::Timestamp;
use serde::Serialize;

const EXAMPLE: &str = "Example:
  evictd-batch job list -n research -q gold
  evictd-batch job list --all-namespaces -o json";

/// The label with the type of a job, which users set.
const JOB_TYPE: &str = "volcano.sh/job-type";

/// Lists the jobs of a namespace
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The namespace.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Only jobs of this queue.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    queue: String,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Filter {
    /// Only jobs of this scheduler.
    #[arg(
        short = 'S',
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    scheduler: String,
    /// Only jobs whose name contains this text.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Jobs of all namespaces.
    #[arg(long)]
    all_namespaces: bool,
}

impl Filter {
    fn matches(&self, job: &Job) -> bool {
        (self.scheduler.is_empty() || self.scheduler == job.spec.scheduler_name)
            && job.metadata.name.contains(&self.selector)
    }
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let of_queue = |job: &Job| self.queue.is_empty() || self.queue == job.spec.queue;
        let filter = &self.filter;
        list(
            &self.connection,
            &self.namespace,
            filter,
            of_queue,
            self.output,
        )
    }
}

/// A row of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobRow {
    namespace: String,
    name: String,
    creation: Option<Timestamp>,
    phase: String,
    job_type: String,
    queue: String,
    replicas: i64,
    min: i32,
    pending: i32,
    running: i32,
    succeeded: i32,
    failed: i32,
    unknown: i32,
    retry_count: i32,
}

/// Prints the jobs that match both filters (S6-146).
pub(in crate::cli) fn list(
    connection: &Connection,
    namespace: &str,
    filter: &Filter,
    also: impl Fn(&Job) -> bool,
    output: Output,
) -> Result<(), Failure> {
    let all_namespaces = filter.all_namespaces;
    let namespace = if all_namespaces { "" } else { namespace };
    let jobs: Vec<Job> = connection.open()?.list(&JOBS, namespace)?;
    let rows: Vec<JobRow> = jobs
        .into_iter()
        .filter(|job| filter.matches(job) && also(job))
        .map(row)
        .collect();
    output.print(&rows, |rows, view| table(rows, all_namespaces, view))
}

fn row(job: Job) -> JobRow {
    let job_type = job
        .metadata
        .labels
        .get(JOB_TYPE)
        .filter(|label| !label.is_empty());
    let status = job.status;
    let replicas = job.spec.tasks.iter().map(|task| i64::from(task.replicas));
    JobRow {
        // The type that vcctl shows for jobs without the label.
        job_type: job_type.unwrap_or("Batch").to_owned(),
        namespace: job.metadata.namespace.to_string(),
        name: job.metadata.name,
        creation: job.metadata.creation_timestamp.map(Time::timestamp),
        phase: status.state.phase.to_string(),
        queue: job.spec.queue,
        replicas: replicas.sum(),
        min: status.min_available,
        pending: status.pending,
        running: status.running,
        succeeded: status.succeeded,
        failed: status.failed,
        unknown: status.unknown,
        retry_count: status.retry_count,
    }
}

fn table(jobs: &[JobRow], all_namespaces: bool, view: View) -> String {
    if jobs.is_empty() {
        return "No resources found".to_owned();
    }
    // In a file or a pipe the columns have the widths of vcctl, for scripts that cut by position.
    let longest = |cell: fn(&JobRow) -> &str, heading: &str| {
        let lengths = jobs.iter().map(|job| cell(job).len());
        lengths.fold(heading.len(), usize::max) + 3
    };
    let mut columns = vec![
        Column::name("Name", 13).filled(longest(|job| &job.name, "Name")),
        Column::words("Creation", 4).filled(15),
        Column::words("Phase", 12).filled(12),
        Column::words("JobType", 1).filled(12),
        Column::figure("Replicas", 8).filled(12),
        Column::figure("Min", 7).filled(6),
        Column::figure("Pending", 10).filled(10),
        Column::figure("Running", 11).filled(10),
        Column::figure("Succeeded", 6).filled(12),
        Column::figure("Failed", 9).filled(10),
        Column::figure("Unknown", 2).filled(12),
        Column::figure("RetryCount", 3).filled(10),
    ];
    if all_namespaces {
        let width = longest(|job| &job.namespace, "Namespace");
        columns.insert(0, Column::name("Namespace", 13).filled(width));
    }
    let rows = jobs.iter().map(|job| {
        let day = job
            .creation
            .map(|time| time.strftime("%Y-%m-%d").to_string());
        let mut cells = vec![
            job.name.clone(),
            day.unwrap_or_default(),
            job.phase.clone(),
            job.job_type.clone(),
            job.replicas.to_string(),
            job.min.to_string(),
            job.pending.to_string(),
            job.running.to_string(),
            job.succeeded.to_string(),
            job.failed.to_string(),
            job.unknown.to_string(),
            job.retry_count.to_string(),
        ];
        if all_namespaces {
            cells.insert(0, job.namespace.clone());
        }
        cells
    });
    Table::new(columns, rows).shown(view)
}
