//! The end of a session: conditions and phases of pod groups, conditions of pods, and the status of queues (S6-123,
//! S6-138 to S6-140).

mod messages;
mod report;
pub(super) use report::{report_actions, report_open, reserved_free};
mod upstream;

use super::Session;
use super::outcome::{Event, GroupOutcome, Outcome, PodCondition};
use crate::conf::PluginName;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use evictd_batch_objects::{
    Difference, PodGroupCondition, PodGroupConditionType, PodGroupPhase, PodGroupStatus,
};
use evictd_reconcile::Tone;
use std::collections::BTreeMap;

/// Sets conditions and phases, and reports them.
pub(crate) fn close(session: &mut Session<'_>, outcome: &mut Outcome) {
    let gang = session.conf.tiers.iter().flatten();
    let gang = gang
        .map(|plugin| plugin.name)
        .any(|name| name == PluginName::Gang);
    for job in session.tx.snapshot.live.clone() {
        if gang && !session.tx.snapshot.jobs[job].tasks.is_empty() {
            close_gang(session, job);
        } else if let Some(words) = session.tx.snapshot.jobs[job].not_enqueued_because.clone() {
            set_condition(
                &mut session.tx.snapshot,
                job,
                PodGroupConditionType::Unschedulable,
                "NotEnoughResources",
                words,
            );
        }
    }
    for job_id in session.tx.snapshot.live.clone() {
        settle(session, job_id);
        let written = is_changed(&session.tx.snapshot, job_id);
        report_job(session, job_id, written, outcome);
        let job = &session.tx.snapshot.jobs[job_id];
        outcome
            .phases
            .insert(job.key.to_string(), job.phase.as_str().to_owned());
        let group = group_outcome(&session.tx.snapshot, job_id, written);
        outcome.pod_groups.insert(job.key.to_string(), group);
    }
    upstream::report_upstream(session, outcome);
    if outcome.hyper_nodes_ready.is_some() {
        outcome.allocated_hyper_nodes = Some(report::groups_of_jobs(&session.tx.snapshot));
    }
    report::report_queues(&session.tx.snapshot, outcome);
    outcome.events = std::mem::take(&mut session.tx.events);
    // Sessions visit jobs in an order that depends on their shares. Equal inputs have equal reports.
    outcome.events.sort_unstable();
}

/// The condition of a gang (S6-123).
fn close_gang(session: &mut Session<'_>, job_id: JobId) {
    let job = &session.tx.snapshot.jobs[job_id];
    if job.is_ready() {
        let reason = "tasks in gang are ready to be scheduled";
        set_condition(
            &mut session.tx.snapshot,
            job_id,
            PodGroupConditionType::Scheduled,
            reason,
            String::new(),
        );
        return;
    }
    let going = going(session, job_id);
    let waits = job.count(Status::Pending) > 0 || job.pipelined() > 0;
    if going > 0 && !waits && job.scheduled().saturating_add(going) >= job.min_member {
        return;
    }
    let tried = session.tx.snapshot.tasks_of(job_id, Status::Pending);
    let tried = tried.filter(|task| {
        session.tx.snapshot.tasks[*task]
            .context()
            .status
            .is_allocated()
    });
    let tried = i32::try_from(tried.count()).unwrap_or(i32::MAX);
    let lacking = job
        .min_member
        .saturating_sub(job.ready())
        .saturating_sub(tried);
    let message = format!(
        "{lacking}/{} tasks in gang unschedulable: {}",
        job.tasks.len(),
        messages::fit_text(session, job_id)
    );
    set_condition(
        &mut session.tx.snapshot,
        job_id,
        PodGroupConditionType::Unschedulable,
        "NotEnoughResources",
        message,
    );
}

/// Tasks of a job that are on a node and will leave it.
fn going(session: &Session<'_>, job: JobId) -> i32 {
    let going = session.tx.snapshot.tasks_of(job, Status::Releasing);
    let going = going.filter(|task| session.tx.snapshot.tasks[*task].node.is_some());
    i32::try_from(going.count()).unwrap_or(i32::MAX)
}

fn set_condition(
    snapshot: &mut Snapshot,
    job: JobId,
    kind: PodGroupConditionType,
    reason: &str,
    message: String,
) {
    let condition = PodGroupCondition::new(kind, true, reason, message);
    replace_condition(snapshot, job, condition);
}

/// Sets a condition of a job's group.
pub(crate) fn replace_condition(snapshot: &mut Snapshot, job: JobId, condition: PodGroupCondition) {
    let job = &mut snapshot.jobs[job];
    let mut conditions = job.conditions.iter();
    let known = conditions.position(|known| known.kind == condition.kind);
    if let Some(at) = known {
        job.conditions[at] = condition;
        job.set_now[at] = true;
    } else {
        job.conditions.push(condition);
        job.set_now.push(true);
    }
}

/// Whether a job runs although its gang is not complete, since the rest of it has yet to start.
fn waits_for_stage(tx: &Transaction<'_>, job: JobId) -> bool {
    tx.compat.has(Difference::StagedGroupRuns)
        && !tx.snapshot.jobs[job].is_ready()
        && tx.snapshot.waits_for_stage(job)
}

/// A job was enqueued: clears its condition Unschedulable.
pub(crate) fn withdraw_unschedulable(snapshot: &mut Snapshot, job: JobId) {
    let mut conditions = snapshot.jobs[job].conditions.iter();
    let unschedulable = PodGroupConditionType::Unschedulable;
    if conditions.any(|condition| condition.holds(unschedulable)) {
        let message = "there is room for it".to_owned();
        let condition = PodGroupCondition::new(unschedulable, false, "Inqueue", message);
        replace_condition(snapshot, job, condition);
    }
}

