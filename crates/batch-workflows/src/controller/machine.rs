//! The lives of all objects that create jobs: changes in the cluster lead to syncs, one for each object at a time.

use super::call::{Answer, Call, Done, Kind, Object, WorkflowKey};
use super::cron_job::zoned;
use super::jobs::{Jobs, controller_of};
use super::names::{BATCH_API, CREATED_BY_TEMPLATE, FLOW_API};
use super::round::{Input, Next, Round};
use super::{cron_job, job_flow, job_template, times};
use crate::objects::{CronJob, JobFlow, JobFlowPhase, JobTemplate};
use crate::schedule::Schedule;
use evictd_batch_objects::{Compat, Job};
use evictd_reconcile::{Notice, Retries};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Something that happens to an object that creates jobs, or to a job.
#[derive(Debug)]
pub enum WorkflowEvent {
    /// An object appears or changed: before, if it was there, and after.
    Object(Option<Object>, Object),
    /// An object was deleted.
    Gone(Object),
    /// A job appears or changed: before, if it was there, and after.
    Job(Option<Arc<Job>>, Arc<Job>),
    /// A job was deleted.
    JobGone(Arc<Job>),
    /// All objects and jobs are listed. No sync runs before.
    Listed,
    /// The answer to [`WorkflowCommand::Call`].
    Answer(WorkflowKey, Answer),
    /// The time of [`WorkflowCommand::Wake`] has come.
    Tick,
}

/// Something that is to be done for an object that creates jobs.
#[derive(Debug)]
pub enum WorkflowCommand {
    /// Make this call, and bring [`WorkflowEvent::Answer`].
    Call(WorkflowKey, Box<Call>),
    /// Record this event on the object.
    Notice(Object, Notice),
    /// Bring [`WorkflowEvent::Tick`] at this time, which replaces the earlier one.
    Wake(Timestamp),
}

/// All objects that create jobs, with their syncs.
#[derive(Debug)]
pub struct WorkflowMachine {
    compat: Compat,
    /// How often a failed sync of a flow is tried again; `None` for no limit.
    most_tries: Option<u32>,
    jobs: Jobs,
    objects: BTreeMap<WorkflowKey, Object>,
    /// To be synced.
    waiting: BTreeSet<WorkflowKey>,
    /// The sync of each object that waits for an answer.
    /// `None` if the object was deleted meanwhile. A new object of the same name waits until the old answer has arrived.
    active: BTreeMap<WorkflowKey, Option<Round>>,
    retries: Retries<WorkflowKey>,
    due: BTreeMap<WorkflowKey, Timestamp>,
    listed: bool,
}

impl WorkflowMachine {
    /// No object is known yet. `most_tries` is 15 in Volcano; `None` tries without end. A cron job is always tried again.
    pub fn new(compat: Compat, most_tries: Option<u32>) -> Self {
        Self {
            compat,
            most_tries,
            jobs: Jobs::default(),
            objects: BTreeMap::new(),
            waiting: BTreeSet::new(),
            active: BTreeMap::new(),
            retries: Retries::new(),
            due: BTreeMap::new(),
            listed: false,
        }
    }

    /// Takes an event; returns the commands, in order.
    pub fn on_event(&mut self, now: Timestamp, event: WorkflowEvent) -> Vec<WorkflowCommand> {
        let mut commands = Vec::new();
        match event {
            WorkflowEvent::Object(old, new) => self.changed(now, old, new, &mut commands),
            WorkflowEvent::Gone(object) => self.gone(&object.key()),
            WorkflowEvent::Job(old, new) => {
                self.jobs.set(&new);
                self.job_changed(old.as_deref(), &new);
            }
            WorkflowEvent::JobGone(job) => {
                self.jobs.remove(&job);
                self.waiting.extend(cron_job_of(&job));
            }
            WorkflowEvent::Listed => self.listed = true,
            WorkflowEvent::Answer(key, answer) => self.answered(now, &key, answer, &mut commands),
            WorkflowEvent::Tick => {}
        }
        if !self.listed {
            return commands;
        }
        self.wake_due(now);
        // An object has one sync at a time; the next one begins after the answer.
        let ready = self.waiting.iter();
        let ready = ready.filter(|key| !self.active.contains_key(*key));
        for key in ready.cloned().collect::<Vec<_>>() {
            self.waiting.remove(&key);
            if let Some(input) = self.input(&key) {
                let round = Round::new(input, now, self.compat);
                self.step(now, key, round, &mut commands);
            }
        }
        let next = self.due.values().min().copied();
        let next = next.into_iter().chain(self.retries.next()).min();
        commands.extend(next.map(WorkflowCommand::Wake));
        commands
    }

