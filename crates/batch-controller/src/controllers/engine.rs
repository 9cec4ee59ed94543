//! The loop of the controllers: what changes in the cluster, and what calls bring, goes to the machines of jobs and
//! queues; what they want is done. One round of a job, and one of all queues, is under way at a time.

use super::back::Back;
use super::calls::{Calls, Owner};
use super::chores;
use super::events::{About, Events};
use super::known::{Known, key};
use super::metrics::Metrics;
use super::wakes::Wakes;
use super::watches::{Delta, KINDS, News, WatchedQueue};
use evictd_batch::bus::Action;
use evictd_batch::compat::Compat;
use evictd_batch::job::{
    Belonging, Call, CommandTarget, JobCommand, JobEvent, JobMachine, expires,
};
use evictd_batch::queue::{QueueCommand, QueueEvent, QueueMachine};
use evictd_batch::wire::{Command, Job, PodGroup, TaskPod};
use evictd_cluster_client::NewsReceiver;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::{debug, info};

/// Who waits for a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Waiting {
    Job(String),
    /// A finished job, for its end.
    Expiry(String),
    Queues,
}

/// What is known before all kinds are listed.
#[derive(Debug, Default)]
struct Found {
    listed: usize,
    jobs: HashMap<String, Arc<Job>>,
    /// By namespace and name of the pod.
    pods: HashMap<String, Arc<TaskPod>>,
    queues: HashMap<String, Arc<WatchedQueue>>,
    groups: HashMap<String, Arc<PodGroup>>,
    commands: Vec<Arc<Command>>,
}

pub(super) struct Engine {
    compat: Compat,
    most_tries: Option<u32>,
    known: Known,
    jobs: HashMap<String, JobMachine>,
    queues: QueueMachine,
    wakes: Wakes<Waiting>,
    calls: Calls,
    events: Events,
    metrics: Metrics,
    /// Until all is listed.
    found: Option<Found>,
    back: mpsc::UnboundedSender<Back>,
    synced: watch::Sender<bool>,
}

/// What the engine works with.
pub(super) struct Ports {
    pub(super) calls: Calls,
    pub(super) events: Events,
    pub(super) metrics: Metrics,
    pub(super) synced: watch::Sender<bool>,
}

impl Engine {
    pub(super) fn new(
        compat: Compat,
        most_tries: Option<u32>,
        ports: Ports,
    ) -> (Self, mpsc::UnboundedReceiver<Back>) {
        let (back, received) = mpsc::unbounded_channel();
        let engine = Self {
            compat,
            most_tries,
            known: Known::default(),
            jobs: HashMap::new(),
            queues: QueueMachine::new(most_tries),
            wakes: Wakes::new(),
            calls: ports.calls,
            events: ports.events,
            metrics: ports.metrics,
            found: Some(Found::default()),
            back,
            synced: ports.synced,
        };
        (engine, received)
    }

    /// Works until the task is ended, or no news can come any more.
    pub(super) async fn run(
        mut self,
        mut news: NewsReceiver<News>,
        mut back: mpsc::UnboundedReceiver<Back>,
    ) {
        loop {
            tokio::select! {
                // Answers first: they free what waits.
                biased;
                Some(back) = back.recv() => self.back(back),
                own = news.recv() => match own {
                    Some(news) => self.news(news),
                    None => return,
                },
                () = until(self.wakes.next()) => {}
            }
            while let Some(waiting) = self.wakes.due(Timestamp::now()) {
                self.wake(waiting);
            }
        }
    }

    fn back(&mut self, back: Back) {
        match back {
            Back::Answers(key, answers, group) => {
                if let (Some(name), Some((namespace, _))) = (group, key.split_once('/')) {
                    self.known.group_deleted(namespace, &name);
                }
                self.job(&key, JobEvent::Answers(answers));
            }
            Back::Read(key, name, pod) => self.job(&key, JobEvent::Read(name, pod)),
            Back::Queue(answer) => self.queue(QueueEvent::Answer(answer)),
            Back::Command(command) => self.command(&command),
        }
    }

