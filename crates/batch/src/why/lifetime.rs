//! Jobs that need no session: they are over, were stopped, or belong to another scheduler.

use super::answer::{Answer, State};
use super::change::counted;
use super::subject::Subject;
use super::what_if::WhatIf;
use crate::session::Setting;
use evictd_batch_objects::{Job, JobPhase, PodGroupPhase};
use evictd_pod::wire::{PodPhase, full_name};

/// The answer, if it follows from the job alone.
pub(super) fn answer(what_if: &WhatIf<'_>, subject: &Subject, setting: &Setting) -> Option<Answer> {
    let job = subject.job.as_deref();
    job.and_then(|job| of_job(subject, job))
        .or_else(|| of_another(what_if, subject, setting))
        .or_else(|| of_group(what_if, subject))
}

fn of_job(subject: &Subject, job: &Job) -> Option<Answer> {
    let name = subject.title();
    let status = &job.status;
    let answer = |state, headline| Some(Answer::of(subject, state, headline));
    if job.metadata.deletion_timestamp.is_some() {
        return answer(State::Finished, format!("{name} is being deleted"));
    }
    let since = status.state.last_transition_time;
    let at = since.map_or_else(String::new, |time| format!(" at {time}"));
    let since = since.map_or_else(String::new, |time| format!(" since {time}"));
    let why = match (&*status.state.reason, &*status.state.message) {
        ("", "") => String::new(),
        ("", text) | (text, "") => format!(": {text}"),
        (reason, message) => format!(": {reason}: {message}"),
    };
    let ending = i64::from(status.terminating) + i64::from(status.running);
    let ending = usize::try_from(ending).unwrap_or(0);
    let ending = format!(
        "{} of it still {}",
        counted(ending, "pod"),
        if ending == 1 { "ends" } else { "end" }
    );
    let phase = status.state.phase.or_pending();
    match phase {
        // Only a session can say how these are.
        JobPhase::Pending | JobPhase::Running => None,
        JobPhase::Completed => {
            let pods = usize::try_from(status.succeeded).unwrap_or(0);
            let pods = counted(pods, "pod");
            answer(
                State::Finished,
                format!("{name} was completed{at} ({pods} succeeded){why}"),
            )
        }
        JobPhase::Failed => {
            let retries = usize::try_from(status.retry_count).unwrap_or(0);
            let retries = counted(retries, "restart");
            answer(
                State::Finished,
                format!("{name} failed{at} after {retries}{why}"),
            )
        }
        JobPhase::Terminated => answer(State::Finished, format!("{name} was terminated{at}{why}")),
        JobPhase::Completing => answer(
            State::Finished,
            format!("{name} is completing{since}: {ending}"),
        ),
        JobPhase::Terminating => answer(
            State::Finished,
            format!("{name} is terminating{since}: {ending}"),
        ),
        JobPhase::Restarting => {
            let headline = format!(
                "{name} restarts{since}: its pods are made anew once all have ended; {ending}"
            );
            answer(State::Waits, headline)
        }
        JobPhase::Aborting | JobPhase::Aborted => {
            let text = match phase {
                JobPhase::Aborted => format!("was aborted{at}"),
                _ => format!("is being aborted{since}"),
            };
            let mut answer = Answer::of(subject, State::Stopped, format!("{name} {text}{why}"));
            let (namespace, name) = (job.metadata.namespace_or_default(), &job.metadata.name);
            answer.more.push(format!(
                "It waits until somebody resumes it: evictd-batch job resume -n {namespace} -N {name}"
            ));
            Some(answer)
        }
    }
}

/// A job of another scheduler.
fn of_another(what_if: &WhatIf<'_>, subject: &Subject, setting: &Setting) -> Option<Answer> {
    let pods = subject
        .pods(what_if)
        .map(|(_, pod)| pod.spec.scheduler_name.as_str());
    let job = subject
        .job
        .as_ref()
        .map(|job| job.spec.scheduler_name.as_str());
    let at = full_name(&subject.namespace, &subject.name);
    let asked = what_if
        .pods
        .get(&at)
        .map(|pod| pod.spec.scheduler_name.as_str());
    let mut named = pods.chain(job).chain(asked).filter(|name| !name.is_empty());
    let all: Vec<&str> = named.by_ref().collect();
    let first = *all.first()?;
    // Pods of two schedulers are one job for the sessions that place some of them.
    if all.iter().any(|name| *name == setting.scheduler) {
        return None;
    }
    let headline = format!(
        "{} is placed by the scheduler {first}, not by {}",
        subject.title(),
        setting.scheduler
    );
    let mut answer = Answer::of(subject, State::Waits, headline);
    answer.more.push(format!(
        "If sessions of that name run, ask with --scheduler-name {first}; if not, its pods wait for ever."
    ));
    Some(answer)
}

/// A group that is complete, or has no pending pods.
fn of_group(what_if: &WhatIf<'_>, subject: &Subject) -> Option<Answer> {
    let name = subject.title();
    let group = what_if.groups.get(&subject.group)?;
    let answer = |state, headline| Some(Answer::of(subject, state, headline));
    let phases: Vec<&PodPhase> = subject
        .pods(what_if)
        .map(|(_, pod)| &pod.status.phase)
        .collect();
    let count = |phase: &PodPhase| phases.iter().filter(|other| **other == phase).count();
    let ended = count(&PodPhase::Succeeded) + count(&PodPhase::Failed);
    if group.status.phase == PodGroupPhase::Completed && ended == phases.len() {
        let (succeeded, failed) = (count(&PodPhase::Succeeded), count(&PodPhase::Failed));
        return answer(
            State::Finished,
            format!(
                "{name} is over: {} succeeded, {failed} failed",
                counted(succeeded, "pod")
            ),
        );
    }
    let waits = |pod: &evictd_pod::wire::Pod| {
        pod.spec.node_name.is_empty() && pod.status.phase == PodPhase::Pending
    };
    let waiting = subject.pods(what_if).filter(|(_, pod)| waits(pod)).count();
    let running = phases.len() - ended;
    let enough = usize::try_from(subject.min_member).unwrap_or(0) <= phases.len();
    if waiting == 0
        && running > 0
        && enough
        && subject.pending.pods.is_empty()
        && subject.pending.dependent == 0
    {
        let pods = counted(running, "pod");
        return answer(
            State::Runs,
            format!("{name} runs: all its pods have a node ({pods})"),
        );
    }
    None
}
