//! `mpi`: the master knows its workers, and ssh is open everywhere (S6-058).

use super::arguments::Arguments;
use super::{Made, hosts, open_port, push_env};

const KNOWN: [(&str, bool); 3] = [("master", false), ("worker", false), ("port", false)];

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String]) {
    let arguments = Arguments::read(arguments, &KNOWN);
    let (master, worker) = (
        arguments.text("master", "master"),
        arguments.text("worker", "worker"),
    );
    let port = arguments.number("port", 22);
    let job = made.job;
    let is_master = made.task.name == master;
    let workers = job.spec.tasks.iter().find(|task| task.name == worker);
    if is_master && workers.is_none() {
        return;
    }
    let workers = workers.filter(|_| is_master);
    let workers = workers.map(|task| hosts::full(job, task).join(","));
    made.spec.each_container(|container| {
        open_port(container, "mpijob-port", port);
        if let Some(workers) = &workers {
            push_env(container, "MPI_HOST", workers);
        }
    });
}