    fn wake(&mut self, waiting: Waiting) {
        match waiting {
            Waiting::Job(key) => self.job(&key, JobEvent::Tick),
            Waiting::Queues => self.queue(QueueEvent::Tick),
            Waiting::Expiry(key) => {
                let machine = self.jobs.get(&key);
                if let Some(job) = machine.and_then(|machine| machine.info().job.as_ref()) {
                    tokio::spawn(chores::expire(self.calls.clone(), owner(job)));
                }
            }
        }
    }

    fn news(&mut self, news: News) {
        if let Some(mut found) = self.found.take() {
            self.first_news(&mut found, news);
            if found.listed < KINDS {
                self.found = Some(found);
            } else {
                self.begin(found);
            }
            return;
        }
        match news {
            News::Job(delta) => self.job_changed(&delta),
            News::Pod(delta) => self.pod_changed(delta),
            News::PodGroup(delta) => self.group_changed(&delta),
            News::Queue(delta) => self.queue_changed(&delta),
            News::Command(Delta {
                old: None,
                new: Some(command),
            }) => self.issued(command),
            News::Command(_) | News::Listed => {}
            News::PriorityClass(delta) => self.known.class(&delta),
            News::Claim(delta) => {
                self.known.claim(&delta);
                if let Delta {
                    old: None,
                    new: Some(claim),
                } = &delta
                {
                    let namespace = claim.metadata.namespace_or_default().to_owned();
                    let name = claim.metadata.name.clone();
                    self.appeared(|job| {
                        let mut volumes = job.spec.volumes.iter();
                        let named = volumes.any(|volume| volume.volume_claim_name == name);
                        named && job.metadata.namespace_or_default() == namespace
                    });
                }
            }
        }
    }