    fn wake_due(&mut self, now: Timestamp) {
        let due = self.due.iter().filter(|(_, due)| **due <= now);
        let due: Vec<WorkflowKey> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            self.due.remove(&key);
            self.waiting.insert(key);
        }
        while let Some(key) = self.retries.due(now) {
            self.waiting.insert(key);
        }
    }

    fn changed(
        &mut self,
        now: Timestamp,
        old: Option<Object>,
        new: Object,
        commands: &mut Vec<WorkflowCommand>,
    ) {
        let key = new.key();
        let known = self.objects.get(&key);
        if known.is_some_and(|known| !is_newer(known, &new)) {
            return;
        }
        // The answer to a write may have come before its watch event.
        let old = old.or_else(|| known.cloned());
        // A watch may show an object and its successor of the same name as one change.
        let old = old.filter(|old| old.metadata().uid == new.metadata().uid);
        if old.is_none() {
            self.gone(&key);
        }
        self.objects.insert(key.clone(), new.clone());
        match (old, new) {
            (Some(Object::CronJob(old)), Object::CronJob(new)) if reschedules(&old, &new) => {
                self.rescheduled(now, key, &new, commands);
            }
            (Some(Object::JobFlow(_)), Object::JobFlow(new)) if !has_jobs_to_delete(&new) => {}
            (Some(Object::JobTemplate(_)), Object::JobTemplate(_)) => {}
            (None, Object::JobTemplate(template)) => {
                self.waiting.insert(key);
                // A flow may have failed because it was missing.
                let namespace = template.metadata.namespace_or_default();
                self.sync_flows_with(namespace, &template.metadata.name);
            }
            _ => {
                self.waiting.insert(key);
            }
        }
    }

    fn sync_flows_with(&mut self, namespace: &str, template: &str) {
        let flows = self.objects.iter().filter_map(|(key, object)| {
            let Object::JobFlow(flow) = object else {
                return None;
            };
            let mut parts = flow.spec.flows.iter();
            let has = key.namespace == namespace && parts.any(|part| part.name == template);
            has.then(|| key.clone())
        });
        self.waiting.extend(flows);
    }

    /// Another schedule begins at its next time, without the times before (S6-241).
    fn rescheduled(
        &mut self,
        now: Timestamp,
        key: WorkflowKey,
        cron: &Arc<CronJob>,
        commands: &mut Vec<WorkflowCommand>,
    ) {
        self.retries.succeeded(&key);
        self.waiting.remove(&key);
        self.due.remove(&key);
        let Ok(schedule) = Schedule::parse(&zoned(cron)) else {
            let text = &cron.spec.schedule;
            let message = format!("unparseable schedule for cronjob: {text}");
            let notice = Notice::warning("UnParseableCronJobSchedule", message);
            let object = Object::CronJob(Arc::clone(cron));
            commands.push(WorkflowCommand::Notice(object, notice));
            return;
        };
        let wait = times::until_next(cron, now, &schedule);
        let due = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.due.insert(key, due);
    }

    fn gone(&mut self, key: &WorkflowKey) {
        self.objects.remove(key);
        self.waiting.remove(key);
        self.abandon(key);
        self.due.remove(key);
        self.retries.succeeded(key);
    }

    /// Ends the sync of a deleted object. The pending answer is still awaited.
    fn abandon(&mut self, key: &WorkflowKey) {
        if let Some(round) = self.active.get_mut(key) {
            *round = None;
        }
    }

    fn job_changed(&mut self, old: Option<&Job>, new: &Job) {
        self.waiting.extend(cron_job_of(new));
        self.waiting.extend(old.and_then(cron_job_of));
        match old {
            // As Volcano's: flows look at changes of their jobs, templates at new ones.
            Some(_) => self.waiting.extend(flow_of(new)),
            None => self.waiting.extend(template_of(new)),
        }
    }

    fn answered(
        &mut self,
        now: Timestamp,
        key: &WorkflowKey,
        answer: Answer,
        commands: &mut Vec<WorkflowCommand>,
    ) {
        let Some(Some(mut round)) = self.active.remove(key) else {
            return;
        };
        match &answer {
            // The next sync must know the job, also if no watch has shown it yet.
            Ok(Done::Job(job)) => self.jobs.set(job),
            Ok(Done::Stored(object)) => {
                let known = self.objects.get(key);
                if known.is_some_and(|known| is_newer(known, object)) {
                    self.objects.insert(key.clone(), object.clone());
                }
                // The watch shows the same state, which is no news then.
                if let Object::JobFlow(flow) = object
                    && has_jobs_to_delete(flow)
                {
                    self.waiting.insert(key.clone());
                }
            }
            Ok(Done::Nothing) | Err(_) => {}
        }
        round.answered(answer);
        self.step(now, key.clone(), round, commands);
    }

    fn step(
        &mut self,
        now: Timestamp,
        key: WorkflowKey,
        mut round: Round,
        commands: &mut Vec<WorkflowCommand>,
    ) {
        let (notices, next) = round.step();
        let object = self.objects.get(&key).cloned();
        let notice = |notice| Some(WorkflowCommand::Notice(object.clone()?, notice));
        commands.extend(notices.into_iter().filter_map(notice));
        match next {
            Next::Call(call) => {
                self.active.insert(key.clone(), Some(round));
                commands.push(WorkflowCommand::Call(key, Box::new(call)));
            }
            Next::Done(Ok(wait)) => {
                self.retries.succeeded(&key);
                match wait {
                    Some(wait) => {
                        let due = now.checked_add(wait).unwrap_or(Timestamp::MAX);
                        self.due.insert(key, due);
                    }
                    None => {
                        self.due.remove(&key);
                    }
                }
            }
            Next::Done(Err(error)) => {
                // The next time of a cron job comes anyway, so it is always tried again.
                let limit = self.most_tries.filter(|_| key.kind != Kind::CronJob);
                if !self.retries.failed(key, limit, now)
                    && let Some(object @ Object::JobFlow(_)) = object
                {
                    let action = job_flow::SYNC;
                    let message = format!("{action} JobFlow failed for {error}");
                    let notice = Notice::warning(action, message);
                    commands.push(WorkflowCommand::Notice(object, notice));
                }
            }
        }
    }

    fn input(&self, key: &WorkflowKey) -> Option<Input> {
        Some(match self.objects.get(key)? {
            Object::CronJob(cron) => Input::CronJob(cron_job::Input::new(cron, &self.jobs)),
            Object::JobFlow(flow) => {
                let template = |name: &str| self.template(&key.namespace, name);
                let input = job_flow::Input::new(flow, job_flow::SYNC, &self.jobs, template);
                Input::JobFlow(input)
            }
            Object::JobTemplate(template) => {
                Input::JobTemplate(job_template::Input::new(template, &self.jobs))
            }
        })
    }

    fn template(&self, namespace: &str, name: &str) -> Option<Arc<JobTemplate>> {
        let key = WorkflowKey {
            kind: Kind::JobTemplate,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match self.objects.get(&key)? {
            Object::JobTemplate(template) => Some(Arc::clone(template)),
            Object::CronJob(_) | Object::JobFlow(_) => None,
        }
    }
}

