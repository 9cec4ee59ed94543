//! The loop of the controllers. Watch events and the results of calls become events of the job and queue machines, and their
//! commands are carried out. Each job has at most one step in flight, and so have all queues together.

use super::cache::Cache;
use super::calls::{Calls, ObjectId};
use super::commands;
use super::delay_queue::{DelayQueue, sleep_until};
use super::events::{Events, Involved};
use super::garbage_collector;
use super::metrics::Metrics;
use super::results::TaskResult;
use super::watches::{Delta, KINDS, WatchEvent, WatchedQueue};
use super::workflows::WorkflowNews;
use evictd_batch_jobs::job::{
    Belonging, Call, CommandTarget, JobCommand, JobEvent, JobMachine, expires,
};
use evictd_batch_jobs::queue::{QueueCommand, QueueEvent, QueueMachine};
use evictd_batch_objects::bus::Action;
use evictd_batch_objects::{Command, Compat, Job, PodGroup, TaskPod};
use evictd_cluster_client::{NewsReceiver, NewsSender};
use evictd_pod::wire::full_name;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tracing::{debug, info};

/// The most changes of pods that share a round. Results of calls wait meanwhile.
const MOST_TOGETHER: usize = 1024;

/// An item of the delay queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Delayed {
    /// A job that waits to be synced again.
    Job(String),
    /// A finished job, until its TTL is over.
    FinishedJob(String),
    Queues,
}

/// The objects so far, until all kinds are listed.
#[derive(Debug, Default)]
struct InitialLists {
    listed_kinds: usize,
    jobs: HashMap<String, Arc<Job>>,
    /// By `namespace/name` of the pod.
    pods: HashMap<String, Arc<TaskPod>>,
    queues: HashMap<String, Arc<WatchedQueue>>,
    pod_groups: HashMap<String, Arc<PodGroup>>,
    commands: Vec<Arc<Command>>,
}

pub(super) struct Engine {
    compat: Compat,
    max_requeues: Option<u32>,
    cache: Cache,
    /// By `namespace/name`.
    jobs: HashMap<String, JobMachine>,
    /// The jobs whose pods have changed since their last round.
    changed: BTreeSet<String>,
    queues: QueueMachine,
    delayed: DelayQueue<Delayed>,
    calls: Calls,
    events: Events,
    metrics: Metrics,
    /// `None` once all kinds are listed.
    initial: Option<InitialLists>,
    results: mpsc::UnboundedSender<TaskResult>,
    synced: watch::Sender<bool>,
    /// The controllers of the objects that create jobs.
    workflows: NewsSender<WorkflowNews>,
}

/// The connections of an engine.
pub(super) struct Ports {
    pub(super) calls: Calls,
    pub(super) events: Events,
    pub(super) metrics: Metrics,
    /// Becomes true when all kinds are listed.
    pub(super) synced: watch::Sender<bool>,
    /// Gets all changes of jobs.
    pub(super) workflows: NewsSender<WorkflowNews>,
}

impl Engine {
    pub(super) fn new(
        compat: Compat,
        max_requeues: Option<u32>,
        ports: Ports,
    ) -> (Self, mpsc::UnboundedReceiver<TaskResult>) {
        let (results, received) = mpsc::unbounded_channel();
        let engine = Self {
            compat,
            max_requeues,
            cache: Cache::default(),
            jobs: HashMap::new(),
            changed: BTreeSet::new(),
            queues: QueueMachine::new(max_requeues),
            delayed: DelayQueue::new(),
            calls: ports.calls,
            events: ports.events,
            metrics: ports.metrics,
            initial: Some(InitialLists::default()),
            results,
            synced: ports.synced,
            workflows: ports.workflows,
        };
        (engine, received)
    }

    /// Runs until the watches end, or the task is aborted.
    pub(super) async fn run(
        mut self,
        mut watch_events: NewsReceiver<WatchEvent>,
        mut results: mpsc::UnboundedReceiver<TaskResult>,
    ) {
        loop {
            tokio::select! {
                // Results first, because further calls wait for them.
                biased;
                Some(result) = results.recv() => self.on_result(result),
                event = watch_events.recv() => match event {
                    Some(event) => self.on_watch_events(event, || watch_events.try_recv()),
                    None => return,
                },
                () = sleep_until(self.delayed.next_deadline()) => {}
            }
            while let Some(delayed) = self.delayed.pop_due(Timestamp::now()) {
                self.on_deadline(delayed);
            }
        }
    }

