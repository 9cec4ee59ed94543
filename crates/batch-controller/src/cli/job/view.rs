//! `evictd-batch job view`: one job, its status and what happened to it.

use super::{Named, events, page};
use crate::cli::kind::{EVENTS, JOBS, required};
use clap::Args;
use evictd_command::{Failure, Output, warn};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

const EXAMPLE: &str = "Example:
  evictd-batch job view -n research -N train
  evictd-batch job view -n research -N train -o yaml";

/// One job: its spec, its status and its events
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
        let otherwise =
            "job name (specified by --name or -N) is mandatory to view a particular job";
        required(&self.named.name, otherwise)?;
        view(&self.named, self.output)
    }
}

/// The job as it is stored, and its events.
#[derive(Debug, Serialize)]
struct Seen {
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
    let fields = format!("involvedObject.name={name},involvedObject.uid={uid}");
    let events = cluster.select(&EVENTS, namespace, &fields);
    let events = events.unwrap_or_else(|failure| {
        // The job is shown all the same.
        warn(
            "evictd-batch",
            &format!("its events are not shown: {failure}"),
        );
        Vec::new()
    });
    let seen = Seen {
        events: events::sorted(events),
        job,
    };
    let typed = serde_json::from_value(seen.job.clone())?;
    output.print(&seen, |seen, view| {
        let job = page::of(&seen.job, &typed);
        format!(
            "{job}{}",
            events::table(&seen.events, Timestamp::now(), view)
        )
    })
}