/// Whether an object is a later state of the known one. Versions of one object are numbers that grow.
fn is_newer(known: &Object, new: &Object) -> bool {
    let (known, new) = (known.metadata(), new.metadata());
    let version = |text: &str| text.parse::<u64>().ok();
    let versions = version(&known.resource_version).zip(version(&new.resource_version));
    known.uid != new.uid || versions.is_none_or(|(known, new)| known < new)
}

fn reschedules(old: &CronJob, new: &CronJob) -> bool {
    let (old, new) = (&old.spec, &new.spec);
    old.schedule != new.schedule || old.time_zone != new.time_zone
}

fn has_jobs_to_delete(flow: &JobFlow) -> bool {
    flow.status.state.phase == JobFlowPhase::Succeed
        && flow.spec.job_retain_policy == job_flow::DELETE
}

fn key_of(job: &Job, kind: Kind, name: &str) -> WorkflowKey {
    WorkflowKey {
        kind,
        namespace: job.metadata.namespace_or_default().to_owned(),
        name: name.to_owned(),
    }
}

fn controlled_by(job: &Job, kind: Kind, (api, name): (&str, &str)) -> Option<WorkflowKey> {
    let owner = controller_of(job)?;
    let is = owner.kind == name && owner.api_version == api;
    is.then(|| key_of(job, kind, &owner.name))
}

fn cron_job_of(job: &Job) -> Option<WorkflowKey> {
    controlled_by(job, Kind::CronJob, (BATCH_API, "CronJob"))
}

fn flow_of(job: &Job) -> Option<WorkflowKey> {
    controlled_by(job, Kind::JobFlow, (FLOW_API, "JobFlow"))
}

/// The template by the job's label, which has exactly one dot (S6-233).
fn template_of(job: &Job) -> Option<WorkflowKey> {
    let label = job.metadata.labels.get(CREATED_BY_TEMPLATE)?;
    let (namespace, name) = label.split_once('.')?;
    let key = WorkflowKey {
        kind: Kind::JobTemplate,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    (!name.contains('.')).then_some(key)
}