    fn on_result(&mut self, result: TaskResult) {
        match result {
            TaskResult::JobCalls {
                job,
                answers,
                deleted_pod_group,
            } => {
                if let (Some(name), Some((namespace, _))) = (deleted_pod_group, job.split_once('/'))
                {
                    self.cache.pod_group_deleted(namespace, &name);
                }
                self.job_event(&job, JobEvent::Answers(answers));
            }
            TaskResult::PodRead { job, pod, result } => {
                self.job_event(&job, JobEvent::Read(pod, result));
            }
            TaskResult::QueueCall(answer) => self.queue_event(QueueEvent::Answer(answer)),
            TaskResult::CommandDeleted(command) => self.carry_out_command(&command),
        }
    }

    fn on_deadline(&mut self, delayed: Delayed) {
        match delayed {
            Delayed::Job(key) => self.job_event(&key, JobEvent::Tick),
            Delayed::Queues => self.queue_event(QueueEvent::Tick),
            Delayed::FinishedJob(key) => {
                // The job may have been deleted meanwhile.
                let machine = self.jobs.get(&key);
                if let Some(job) = machine.and_then(|machine| machine.info().job.as_ref()) {
                    let job = ObjectId::of(&job.metadata);
                    tokio::spawn(garbage_collector::delete_expired(self.calls.clone(), job));
                }
            }
        }
    }

    /// Takes an event. The changes of pods that have come already share a round of their job, which looks at all its pods.
    fn on_watch_events(&mut self, first: WatchEvent, mut next: impl FnMut() -> Option<WatchEvent>) {
        let mut event = Some(first);
        let mut left = MOST_TOGETHER;
        while let Some(current) = event {
            let is_pod = matches!(current, WatchEvent::Pod(_));
            self.on_watch_event(current);
            left -= 1;
            event = (is_pod && left > 0).then(&mut next).flatten();
        }
        for key in std::mem::take(&mut self.changed) {
            self.job_event(&key, JobEvent::Tick);
        }
    }

    fn on_watch_event(&mut self, event: WatchEvent) {
        if let WatchEvent::Job(delta) = &event {
            self.workflows.send(WorkflowNews::Job(delta.clone()));
        }
        if let Some(mut initial) = self.initial.take() {
            self.on_initial_event(&mut initial, event);
            if initial.listed_kinds < KINDS {
                self.initial = Some(initial);
            } else {
                self.start_machines(initial);
            }
            return;
        }
        match event {
            WatchEvent::Job(delta) => self.job_changed(&delta),
            WatchEvent::Pod(delta) => self.pod_changed(&delta),
            WatchEvent::PodGroup(delta) => self.pod_group_changed(&delta),
            WatchEvent::Queue(delta) => self.queue_changed(&delta),
            WatchEvent::Command(Delta {
                old: None,
                new: Some(command),
            }) => self.delete_command(command),
            WatchEvent::Command(_) | WatchEvent::Listed => {}
            WatchEvent::PriorityClass(delta) => self.cache.update_priority_class(&delta),
            WatchEvent::Claim(delta) => {
                self.cache.update_claim(&delta);
                if let (None, Some(claim)) = (&delta.old, &delta.new) {
                    let namespace = claim.metadata.namespace_or_default().to_owned();
                    let name = claim.metadata.name.clone();
                    self.retry_jobs(|job| {
                        let mut volumes = job.spec.volumes.iter();
                        let mounts = volumes.any(|volume| volume.volume_claim_name == name);
                        mounts && job.metadata.namespace_or_default() == namespace
                    });
                }
            }
        }
    }

