//! The life of one job: events become requests, which are carried out one after the other.

use super::belonging::is_marked;
use super::call::{Answer, Call};
use super::delay::{Delayed, Delays};
use super::expectations::{Expectations, Seen};
use super::failure::RoundError;
use super::handler;
use super::info::JobInfo;
use super::lister::Lister;
use super::policy::{choose, decided};
use super::request::Request;
use super::round::{Round, Task};
use super::step::{Next, Step};
use super::waiting::Waiting;
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Difference, Job, PodGroup, TaskPod};
use evictd_pod::duration;
use evictd_reconcile::{Notice, Retries};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a pod is read whose deletion failed (S6-032).
const MOST_READS: u32 = 10;

/// Something that happens to a job.
#[derive(Debug)]
pub enum JobEvent {
    /// The job appears or changed.
    Job(Box<Job>),
    /// The job and its pods, as a controller that begins finds them.
    Found(Box<Job>, Vec<Arc<TaskPod>>),
    /// The job was deleted.
    JobGone,
    /// A pod appears or changed.
    Pod(Arc<TaskPod>),
    /// A pod was deleted.
    PodGone(Arc<TaskPod>),
    /// Its PodGroup changed: before, and after.
    Group(Arc<PodGroup>, Arc<PodGroup>),
    /// A user's Command, which has been deleted (S6-012).
    Command(Action),
    /// The answers to the calls of [`JobCommand::Calls`], in their order.
    Answers(Vec<Answer>),
    /// The result of reading a pod; `None` if it does not exist, `Err` if reading failed.
    Read(String, Result<Option<Arc<TaskPod>>, ()>),
    /// A queue or claim that the job names has appeared; failed requests are retried at once.
    Appeared,
    /// The time of [`JobCommand::Wake`] has come.
    Tick,
}

/// Something that is to be done for a job.
#[derive(Debug)]
pub enum JobCommand {
    /// Make these calls, all at once if possible, and bring [`JobEvent::Answers`].
    Calls(Vec<Call>),
    /// Record this event on the job.
    Notice(Notice),
    /// Read this pod, and bring [`JobEvent::Read`].
    Read(String),
    /// Bring [`JobEvent::Tick`] at this time; it replaces the time that was said before.
    Wake(Timestamp),
}

/// A job, all that is known of it, and all that it waits for.
#[derive(Debug)]
pub struct JobMachine {
    namespace: String,
    name: String,
    compat: Compat,
    /// `None`: without end.
    most_tries: Option<u32>,
    info: JobInfo,
    waiting: Waiting<Request>,
    retries: Retries<Request>,
    reads: Retries<String>,
    /// The pods that are being read, by name, and the UID of one whose end was seen meanwhile. The answer may be older.
    reading: BTreeMap<String, Option<Arc<str>>>,
    /// Created pods that no watch has shown yet.
    expected: Expectations,
    /// Pods whose deletion was refused, by name.
    deletions: Retries<String>,
    delays: Delays,
    active: Option<Active>,
    /// Whether marked pods have not been checked for interrupted terminations yet.
    marked: bool,
}

/// The round that is under way.
#[derive(Debug)]
struct Active {
    round: Round,
    request: Request,
    action: Action,
    end: End,
    /// Whether the job's status has the action's result already.
    recorded: bool,
}

/// The request to continue with after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// If it fails, the request is tried again.
    Usual,
    /// The same; its action had waited, so that others of its level are settled whatever it is.
    Delayed,
    /// The request has failed too often, and this was the last that is done for it.
    Last,
}