/// The phase that a job ends the session with (S6-138).
fn settle(session: &mut Session<'_>, job_id: JobId) {
    let job = &session.tx.snapshot.jobs[job_id];
    let said = job.conditions.iter().zip(&job.set_now);
    let unschedulable = said
        .filter(|(condition, now)| **now && condition.holds(PodGroupConditionType::Unschedulable))
        .count()
        > 0;
    let done = job.count(Status::Succeeded) + job.count(Status::Failed);
    let scheduled = job.scheduled().saturating_add(going(session, job_id));
    let phase = if waits_for_stage(&session.tx, job_id) {
        PodGroupPhase::Running
    } else if job.count(Status::Running) > 0 && unschedulable {
        PodGroupPhase::Unknown
    } else if scheduled >= job.min_member {
        if done == scheduled {
            PodGroupPhase::Completed
        } else {
            PodGroupPhase::Running
        }
    } else if job.phase == PodGroupPhase::Inqueue {
        PodGroupPhase::Inqueue
    } else {
        PodGroupPhase::Pending
    };
    session.tx.snapshot.jobs[job_id].phase = phase;
}

/// Whether the status of a group has to be written.
fn is_changed(snapshot: &Snapshot, job: JobId) -> bool {
    let job = &snapshot.jobs[job];
    let before = &job.before;
    let counts = [
        (job.count(Status::Running), before.running),
        (job.count(Status::Succeeded), before.succeeded),
        (job.count(Status::Failed), before.failed),
    ];
    if job.phase != before.phase
        || counts.iter().any(|(now, before)| now != before)
        || job.conditions.len() != before.conditions.len()
    {
        return true;
    }
    let conditions = job.conditions.iter().zip(&before.conditions);
    let mut conditions = conditions.zip(&job.set_now);
    conditions.any(|((now, before), said)| {
        let differs = now.kind != before.kind
            || now.status != before.status
            || now.reason != before.reason
            || now.message != before.message;
        *said && differs
    })
}

/// Reports events of a job and the conditions of its pods (S6-139, S6-140).
fn report_job(session: &mut Session<'_>, job_id: JobId, written: bool, outcome: &mut Outcome) {
    let job = &session.tx.snapshot.jobs[job_id];
    let text = messages::fit_text(session, job_id);
    if job.is_unschedulable_phase() || (written && waits_for_stage(&session.tx, job_id)) {
        let message = format!(
            "{}/{} tasks in gang unschedulable: {text}",
            job.count(Status::Pending),
            job.tasks.len()
        );
        session
            .tx
            .group_event(job_id, Tone::Warning, "Unschedulable", message);
    } else if written {
        session.tx.group_event(
            job_id,
            Tone::Normal,
            "Scheduled",
            "pod group is ready".to_owned(),
        );
    }
    for task in session.tx.snapshot.jobs[job_id].tasks.clone() {
        let status = session.tx.snapshot.tasks[task].status;
        let waits = matches!(
            status,
            Status::Allocated | Status::Pending | Status::Pipelined
        );
        if waits && !session.tx.snapshot.tasks[task].gated {
            report_pod(session, task, &text, outcome);
        }
    }
}

fn report_pod(session: &mut Session<'_>, task: TaskId, text: &str, outcome: &mut Outcome) {
    let (reason, message, nominated) = messages::condition_of(session, task);
    let message = message.unwrap_or_else(|| text.to_owned());
    let task = &session.tx.snapshot.tasks[task];
    let nominated = nominated.map(|node| session.tx.node_name(node).to_owned());
    let nominated = nominated
        .filter(|node| **node != *task.nominated && !task.pod_scheduled.is_nominating(node));
    if task.pod_scheduled.is_unscheduled_because(reason, &message) && nominated.is_none() {
        return;
    }
    let event = Event::failed_scheduling(task, message.clone());
    session.tx.events.push(event);
    let condition = PodCondition {
        message,
        nominated_node_name: nominated,
        reason: reason.to_owned(),
        status: "False".to_owned(),
        id: task.id.clone(),
    };
    outcome
        .pod_conditions
        .insert(task.key.to_string(), condition);
}

/// Conditions are listed by the texts that the outcome shows.
fn text_order(condition: &PodGroupCondition) -> [&str; 4] {
    [
        condition.kind.as_str(),
        &condition.reason,
        condition.status.as_str(),
        &condition.message,
    ]
}

fn group_outcome(snapshot: &Snapshot, job: JobId, written: bool) -> GroupOutcome {
    let job = &snapshot.jobs[job];
    let mut conditions = job.conditions.clone();
    conditions.sort_by(|one, other| text_order(one).cmp(&text_order(other)));
    let tasks = Status::ALL
        .into_iter()
        .map(|status| (status, job.count(status)));
    let tasks: BTreeMap<String, i32> = tasks
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| (status.as_str().to_owned(), count))
        .collect();
    let status = PodGroupStatus {
        phase: job.phase.clone(),
        conditions: job.conditions.clone(),
        running: job.count(Status::Running),
        succeeded: job.count(Status::Succeeded),
        failed: job.count(Status::Failed),
    };
    GroupOutcome {
        conditions,
        failed: status.failed,
        phase: status.phase.as_str().to_owned(),
        running: status.running,
        succeeded: status.succeeded,
        tasks,
        written,
        status,
    }
}
