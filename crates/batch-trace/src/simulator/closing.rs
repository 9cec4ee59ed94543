//! The figures at the end.

use super::{JobState, Simulator};
use crate::report::{Fairness, QueueReport, Report, Spread, Timeline, Unfinished};
use crate::usage::Amounts;
use crate::wire::{Job, in_seconds};
use evictd_batch::session::Outcome;
use evictd_batch_objects::PodGroupConditionType;
use evictd_reconcile::Tone;
use std::collections::BTreeMap;

/// The figures so far.
pub(super) fn report(simulator: &Simulator<'_>) -> Report {
    let pairs = || simulator.trace.jobs.iter().zip(&simulator.jobs);
    let left = pairs().filter(|(_, state)| !state.ended && !state.deleted);
    let waits = |queue: Option<usize>| {
        let jobs = simulator.jobs.iter();
        let jobs = jobs.filter(|job| queue.is_none_or(|queue| job.queue == queue));
        Spread::of(jobs.filter_map(|job| job.wait).collect())
    };
    let queues = simulator.queues.iter().enumerate();
    let queues = queues.map(|(index, queue)| {
        let report = queue_report(simulator, index, waits(Some(index)));
        (queue.name.clone(), report)
    });
    let names: Vec<String> = simulator
        .queues
        .iter()
        .map(|queue| queue.name.clone())
        .collect();
    Report {
        jobs: simulator.jobs.len(),
        finished: simulator.ended,
        deleted: simulator.jobs.iter().filter(|job| job.deleted).count(),
        unfinished: left
            .map(|(job, state)| unfinished(simulator, job, state))
            .collect(),
        broken_off: simulator.broken_off,
        makespan_seconds: in_seconds(simulator.usage.lasted()),
        utilization: by_resource(simulator, |resource| simulator.usage.utilization(resource)),
        free_while_waiting: by_resource(simulator, |resource| simulator.usage.free(resource).all),
        reserved_while_waiting: by_resource(simulator, |resource| {
            simulator.usage.free(resource).reserved
        }),
        fairness: simulator
            .usage
            .fairness()
            .map(|(lasted, mean, p5)| Fairness {
                mean,
                p5,
                seconds: in_seconds(lasted),
            }),
        wait_seconds: waits(None),
        queues: queues.collect(),
        preempted_pods: simulator.jobs.iter().map(|job| job.preempted).sum(),
        reclaimed_pods: simulator.jobs.iter().map(|job| job.reclaimed).sum(),
        evicted_jobs: simulator
            .jobs
            .iter()
            .filter(|job| job.preempted + job.reclaimed > 0)
            .count(),
        work_seconds: by_resource(simulator, |resource| {
            unit_seconds(&simulator.work, resource)
        }),
        lost_work_seconds: by_resource(simulator, |resource| {
            unit_seconds(&simulator.lost, resource)
        }),
        sessions: simulator.sessions,
        series: Timeline::of(&simulator.usage, &names),
    }
}

fn by_resource(simulator: &Simulator<'_>, figure: impl Fn(usize) -> f64) -> BTreeMap<String, f64> {
    let resources = simulator.usage.resources().iter().enumerate();
    resources
        .map(|(index, name)| (name.to_string(), figure(index)))
        .collect()
}

fn queue_report(
    simulator: &Simulator<'_>,
    queue: usize,
    wait_seconds: Option<Spread>,
) -> QueueReport {
    let mut report = QueueReport {
        wait_seconds,
        utilization: by_resource(simulator, |resource| simulator.usage.mean(queue, resource)),
        ..QueueReport::default()
    };
    for job in simulator.jobs.iter().filter(|job| job.queue == queue) {
        report.jobs += 1;
        report.finished += usize::from(job.ended);
        report.preempted_pods += job.preempted;
        report.reclaimed_pods += job.reclaimed;
    }
    report
}

fn unfinished(simulator: &Simulator<'_>, job: &Job, state: &JobState) -> Unfinished {
    Unfinished {
        job: job.key(),
        queue: job.queue_name().to_owned(),
        started: state.wait.is_some(),
        reason: reason(&simulator.outcome, &job.key()),
    }
}

/// The session's message about a job that does not go on.
fn reason(outcome: &Outcome, job: &str) -> String {
    if let Some(invalid) = outcome.invalid_jobs.get(job) {
        return invalid.message.clone();
    }
    let events = outcome.events.iter();
    let mut events = events.filter(|event| event.object == job && event.reason == "Unschedulable");
    // Who was not let in has an event that is no warning; it says more than the condition.
    if let Some(event) = events.find(|event| event.kind == Tone::Normal) {
        return event.message.clone();
    }
    let group = outcome.pod_groups.get(job);
    let conditions = group.into_iter().flat_map(|group| &group.conditions);
    let mut conditions =
        conditions.filter(|condition| condition.kind == PodGroupConditionType::Unschedulable);
    conditions
        .next()
        .map_or_else(String::new, |condition| condition.message.clone())
}

/// Billionths of a unit times milliseconds as units times seconds.
#[expect(clippy::cast_precision_loss, reason = "the figure need not be exact")]
fn unit_seconds(amounts: &Amounts, resource: usize) -> f64 {
    const NANO_MILLIS: f64 = 1e12;
    amounts[resource] as f64 / NANO_MILLIS
}