impl JobMachine {
    /// A job of which nothing is known yet. `most_tries` is 15 in Volcano; `None` tries without end.
    pub fn new(namespace: &str, name: &str, compat: Compat, most_tries: Option<u32>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            compat,
            most_tries,
            info: JobInfo::default(),
            waiting: Waiting::new(),
            retries: Retries::new(),
            reads: Retries::new(),
            reading: BTreeMap::new(),
            expected: Expectations::default(),
            deletions: Retries::new(),
            delays: Delays::default(),
            active: None,
            marked: false,
        }
    }

    /// The job and its pods.
    pub fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Whether nothing is left of it, so that the machine can be dropped (S6-015).
    pub fn is_gone(&self) -> bool {
        self.info.is_gone() && self.active.is_none()
    }

    /// Takes an event; returns the commands, in order.
    pub fn on_event(
        &mut self,
        now: Timestamp,
        event: JobEvent,
        lister: &dyn Lister,
    ) -> Vec<JobCommand> {
        let mut commands = Vec::new();
        match event {
            JobEvent::Job(job) => self.set_job(*job),
            JobEvent::Found(job, pods) => self.found(*job, &pods),
            JobEvent::JobGone => self.job_gone(),
            JobEvent::Pod(pod) => self.set_pod(&pod),
            JobEvent::PodGone(pod) => self.remove_pod(&pod),
            JobEvent::Group(old, new) => self.ask(handler::group_changed(&old, &new)),
            JobEvent::Command(action) => self.command(action, &mut commands),
            JobEvent::Answers(answers) => {
                if let Some(mut active) = self.active.take() {
                    let step = active.round.answered(answers, now, lister);
                    self.step(active, step, now, lister, &mut commands);
                }
            }
            JobEvent::Read(name, pod) => self.read(name, pod, now),
            JobEvent::Appeared => self.retries.hurry(now),
            JobEvent::Tick => {}
        }
        self.run(now, lister, &mut commands);
        while let Some(name) = self.expected.overdue(now) {
            self.reads.failed(name, Some(MOST_READS), now);
        }
        while let Some(name) = self.reads.due(now) {
            self.reading.insert(name.clone(), None);
            commands.push(JobCommand::Read(name));
        }
        commands.extend(self.next().map(JobCommand::Wake));
        commands
    }

    /// When something is due. Anything due during a round is handled at its end.
    fn next(&self) -> Option<Timestamp> {
        let deletions = self.deletions.next();
        let rounds = [self.retries.next(), self.delays.next(), deletions];
        let rounds = rounds.into_iter().filter(|_| self.active.is_none());
        rounds
            .chain([self.reads.next(), self.expected.next()])
            .flatten()
            .min()
    }

    fn set_job(&mut self, job: Job) {
        let old = self.info.job.clone();
        // A job that was deleted and made again under its name starts from the beginning.
        let new_one = old
            .as_ref()
            .is_none_or(|old| old.metadata.uid != job.metadata.uid);
        if !self.info.set_job(job) {
            return;
        }
        let Some(new) = self.info.job.clone() else {
            return;
        };
        let request = match old {
            Some(old) if !new_one => handler::job_changed(&old, &new),
            _ => Some(handler::job_added(&new)),
        };
        self.ask(request);
    }

    /// The pods are known before the first is asked about, so that no round takes one for missing.
    fn found(&mut self, job: Job, pods: &[Arc<TaskPod>]) {
        for pod in pods {
            self.info.set_pod(Arc::clone(pod));
        }
        self.marked = true;
        self.set_job(job);
        for pod in pods {
            self.ask(handler::pod_added(&self.info, pod, self.compat));
        }
    }

    fn job_gone(&mut self) {
        self.info.job = None;
        // Requests of a deleted job must not reach a new one of its name.
        self.waiting.clear();
        self.retries.clear();
        self.reads.clear();
        self.deletions.clear();
        self.delays = Delays::default();
    }

    /// Takes in a pod that appears or changed. Its request waits for the next event, so that many changes share a round,
    /// which looks at all pods of the job.
    pub fn set_pod(&mut self, pod: &Arc<TaskPod>) {
        let metadata = &pod.metadata;
        let seen = self.expected.see(&metadata.name, &metadata.uid);
        if seen == Seen::Earlier {
            return;
        }
        self.marked |= is_marked(pod);
        let old = self.info.set_pod(Arc::clone(pod));
        let same = |old: &Arc<TaskPod>| old.metadata.uid == pod.metadata.uid;
        let request = match old.filter(|old| same(old) && seen != Seen::Expected) {
            Some(old) => handler::pod_changed(&self.info, &old, pod),
            None => handler::pod_added(&self.info, pod, self.compat),
        };
        self.ask(request);
    }

    /// Takes in the deletion of a pod, as [`set_pod`](Self::set_pod) a change.
    pub fn remove_pod(&mut self, pod: &TaskPod) {
        let metadata = &pod.metadata;
        if self.expected.see(&metadata.name, &metadata.uid) == Seen::Earlier {
            return;
        }
        let request = handler::pod_deleted(&self.info, pod, self.compat);
        self.info.remove_pod(pod);
        if let Some(ended) = self.reading.get_mut(&metadata.name) {
            *ended = Some(Arc::clone(&metadata.uid));
        }
        // The refused deletion has happened after all.
        self.deletions.succeeded(&pod.metadata.name);
        self.ask(request);
    }

    fn command(&mut self, action: Action, commands: &mut Vec<JobCommand>) {
        if self.info.job.is_none() {
            return;
        }
        let name = action.as_str();
        let message = format!(
            "Start to execute command {name}, and clean it up to make sure executed not more than once."
        );
        // Volcano's words, which users search for.
        commands.push(JobCommand::Notice(Notice::normal("CommandIssued", message)));
        let request = Request::of_job(&self.namespace, &self.name, Event::CommandIssued);
        self.ask(Some(Request {
            action: Some(action),
            ..request
        }));
    }

    fn read(&mut self, name: String, pod: Result<Option<Arc<TaskPod>>, ()>, now: Timestamp) {
        let ended = self.reading.remove(&name).flatten();
        match pod {
            // The watch asks for nothing later if it shows a state that was read before.
            Ok(Some(pod)) => {
                if ended.as_ref() != Some(&pod.metadata.uid) && !self.is_newer_known(&pod) {
                    self.set_pod(&pod);
                }
            }
            Ok(None) => {
                if let Some(pod) = self.info.pod_of_any_task(&name).cloned() {
                    self.info.remove_pod(&pod);
                    // No watch event may follow that would ask for a sync.
                    let job = self.info.job.as_ref();
                    let request = job.map(|job| handler::job_added(job));
                    self.ask(request);
                }
                self.deletions.succeeded(&name);
            }
            Err(()) => {
                self.reads.failed(name, Some(MOST_READS), now);
                return;
            }
        }
        self.expected.forget(&name);
        self.reads.succeeded(&name);
    }

    /// Whether a newer state of the same pod is known.
    fn is_newer_known(&self, pod: &TaskPod) -> bool {
        let version = |pod: &TaskPod| pod.metadata.resource_version.parse::<u64>().unwrap_or(0);
        let known = self.info.pod_of_any_task(&pod.metadata.name);
        known.is_some_and(|known| {
            known.metadata.uid == pod.metadata.uid && version(known) > version(pod)
        })
    }

    /// Takes in a pod that was created. The watch may have shown it already.
    fn created(&mut self, pod: Arc<TaskPod>, now: Timestamp) {
        let metadata = &pod.metadata;
        let known = self.info.pod_of_any_task(&metadata.name);
        // An API server gives each pod a UID.
        let known = known.is_some_and(|known| known.metadata.uid == metadata.uid);
        if !known && !metadata.uid.is_empty() {
            self.expected.add(&metadata.name, &metadata.uid, now);
            self.info.set_pod(pod);
        }
    }

    /// One that waits already is not added again.
    fn ask(&mut self, request: Option<Request>) {
        if let Some(request) = request {
            self.waiting.push(request);
        }
    }

    /// Begins rounds until one needs answers, or nothing is left to be done now.
    fn run(&mut self, now: Timestamp, lister: &dyn Lister, commands: &mut Vec<JobCommand>) {
        while self.active.is_none() {
            // Delayed actions come first: a request in front of them might cancel what is due already.
            if let Some(delayed) = self.delays.due(now) {
                let (request, action) = (delayed.request, delayed.action);
                self.start(request, action, End::Delayed, now, lister, commands);
            } else if let Some(request) = self.waiting.pop() {
                self.decide(request, now, lister, commands);
            } else if let Some(request) = self.retries.due(now) {
                self.decide(request, now, lister, commands);
            } else if self.deletions.due(now).is_some() {
                let job = self.info.job.as_ref();
                let request = job.map(|job| handler::job_added(job));
                self.ask(request);
            } else if !self.resume() {
                return;
            }
        }
    }

    /// Looks for a termination that an earlier process began; returns whether one is pending now.
    fn resume(&mut self) -> bool {
        // A request that is still retried may be the termination itself.
        let quiet = self.marked && self.retries.next().is_none();
        if !quiet || !self.compat.has(Difference::ResumeTermination) {
            return false;
        }
        self.marked = false;
        let Some(job) = self.info.job.clone() else {
            return false;
        };
        for request in self.info.terminations().unrecorded(&job) {
            self.waiting.push(request.clone());
        }
        !self.waiting.is_empty()
    }

    fn decide(
        &mut self,
        mut request: Request,
        now: Timestamp,
        lister: &dyn Lister,
        commands: &mut Vec<JobCommand>,
    ) {
        self.delays.settle(&request);
        let Some(job) = self.info.job.clone() else {
            return;
        };
        if self.info.terminations().are_over(&job, &request) {
            // The termination has happened, so the job is synchronised in its place.
            self.retries.succeeded(&request);
            request = handler::job_added(&job);
        }
        let choice = decided(&self.info, &job, &request, self.compat);
        if let Some(delay) = choice.delay {
            let name = choice.action.as_str();
            let message = format!("Execute action {name} after {}", duration::format(delay));
            commands.push(JobCommand::Notice(Notice::normal("ExecuteAction", message)));
            self.delays.add(Delayed {
                request,
                action: choice.action,
                due: now.checked_add(delay).unwrap_or(Timestamp::MAX),
            });
            return;
        }
        if choice.action == Action::SyncJob {
            self.settle_syncs(&job);
        } else {
            let retries = self.retries_used(&job, &request, &choice.action);
            let message = format!(
                "Start to execute action {} {retries}",
                choice.action.as_str()
            );
            commands.push(JobCommand::Notice(Notice::normal("ExecuteAction", message)));
        }
        self.start(request, choice.action, End::Usual, now, lister, commands);
    }

    /// Whether a restart uses up one of the retries, for the event about it. Volcano's event has no such words.
    fn retries_used(&self, job: &Job, request: &Request, action: &Action) -> String {
        let task = Task {
            action,
            request,
            compat: self.compat,
        };
        let used = task.uses_retry(job.status.state.phase.or_pending());
        let counts = self.compat.has(Difference::EvictionKeepsRetries);
        match used.filter(|_| counts) {
            None => String::new(),
            Some(false) => "(uses up no retry)".to_owned(),
            Some(true) => {
                let (next, most) = (job.status.retry_count.saturating_add(1), job.spec.max_retry);
                format!("(retry {next} of {most})")
            }
        }
    }

    /// One sync covers all pending syncs, because it sees the state that they would see.
    fn settle_syncs(&mut self, job: &Job) {
        let (delays, compat) = (&mut self.delays, self.compat);
        self.waiting.retain(|other| {
            let choice = choose(job, other, compat);
            let same = choice.action == Action::SyncJob && choice.delay.is_none();
            if same {
                delays.settle(other);
            }
            !same
        });
    }

    fn start(
        &mut self,
        request: Request,
        action: Action,
        end: End,
        now: Timestamp,
        lister: &dyn Lister,
        commands: &mut Vec<JobCommand>,
    ) {
        let task = Task {
            action: &action,
            request: &request,
            compat: self.compat,
        };
        // The round must not ask again for a deletion that was refused a moment ago.
        self.info.refused = self.deletions.waiting(now);
        let (round, step) = Round::start(&mut self.info, task, now, lister);
        let active = Active {
            round,
            request,
            action,
            end,
            recorded: false,
        };
        self.step(active, step, now, lister, commands);
    }

    /// Handles the next step of a round.
    fn step(
        &mut self,
        mut active: Active,
        step: Step,
        now: Timestamp,
        lister: &dyn Lister,
        commands: &mut Vec<JobCommand>,
    ) {
        commands.extend(step.notices.into_iter().map(JobCommand::Notice));
        // The status is written before the first deletion, so a later failure finds the restart counted.
        active.recorded |= step.stored.is_some();
        if let Some(job) = step.stored
            && self.info.job.is_some()
        {
            self.set_job(*job);
        }
        for pod in step.created {
            self.created(pod, now);
        }
        for name in step.unsure {
            // The API server may have carried out a deletion that it answered with an error, so the pod is read.
            self.deletions.failed(name.clone(), None, now);
            self.reads.failed(name, Some(MOST_READS), now);
        }
        match step.next {
            Next::Calls(calls) => {
                self.active = Some(active);
                commands.push(JobCommand::Calls(calls));
            }
            Next::Done(Ok(())) => {
                self.retries.succeeded(&active.request);
                if !active.action.is_internal() || active.end == End::Delayed {
                    self.delays.supersede(&active.action, &active.request);
                }
            }
            Next::Done(Err(error)) => self.failed(active, &error, now, lister, commands),
        }
    }

    fn failed(
        &mut self,
        active: Active,
        error: &RoundError,
        now: Timestamp,
        lister: &dyn Lister,
        commands: &mut Vec<JobCommand>,
    ) {
        let mut request = active.request;
        let Some(job) = self.info.job.as_ref().filter(|_| active.end != End::Last) else {
            return;
        };
        // A sync deletes the marked pods that are left. The action itself would restart the job once more, and count it.
        let sync = handler::job_added(job);
        let recorded = active.recorded && self.compat.has(Difference::ResumeTermination);
        if recorded && request != sync {
            self.retries.succeeded(&request);
            request = sync;
        }
        // A user can still create what is missing, so that the job should not be terminated for it.
        let missing = matches!(error, RoundError::Queue(_) | RoundError::Claim(_));
        let patient = missing && self.compat.has(Difference::WaitForMissing);
        let most = self.most_tries.filter(|_| !patient);
        if self.retries.failed(request.clone(), most, now) {
            return;
        }
        let name = active.action.as_str();
        let message = format!("Job failed on action {name} for retry limit reached");
        commands.push(JobCommand::Notice(Notice::normal("ExecuteAction", message)));
        self.start(
            request,
            Action::TerminateJob,
            End::Last,
            now,
            lister,
            commands,
        );
    }
}
