//! One sync of a flow (S6-227 to S6-231): jobs whose targets have completed are created, and the jobs are counted.

use super::call::{Call, Object};
use super::jobs::Jobs;
use super::names::{BATCH_API, CREATED_BY_FLOW, CREATED_BY_TEMPLATE, FLOW_API, JOBS, controller};
use super::replay::{Replay, Stop, write_status};
use crate::objects::{
    Flow, FlowCondition, FlowJobStatus, JobFlow, JobFlowPhase, JobFlowStatus, JobTemplate,
    RunningHistory,
};
use evictd_batch_objects::{Compat, Difference, Job, JobPhase};
use evictd_pod::duration;
use evictd_reconcile::{Notice, Refusal};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The action that syncs a flow, and the event that asks for it.
pub(crate) const SYNC: &str = "SyncJobFlow";
const EVENT: &str = "OutOfSync";
/// The policy that deletes the jobs of a flow that has succeeded.
pub(super) const DELETE: &str = "delete";

/// A flow, its jobs and their templates.
#[derive(Debug)]
pub(crate) struct Input {
    flow: Arc<JobFlow>,
    action: String,
    /// The jobs with its label.
    jobs: Vec<Arc<Job>>,
    templates: BTreeMap<String, Arc<JobTemplate>>,
    /// The parts whose jobs are missing and whose targets have completed, in order.
    ready: Vec<String>,
}

impl Input {
    /// `template` finds a template of the flow's namespace by its name.
    pub(crate) fn new(
        flow: &Arc<JobFlow>,
        action: &str,
        jobs: &Jobs,
        template: impl Fn(&str) -> Option<Arc<JobTemplate>>,
    ) -> Self {
        let metadata = &flow.metadata;
        let namespace = metadata.namespace_or_default();
        let names = flow.spec.flows.iter().flat_map(|flow| {
            let targets = flow.depends_on.iter();
            let targets = targets.flat_map(|depends_on| &depends_on.targets);
            targets.chain([&flow.name])
        });
        let by_template = names.clone().filter_map(|name| {
            let job = jobs.get(namespace, &job_name(flow, name))?;
            Some((name.clone(), Arc::clone(job)))
        });
        let by_template: BTreeMap<String, Arc<Job>> = by_template.collect();
        let templates = names.filter_map(|name| Some((name.clone(), template(name)?)));
        let parts = flow.spec.flows.iter();
        let ready = parts.filter(|part| {
            !by_template.contains_key(&part.name) && targets_completed(part, &by_template)
        });
        Self {
            ready: ready.map(|part| part.name.clone()).collect(),
            action: action.to_owned(),
            jobs: jobs.of_flow(namespace, label(namespace, &metadata.name)),
            templates: templates.collect(),
            flow: Arc::clone(flow),
        }
    }
}

fn job_name(flow: &JobFlow, template: &str) -> String {
    format!("{}-{template}", flow.metadata.name)
}

/// The value of the labels that lead to the creator.
pub(super) fn label(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}")
}

/// Runs the sync.
pub(super) fn sync(
    input: &Input,
    now: Timestamp,
    compat: Compat,
    replay: &mut Replay<'_>,
) -> Result<(), Stop> {
    let phase = &input.flow.status.state.phase;
    let name = &input.flow.metadata.name;
    let known = phase.known();
    if known.is_none() && !phase.is_empty() {
        let error = format!("jobflow {name} state {{{phase}}} is invalid");
        return Err(Stop::Failed(error));
    }
    // A failed flow does not recover by itself.
    let rests = matches!(
        known,
        Some(JobFlowPhase::Failed | JobFlowPhase::Terminating)
    );
    if rests || input.action != SYNC {
        return Ok(());
    }
    synced(input, now, compat, replay).map_err(|stop| match stop {
        Stop::Failed(why) => Stop::Failed(format!(
            "sync jobflow {name} failed for {why}, event is {EVENT}, action is {}",
            input.action
        )),
        Stop::Call(call) => Stop::Call(call),
    })
}