    /// A dependency of these jobs was created. They may have waited for it.
    fn retry_jobs(&mut self, depends: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.iter().filter(|(_, machine)| {
            let job = machine.info().job.as_ref();
            job.is_some_and(|job| depends(job))
        });
        let keys: Vec<String> = jobs.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.job_event(&key, JobEvent::Appeared);
        }
    }

    /// No machine runs before all kinds are listed: it would take an unlisted object for a missing one.
    fn on_initial_event(&mut self, initial: &mut InitialLists, event: WatchEvent) {
        match event {
            WatchEvent::Job(delta) => {
                apply(&mut initial.jobs, delta, |job| job.metadata.full_name());
            }
            WatchEvent::Pod(delta) => {
                apply(&mut initial.pods, delta, |pod| pod.metadata.full_name());
            }
            WatchEvent::Queue(delta) => {
                self.cache.update_queue(&delta);
                apply(&mut initial.queues, delta, |queue| {
                    queue.metadata.name.clone()
                });
            }
            WatchEvent::PodGroup(delta) => {
                self.cache.update_pod_group(&delta);
                self.metrics
                    .pod_group(delta.old.as_deref(), delta.new.as_deref());
                apply(&mut initial.pod_groups, delta, |group| {
                    group.metadata.full_name()
                });
            }
            WatchEvent::Command(Delta {
                new: Some(command), ..
            }) => initial.commands.push(command),
            WatchEvent::Command(_) => {}
            WatchEvent::PriorityClass(delta) => self.cache.update_priority_class(&delta),
            WatchEvent::Claim(delta) => self.cache.update_claim(&delta),
            WatchEvent::Listed => initial.listed_kinds += 1,
        }
    }

    fn start_machines(&mut self, initial: InitialLists) {
        info!(
            "listed {} jobs, {} queues and {} pod groups",
            initial.jobs.len(),
            initial.queues.len(),
            initial.pod_groups.len()
        );
        let mut pods: HashMap<String, Vec<Arc<TaskPod>>> = HashMap::new();
        for pod in initial.pods.into_values() {
            if let Some(key) = job_key(&pod) {
                pods.entry(key).or_default().push(pod);
            }
        }
        for (key, job) in initial.jobs {
            self.schedule_deletion(&key, &job);
            let pods = pods.remove(&key).unwrap_or_default();
            self.job_event(&key, JobEvent::Found(Box::new((*job).clone()), pods));
        }
        // Pods of jobs that do not exist.
        for (key, pods) in pods {
            for pod in pods {
                self.job_event(&key, JobEvent::Pod(pod));
            }
        }
        // Before the queues: a closing queue without groups would be closed.
        for group in initial.pod_groups.into_values() {
            self.queue_event(QueueEvent::Group(None, group));
        }
        for queue in initial.queues.into_values() {
            self.queue_event(QueueEvent::Queue(None, Arc::new(queue.view())));
        }
        for command in initial.commands {
            self.delete_command(command);
        }
        self.synced.send_replace(true);
        self.workflows.send(WorkflowNews::Listed);
    }

    fn job_changed(&mut self, delta: &Delta<Job>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let key = new.metadata.full_name();
                self.schedule_deletion(&key, new);
                self.job_event(&key, JobEvent::Job(Box::new((**new).clone())));
            }
            (Some(old), None) => {
                let key = old.metadata.full_name();
                self.metrics.remove_job(&key);
                self.job_event(&key, JobEvent::JobGone);
            }
            (None, None) => {}
        }
    }

    /// Schedules the deletion of a finished job with a TTL, and updates the metrics.
    fn schedule_deletion(&mut self, key: &str, job: &Job) {
        let delayed = Delayed::FinishedJob(key.to_owned());
        match expires(job) {
            Some(time) => self.delayed.set(delayed, time),
            None => self.delayed.remove(&delayed),
        }
        self.metrics.job(key, job);
    }

    fn pod_changed(&mut self, delta: &Delta<TaskPod>) {
        let Some(pod) = delta.new.as_ref().or(delta.old.as_ref()) else {
            return;
        };
        let Some(key) = job_key(pod) else {
            return;
        };
        let settings = (self.compat, self.max_requeues);
        let Some(machine) = machine_of(&mut self.jobs, &key, settings) else {
            return;
        };
        match (&delta.old, &delta.new) {
            (_, Some(new)) => machine.set_pod(new),
            (Some(old), None) => machine.remove_pod(old),
            (None, None) => {}
        }
        self.changed.insert(key);
    }

    fn pod_group_changed(&mut self, delta: &Delta<PodGroup>) {
        let concerns_job = self.cache.update_pod_group(delta);
        self.metrics
            .pod_group(delta.old.as_deref(), delta.new.as_deref());
        let (old, new) = (delta.old.clone(), delta.new.clone());
        match (old.clone(), new.clone()) {
            (old, Some(new)) => self.queue_event(QueueEvent::Group(old, new)),
            (Some(old), None) => self.queue_event(QueueEvent::GroupGone(old)),
            (None, None) => {}
        }
        let Some(group) = new.as_ref().or(old.as_ref()) else {
            return;
        };
        let metadata = group.metadata.clone();
        let owner = metadata
            .owner_references
            .iter()
            .rfind(|owner| owner.kind == "Job");
        let job = owner.map_or(&metadata.name, |owner| &owner.name);
        let key = full_name(metadata.namespace_or_default(), job);
        // An absent group counts as one that is not enqueued.
        let absent = || {
            Arc::new(PodGroup {
                metadata: metadata.clone(),
                ..PodGroup::default()
            })
        };
        if concerns_job && self.jobs.contains_key(&key) {
            let (old, new) = (old.unwrap_or_else(absent), new.unwrap_or_else(absent));
            self.job_event(&key, JobEvent::Group(old, new));
        }
    }

    fn queue_changed(&mut self, delta: &Delta<WatchedQueue>) {
        self.cache.update_queue(delta);
        let view = |queue: &Arc<WatchedQueue>| Arc::new(queue.view());
        match (&delta.old, &delta.new) {
            (old, Some(new)) => {
                self.queue_event(QueueEvent::Queue(old.as_ref().map(view), view(new)));
                if old.is_none() {
                    let name = new.metadata.name.clone();
                    self.retry_jobs(|job| job.spec.queue == name);
                }
            }
            (Some(old), None) => {
                self.metrics.remove_queue(&old.metadata.name);
                self.queue_event(QueueEvent::QueueGone(view(old)));
            }
            (None, None) => {}
        }
    }

    /// A Command is deleted before it is carried out (S6-012).
    fn delete_command(&mut self, command: Arc<Command>) {
        let (calls, results) = (self.calls.clone(), self.results.clone());
        tokio::spawn(commands::delete(calls, command, results));
    }

    fn carry_out_command(&mut self, command: &Command) {
        let action = Action::of(&command.action);
        let (id, action_name) = (command.metadata.full_name(), &command.action);
        match CommandTarget::of(command) {
            Some(CommandTarget::Job {
                namespace,
                name,
                uid,
            }) => {
                let key = full_name(namespace, name);
                let machine = self.jobs.get(&key);
                let job = machine.and_then(|machine| machine.info().job.as_ref());
                if job.is_some_and(|job| *job.metadata.uid == *uid) {
                    self.job_event(&key, JobEvent::Command(action));
                } else {
                    info!(
                        "ignored the Command {id} ({action_name}): there is no job {key} of that UID"
                    );
                }
            }
            Some(CommandTarget::Queue { name, uid }) => {
                let queue = self.cache.queue_metadata(name);
                if queue.is_some_and(|queue| *queue.uid == *uid) {
                    self.queue_event(QueueEvent::Command(name.to_owned(), action));
                } else {
                    info!(
                        "ignored the Command {id} ({action_name}): there is no queue {name} of that UID"
                    );
                }
            }
            Some(CommandTarget::Misplaced) => info!(
                "ignored the Command {id} ({action_name}): Commands to queues count in the namespace default only"
            ),
            None => {}
        }
    }

    /// Passes an event to the machine of a job, and carries out its commands.
    fn job_event(&mut self, key: &str, event: JobEvent) {
        let Some((namespace, name)) = key.split_once('/') else {
            return;
        };
        let settings = (self.compat, self.max_requeues);
        let Some(machine) = machine_of(&mut self.jobs, key, settings) else {
            return;
        };
        let commands = machine.on_event(Timestamp::now(), event, &self.cache);
        let job = machine.info().job.clone();
        let is_gone = machine.is_gone();
        for command in commands {
            match command {
                JobCommand::Notice(notice) => {
                    if let Some(job) = &job {
                        self.events.send(
                            Involved::Job(&job.metadata),
                            notice.tone.as_str(),
                            notice.reason,
                            notice.message,
                        );
                    }
                }
                JobCommand::Calls(calls) => {
                    let id = job.as_deref().map(|job| ObjectId::of(&job.metadata));
                    // A deleted job still has to delete its pods and its pod group.
                    let id = id.unwrap_or_else(|| ObjectId {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                        uid: String::new(),
                    });
                    self.spawn_calls(key.to_owned(), id, calls);
                }
                JobCommand::Read(pod) => {
                    self.spawn_read(key.to_owned(), namespace.to_owned(), pod);
                }
                JobCommand::Wake(time) => self.delayed.set(Delayed::Job(key.to_owned()), time),
            }
        }
        if is_gone {
            self.jobs.remove(key);
            self.delayed.remove(&Delayed::Job(key.to_owned()));
            self.delayed.remove(&Delayed::FinishedJob(key.to_owned()));
        }
    }

    fn spawn_calls(&self, job: String, id: ObjectId, step: Vec<Call>) {
        debug!("{job}: {step:?}");
        let (calls, results) = (self.calls.clone(), self.results.clone());
        let pod_group = step.iter().find_map(|call| match call {
            Call::DeletePodGroup { name } => Some(name.clone()),
            _ => None,
        });
        tokio::spawn(async move {
            let answers = calls.carry_out(id, step).await;
            let deleted_pod_group = pod_group.filter(|_| answers.iter().all(Result::is_ok));
            // The receiver is closed when the controllers end.
            let _ = results.send(TaskResult::JobCalls {
                job,
                answers,
                deleted_pod_group,
            });
        });
    }

    fn spawn_read(&self, job: String, namespace: String, pod: String) {
        let (calls, results) = (self.calls.clone(), self.results.clone());
        tokio::spawn(async move {
            let read = calls.pod(&namespace, &pod).await;
            let result = read.map(|pod| pod.map(Arc::new)).map_err(|_| ());
            let _ = results.send(TaskResult::PodRead { job, pod, result });
        });
    }

    /// Passes an event to the machine of the queues, and carries out its commands.
    fn queue_event(&mut self, event: QueueEvent) {
        let commands = self.queues.on_event(Timestamp::now(), event, &self.cache);
        for command in commands {
            match command {
                QueueCommand::Call(call) => {
                    let (calls, results) = (self.calls.clone(), self.results.clone());
                    tokio::spawn(async move {
                        let _ = results.send(TaskResult::QueueCall(calls.queue(call).await));
                    });
                }
                QueueCommand::Notice(name, notice) => {
                    if let Some(metadata) = self.cache.queue_metadata(&name) {
                        self.events.send(
                            Involved::Queue(metadata),
                            notice.tone.as_str(),
                            notice.reason,
                            notice.message,
                        );
                    }
                }
                QueueCommand::Wake(time) => self.delayed.set(Delayed::Queues, time),
            }
        }
    }
}

/// The machine of a job. The first change of an unknown one makes it.
fn machine_of<'m>(
    jobs: &'m mut HashMap<String, JobMachine>,
    key: &str,
    (compat, max_requeues): (Compat, Option<u32>),
) -> Option<&'m mut JobMachine> {
    let (namespace, name) = key.split_once('/')?;
    let machine = jobs.entry(key.to_owned());
    Some(machine.or_insert_with(|| JobMachine::new(namespace, name, compat, max_requeues)))
}

/// `namespace/name` of the job that a pod belongs to.
fn job_key(pod: &TaskPod) -> Option<String> {
    let belonging = Belonging::of(pod)?;
    Some(full_name(belonging.namespace, belonging.job))
}

fn apply<T>(objects: &mut HashMap<String, Arc<T>>, delta: Delta<T>, key: impl Fn(&T) -> String) {
    match (delta.old, delta.new) {
        (_, Some(new)) => {
            objects.insert(key(&new), new);
        }
        (Some(old), None) => {
            objects.remove(&key(&old));
        }
        (None, None) => {}
    }
}

#[cfg(test)]
#[path = "engine/tests.rs"]
mod tests;