    /// What jobs like this may have waited for has appeared.
    fn appeared(&mut self, concerned: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.iter().filter(|(_, machine)| {
            let job = machine.info().job.as_ref();
            job.is_some_and(|job| concerned(job))
        });
        let keys: Vec<String> = jobs.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.job(&key, JobEvent::Appeared);
        }
    }

    /// Nothing is decided before all is known.
    fn first_news(&mut self, found: &mut Found, news: News) {
        match news {
            News::Job(delta) => keep(&mut found.jobs, delta, |job| key(&job.metadata)),
            News::Pod(delta) => keep(&mut found.pods, delta, |pod| key(&pod.metadata)),
            News::Queue(delta) => {
                self.known.queue(&delta);
                keep(&mut found.queues, delta, |queue| {
                    queue.metadata.name.clone()
                });
            }
            News::PodGroup(delta) => {
                self.known.group(&delta);
                self.metrics
                    .group(delta.old.as_deref(), delta.new.as_deref());
                keep(&mut found.groups, delta, |group| key(&group.metadata));
            }
            News::Command(Delta {
                new: Some(command), ..
            }) => found.commands.push(command),
            News::Command(_) => {}
            News::PriorityClass(delta) => self.known.class(&delta),
            News::Claim(delta) => self.known.claim(&delta),
            News::Listed => found.listed += 1,
        }
    }

    fn begin(&mut self, found: Found) {
        info!(
            "knows {} jobs, {} queues and {} groups",
            found.jobs.len(),
            found.queues.len(),
            found.groups.len()
        );
        let mut pods: HashMap<String, Vec<Arc<TaskPod>>> = HashMap::new();
        for pod in found.pods.into_values() {
            if let Some(key) = job_of(&pod) {
                pods.entry(key).or_default().push(pod);
            }
        }
        for (key, job) in found.jobs {
            self.expiry(&key, &job);
            let own = pods.remove(&key).unwrap_or_default();
            self.job(&key, JobEvent::Found(Box::new((*job).clone()), own));
        }
        for (key, pods) in pods {
            for pod in pods {
                self.job(&key, JobEvent::Pod(pod));
            }
        }
        // Before the queues: one without groups would be closed.
        for group in found.groups.into_values() {
            self.queue(QueueEvent::Group(None, group));
        }
        for queue in found.queues.into_values() {
            self.queue(QueueEvent::Queue(None, Arc::new(queue.view())));
        }
        for command in found.commands {
            self.issued(command);
        }
        self.synced.send_replace(true);
    }

    fn job_changed(&mut self, delta: &Delta<Job>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let key = key(&new.metadata);
                self.expiry(&key, new);
                self.job(&key, JobEvent::Job(Box::new((**new).clone())));
            }
            (Some(old), None) => {
                let key = key(&old.metadata);
                self.metrics.forget_job(&key);
                self.job(&key, JobEvent::JobGone);
            }
            (None, None) => {}
        }
    }

    fn expiry(&mut self, key: &str, job: &Job) {
        let waiting = Waiting::Expiry(key.to_owned());
        match expires(job) {
            Some(time) => self.wakes.set(waiting, time),
            None => self.wakes.forget(&waiting),
        }
        self.metrics.job(key, job);
    }

    fn pod_changed(&mut self, delta: Delta<TaskPod>) {
        let (event, pod) = match (delta.old, delta.new) {
            (_, Some(new)) => (JobEvent::Pod(Arc::clone(&new)), new),
            (Some(old), None) => (JobEvent::PodGone(Arc::clone(&old)), old),
            (None, None) => return,
        };
        if let Some(key) = job_of(&pod) {
            self.job(&key, event);
        }
    }

    fn group_changed(&mut self, delta: &Delta<PodGroup>) {
        let heard = self.known.group(delta);
        self.metrics
            .group(delta.old.as_deref(), delta.new.as_deref());
        let (old, new) = (delta.old.clone(), delta.new.clone());
        match (old.clone(), new.clone()) {
            (old, Some(new)) => self.queue(QueueEvent::Group(old, new)),
            (Some(old), None) => self.queue(QueueEvent::GroupGone(old)),
            (None, None) => {}
        }
        let Some(metadata) = new.as_ref().or(old.as_ref()) else {
            return;
        };
        let metadata = metadata.metadata.clone();
        let namespace = metadata.namespace_or_default();
        let mut owners = metadata.owner_references.iter();
        let owner = owners.rfind(|owner| owner.kind == "Job");
        let name = owner.map_or(&metadata.name, |owner| &owner.name);
        let key = format!("{namespace}/{name}");
        // What was not there, or is gone, counts as a group that was not let in.
        let absent = || {
            Arc::new(PodGroup {
                metadata: metadata.clone(),
                ..PodGroup::default()
            })
        };
        if heard && self.jobs.contains_key(&key) {
            let (old, new) = (old.unwrap_or_else(absent), new.unwrap_or_else(absent));
            self.job(&key, JobEvent::Group(old, new));
        }
    }

    fn queue_changed(&mut self, delta: &Delta<WatchedQueue>) {
        self.known.queue(delta);
        let view = |queue: &Arc<WatchedQueue>| Arc::new(queue.view());
        match (&delta.old, &delta.new) {
            (old, Some(new)) => {
                self.queue(QueueEvent::Queue(old.as_ref().map(view), view(new)));
                if old.is_none() {
                    let name = new.metadata.name.clone();
                    self.appeared(|job| job.spec.queue == name);
                }
            }
            (Some(old), None) => {
                self.metrics.forget_queue(&old.metadata.name);
                self.queue(QueueEvent::QueueGone(view(old)));
            }
            (None, None) => {}
        }
    }

    /// A Command is deleted before it acts (S6-012).
    fn issued(&mut self, command: Arc<Command>) {
        tokio::spawn(chores::take(self.calls.clone(), command, self.back.clone()));
    }

    fn command(&mut self, command: &Command) {
        let action = Action::of(&command.action);
        let (place, order) = (&command.metadata, &command.action);
        let place = place.full_name();
        match CommandTarget::of(command) {
            Some(CommandTarget::Job {
                namespace,
                name,
                uid,
            }) => {
                let key = format!("{namespace}/{name}");
                let known = self.jobs.get(&key);
                let job = known.and_then(|machine| machine.info().job.as_ref());
                if job.is_some_and(|job| *job.metadata.uid == *uid) {
                    self.job(&key, JobEvent::Command(action));
                } else {
                    info!("the Command {place} ({order}) was for a job {key} that is not there");
                }
            }
            Some(CommandTarget::Queue { name, uid }) => {
                let known = self.known.queue_metadata(name);
                if known.is_some_and(|known| *known.uid == *uid) {
                    self.queue(QueueEvent::Command(name.to_owned(), action));
                } else {
                    info!("the Command {place} ({order}) was for a queue {name} that is not there");
                }
            }
            Some(CommandTarget::Misplaced) => info!(
                "the Command {place} ({order}) is for a queue: it counts in the namespace default only"
            ),
            None => {}
        }
    }

    /// Gives an event to a job, and does what it wants then.
    fn job(&mut self, key: &str, event: JobEvent) {
        let Some((namespace, name)) = key.split_once('/') else {
            return;
        };
        let (compat, most) = (self.compat, self.most_tries);
        let machine = self.jobs.entry(key.to_owned());
        let machine = machine.or_insert_with(|| JobMachine::new(namespace, name, compat, most));
        let commands = machine.on_event(Timestamp::now(), event, &self.known);
        let job = machine.info().job.clone();
        let gone = machine.is_gone();
        for command in commands {
            match command {
                JobCommand::Notice(notice) => {
                    if let Some(job) = &job {
                        let tone = notice.tone.as_str();
                        self.events.send(
                            About::Job(&job.metadata),
                            tone,
                            notice.reason,
                            notice.message,
                        );
                    }
                }
                JobCommand::Calls(calls) => {
                    let owner = job.as_deref().map(owner);
                    let owner = owner.unwrap_or_else(|| Owner {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                        uid: String::new(),
                    });
                    self.make(key.to_owned(), owner, calls);
                }
                JobCommand::Read(pod) => self.read(key.to_owned(), namespace.to_owned(), pod),
                JobCommand::Wake(time) => self.wakes.set(Waiting::Job(key.to_owned()), time),
            }
        }
        if gone {
            self.jobs.remove(key);
            self.wakes.forget(&Waiting::Job(key.to_owned()));
            self.wakes.forget(&Waiting::Expiry(key.to_owned()));
        }
    }

    fn make(&self, key: String, owner: Owner, made: Vec<Call>) {
        debug!("{key}: {made:?}");
        let (calls, back) = (self.calls.clone(), self.back.clone());
        let mut groups = made.iter().filter_map(|call| match call {
            Call::DeletePodGroup { name } => Some(name.clone()),
            _ => None,
        });
        let group = groups.next();
        tokio::spawn(async move {
            let answers = calls.make(owner, made).await;
            let deleted = group.filter(|_| answers.iter().all(Result::is_ok));
            // The receiver is gone when the controllers end.
            let _ = back.send(Back::Answers(key, answers, deleted));
        });
    }

    fn read(&self, key: String, namespace: String, pod: String) {
        let (calls, back) = (self.calls.clone(), self.back.clone());
        tokio::spawn(async move {
            let read = calls.pod(&namespace, &pod).await;
            let read = read.map(|found| found.map(Arc::new)).map_err(|_| ());
            let _ = back.send(Back::Read(key, pod, read));
        });
    }

    /// Gives an event to the queues, and does what they want then.
    fn queue(&mut self, event: QueueEvent) {
        let commands = self.queues.on_event(Timestamp::now(), event, &self.known);
        for command in commands {
            match command {
                QueueCommand::Call(call) => {
                    let (calls, back) = (self.calls.clone(), self.back.clone());
                    tokio::spawn(async move {
                        let _ = back.send(Back::Queue(calls.queue(call).await));
                    });
                }
                QueueCommand::Notice(name, notice) => {
                    if let Some(metadata) = self.known.queue_metadata(&name) {
                        let about = About::Queue(metadata);
                        self.events.send(
                            about,
                            notice.tone.as_str(),
                            notice.reason,
                            notice.message,
                        );
                    }
                }
                QueueCommand::Wake(time) => self.wakes.set(Waiting::Queues, time),
            }
        }
    }
}

fn owner(job: &Job) -> Owner {
    Owner {
        namespace: job.metadata.namespace_or_default().to_owned(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.to_string(),
    }
}

/// The job that the pod belongs to, `namespace/name`.
fn job_of(pod: &TaskPod) -> Option<String> {
    let belonging = Belonging::of(pod)?;
    Some(format!("{}/{}", belonging.namespace, belonging.job))
}

fn keep<T>(all: &mut HashMap<String, Arc<T>>, delta: Delta<T>, key: impl Fn(&T) -> String) {
    match (delta.old, delta.new) {
        (_, Some(new)) => {
            all.insert(key(&new), new);
        }
        (Some(old), None) => {
            all.remove(&key(&old));
        }
        (None, None) => {}
    }
}

async fn until(time: Option<Timestamp>) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    let left = Timestamp::now().duration_until(time);
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
}