fn synced(
    input: &Input,
    now: Timestamp,
    compat: Compat,
    replay: &mut Replay<'_>,
) -> Result<(), Stop> {
    let flow = &input.flow;
    let phase = flow.status.state.phase.known();
    if flow.spec.job_retain_policy == DELETE && phase == Some(JobFlowPhase::Succeed) {
        return delete(input, replay);
    }
    replay.each(&input.ready, |replay, template| {
        create(input, template, replay)
    })?;
    let mut status = counted(input, now);
    next_phase(&mut status, flow.spec.flows.len());
    let again = !compat.has(Difference::EqualStatusIsUnchanged);
    let object = Object::JobFlow(Arc::clone(flow));
    write_status(&object, (&flow.status, &status), again, replay)
}

/// The flow has succeeded, and its jobs are not to be kept (S6-231).
fn delete(input: &Input, replay: &mut Replay<'_>) -> Result<(), Stop> {
    replay.each(&input.jobs, |replay, job| {
        let metadata = &job.metadata;
        let deleted = replay.call(|| Call::DeleteJob {
            namespace: metadata.namespace_or_default().to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
        })?;
        match deleted {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Stop::Failed(refusal.about(JOBS, &metadata.name))),
        }
    })
}

/// Whether the job of every target has completed.
fn targets_completed(flow: &Flow, by_template: &BTreeMap<String, Arc<Job>>) -> bool {
    let targets = flow.depends_on.iter();
    let mut targets = targets.flat_map(|depends_on| &depends_on.targets);
    targets.all(|target| {
        let job = by_template.get(target);
        job.is_some_and(|job| job.status.state.phase == JobPhase::Completed)
    })
}

fn create(input: &Input, template: &str, replay: &mut Replay<'_>) -> Result<(), Stop> {
    let flow = &input.flow;
    let name = job_name(flow, template);
    let missing = || {
        Stop::Failed(format!(
            "jobtemplate.flow.volcano.sh \"{template}\" not found"
        ))
    };
    let found = input.templates.get(template).ok_or_else(missing)?;
    let answer = replay.call(|| Call::CreateJob {
        job: job(flow, found, &name),
    })?;
    match answer {
        Ok(_) => {
            let message = format!("create a job named {name}!");
            replay.notice(Notice::normal("Created", message));
            Ok(())
        }
        // An earlier sync created it, and no watch has shown it yet.
        Err(Refusal::AlreadyExists) => Ok(()),
        Err(refusal) => Err(Stop::Failed(refusal.about(JOBS, &name))),
    }
}

fn job(flow: &JobFlow, template: &JobTemplate, name: &str) -> Value {
    let metadata = &flow.metadata;
    let namespace = metadata.namespace_or_default();
    let created_by = json!({
        CREATED_BY_TEMPLATE: label(namespace, &template.metadata.name),
        CREATED_BY_FLOW: label(namespace, &metadata.name),
    });
    json!({
        "apiVersion": BATCH_API,
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": created_by,
            "annotations": created_by,
            "ownerReferences": controller(FLOW_API, "JobFlow", &metadata.name, &metadata.uid),
        },
        "spec": template.spec,
    })
}

/// The status with the jobs as they are (S6-229).
fn counted(input: &Input, now: Timestamp) -> JobFlowStatus {
    let mut status = JobFlowStatus {
        job_status_list: input.flow.status.job_status_list.clone(),
        state: input.flow.status.state.clone(),
        ..JobFlowStatus::default()
    };
    let mut entries: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, entry) in status.job_status_list.iter().enumerate() {
        entries.entry(entry.name.clone()).or_default().push(index);
    }
    for job in &input.jobs {
        let name = &job.metadata.name;
        let names = match job.status.state.phase.known() {
            Some(JobPhase::Pending) => Some(&mut status.pending_jobs),
            Some(JobPhase::Running) => Some(&mut status.running_jobs),
            Some(JobPhase::Completed) => Some(&mut status.completed_jobs),
            Some(JobPhase::Failed) => Some(&mut status.failed_jobs),
            Some(JobPhase::Terminated) => Some(&mut status.terminated_jobs),
            Some(JobPhase::Completing | JobPhase::Terminating) => None,
            _ => Some(&mut status.un_know_jobs),
        };
        if let Some(names) = names {
            names.push(name.clone());
        }
        status.conditions.insert(name.clone(), condition(job));
        let known = entries.get(name).map(Vec::as_slice).unwrap_or_default();
        set_status(&mut status.job_status_list, known, job, now);
    }
    status
}

