//! `evictd-batch job view`: one job with its status and events.

use super::{events, page};
use crate::cli::kind::{EVENTS, JOBS};
use crate::cli::named::Named;
use clap::Args;
use evictd_command::{Failure, Output, warn};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

const EXAMPLE: &str = "Example:
  evictd-batch job view -n research -N train
  evictd-batch job view -n research -N train -o yaml";

/// Shows a job: its spec, status and events
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.named.required(
            "job name (specified by --name or -N) is mandatory to view a particular job",
        )?;
        view(&self.named, self.output)
    }
}

#[derive(Debug, Serialize)]
struct JobWithEvents {
    job: Value,
    events: Vec<events::Event>,
}

/// Prints the job (S6-147).
pub(in crate::cli) fn view(named: &Named, output: Output) -> Result<(), Failure> {
    let Named {
        namespace,
        name,
        connection,
    } = named;
    let cluster = connection.open()?;
    let job = cluster.get(&JOBS, namespace, name)?;
    let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
    // An earlier job of the same name has another UID.
    let fields = format!("involvedObject.name={name},involvedObject.uid={uid}");
    let events = cluster.select(&EVENTS, namespace, &fields);
    let events = events.unwrap_or_else(|failure| {
        // The job itself can still be shown.
        warn(
            "evictd-batch",
            &format!("the events are not shown: {failure}"),
        );
        Vec::new()
    });
    let job = JobWithEvents {
        events: events::sorted(events),
        job,
    };
    let typed = serde_json::from_value(job.job.clone())?;
    output.print(&job, |job, view| {
        let page = page::of(&job.job, &typed);
        format!(
            "{page}{}",
            events::table(&job.events, Timestamp::now(), view)
        )
    })
}
