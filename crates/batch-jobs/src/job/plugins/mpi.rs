//! `mpi`: the master knows its workers, and ssh is open everywhere (S6-058).

use super::super::failure::RoundError;
use super::arguments::Arguments;
use super::hosts::Room;
use super::{Made, open_port, push_env};
use evictd_batch_objects::Job;

const KNOWN: [(&str, bool); 3] = [("master", false), ("worker", false), ("port", false)];

/// The master's name and the list of workers for its environment; `None` without a task of workers.
pub(super) fn workers(
    job: &Job,
    arguments: &[String],
) -> Result<Option<(String, String)>, RoundError> {
    let arguments = Arguments::read(arguments, &KNOWN);
    let worker = arguments.text("worker", "worker");
    let Some(task) = job.spec.tasks.iter().find(|task| task.name == worker) else {
        return Ok(None);
    };
    let workers = Room::new().full(job, task)?.join(",");
    let master = arguments.text("master", "master").to_owned();
    Ok(Some((master, workers)))
}

pub(super) fn on_pod(
    made: &mut Made<'_>,
    arguments: &[String],
    workers: Option<&(String, String)>,
) {
    let arguments = Arguments::read(arguments, &KNOWN);
    let port = arguments.number("port", 22);
    let is_master = made.task.name == arguments.text("master", "master");
    // A master without workers runs alone and needs no port.
    if is_master && workers.is_none() {
        return;
    }
    let workers = workers.filter(|_| is_master);
    made.spec.each_container(|container| {
        open_port(container, "mpijob-port", port);
        if let Some((_, workers)) = workers {
            push_env(container, "MPI_HOST", workers);
        }
    });
}