fn created(job: &Job) -> Option<Timestamp> {
    let created = job.metadata.creation_timestamp;
    created.map(evictd_pod::wire::Time::timestamp)
}

fn condition(job: &Job) -> FlowCondition {
    let running = job.status.running_duration.as_deref();
    let running = running.map(|text| {
        let parsed = duration::parse(text);
        parsed.map_or_else(|_| text.to_owned(), duration::format)
    });
    FlowCondition {
        phase: job.status.state.phase.to_string(),
        create_time: created(job),
        running_duration: running,
        task_status_count: job.status.task_status_count.clone(),
    }
}

/// The entry of a job in the list replaces its earlier ones, which have these indices.
fn set_status(list: &mut Vec<FlowJobStatus>, known: &[usize], job: &Job, now: Timestamp) {
    let running = job.status.running_duration.as_deref();
    let running = running.and_then(|text| duration::parse(text).ok());
    let ended = created(job).zip(running);
    let ended = ended.and_then(|(created, running)| created.checked_add(running).ok());
    let mut earlier = known.iter().rev().filter_map(|index| list.get(*index));
    let histories = earlier.find(|entry| !entry.running_histories.is_empty());
    let histories = histories.map(|entry| entry.running_histories.clone());
    let phase = job.status.state.phase.to_string();
    let entry = FlowJobStatus {
        name: job.metadata.name.clone(),
        state: phase.clone(),
        start_timestamp: created(job),
        end_timestamp: ended.and_then(whole_seconds),
        restart_count: job.status.retry_count,
        running_histories: history(histories.unwrap_or_default(), phase, now),
    };
    for index in known {
        if let Some(earlier) = list.get_mut(*index) {
            earlier.clone_from(&entry);
        }
    }
    if known.is_empty() {
        list.push(entry);
    }
}

/// As Kubernetes writes times.
fn whole_seconds(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second()).ok()
}

/// A new phase ends the one before.
fn history(earlier: Vec<RunningHistory>, phase: String, now: Timestamp) -> Vec<RunningHistory> {
    let mut history = earlier;
    let now = whole_seconds(now);
    match history.last_mut() {
        Some(last) if last.state == phase => return history,
        Some(last) => last.end_timestamp = now,
        None if phase.is_empty() => return history,
        None => {}
    }
    history.push(RunningHistory {
        start_timestamp: now,
        end_timestamp: None,
        state: phase,
    });
    history
}

/// The phase by the numbers of jobs (S6-230).
fn next_phase(status: &mut JobFlowStatus, flows: usize) {
    let ended = !(status.failed_jobs.is_empty() && status.terminated_jobs.is_empty());
    let started = !(status.running_jobs.is_empty() && status.completed_jobs.is_empty());
    let phase = match status.state.phase.known() {
        None | Some(JobFlowPhase::Pending) => {
            if started && status.failed_jobs.is_empty() {
                JobFlowPhase::Running
            } else if ended {
                JobFlowPhase::Failed
            } else {
                JobFlowPhase::Pending
            }
        }
        Some(JobFlowPhase::Running) if status.completed_jobs.len() == flows => {
            JobFlowPhase::Succeed
        }
        Some(JobFlowPhase::Running) if ended => JobFlowPhase::Failed,
        Some(phase) => phase,
    };
    status.state.phase = phase.into();
}
