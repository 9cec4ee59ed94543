//! The controllers of cron jobs, flows and job templates: one task with one machine for all of them. It gets jobs from the
//! engine, so that they are watched once.

use super::calls::{Calls, MERGE_PATCH, refusal};
use super::delay_queue::sleep_until;
use super::events::{Events, Involved};
use super::watches::{Delta, WatchSet};
use evictd_batch_objects::Job;
use evictd_batch_workflows::{
    Answer, Call, CronJob, Done, JobFlow, JobTemplate, Kind, Object, WorkflowCommand,
    WorkflowEvent, WorkflowKey, WorkflowMachine,
};
use evictd_cluster_client::{Access, NewsReceiver, NewsSender, Watches};
use evictd_reconcile::Refusal;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::{debug, info};

/// Something that these controllers hear of.
pub(super) enum WorkflowNews {
    Job(Delta<Job>),
    CronJob(Delta<CronJob>),
    JobFlow(Delta<JobFlow>),
    JobTemplate(Delta<JobTemplate>),
    /// One more kind is listed.
    Listed,
}

/// The number of kinds: the three that are watched here, and jobs.
const KINDS: usize = 4;

/// Starts the watches. Must be called inside the runtime. The tasks end with the receiver.
pub(super) fn watch(access: &Access, sender: &NewsSender<WorkflowNews>, watches: &Watches) {
    let set = WatchSet::new(access, sender, watches, || WorkflowNews::Listed);
    let cron_jobs = "/apis/batch.volcano.sh/v1alpha1/cronjobs";
    set.watch(cron_jobs, WorkflowNews::CronJob);
    let flows = "/apis/flow.volcano.sh/v1alpha1/jobflows";
    set.watch(flows, WorkflowNews::JobFlow);
    let templates = "/apis/flow.volcano.sh/v1alpha1/jobtemplates";
    set.watch(templates, WorkflowNews::JobTemplate);
}

/// The task of these controllers.
pub(super) struct Workflows {
    machine: WorkflowMachine,
    listed_kinds: usize,
    calls: Calls,
    events: Events,
    /// When the machine is due.
    due: Option<Timestamp>,
    answers: mpsc::Sender<(WorkflowKey, Answer)>,
}

/// The number of answers that wait for the task. More calls wait with theirs.
const WAITING_ANSWERS: usize = 64;

impl Workflows {
    /// Runs until the news end, or the task is aborted.
    pub(super) async fn run(
        machine: WorkflowMachine,
        (calls, events): (Calls, Events),
        mut news: NewsReceiver<WorkflowNews>,
    ) {
        let (answers, mut answered) = mpsc::channel(WAITING_ANSWERS);
        let mut workflows = Self {
            machine,
            listed_kinds: 0,
            calls,
            events,
            due: None,
            answers,
        };
        loop {
            tokio::select! {
                // Answers first, because further calls wait for them.
                biased;
                Some((key, answer)) = answered.recv() => {
                    workflows.on_event(WorkflowEvent::Answer(key, answer));
                }
                heard = news.recv() => match heard {
                    Some(heard) => workflows.hear(heard),
                    None => return,
                },
                () = sleep_until(workflows.due) => workflows.on_event(WorkflowEvent::Tick),
            }
        }
    }

    fn hear(&mut self, heard: WorkflowNews) {
        let event = match heard {
            WorkflowNews::Listed => {
                self.listed_kinds += 1;
                if self.listed_kinds < KINDS {
                    return;
                }
                info!("cron jobs, flows and job templates are listed");
                Some(WorkflowEvent::Listed)
            }
            WorkflowNews::Job(Delta { old, new }) => match (old, new) {
                (old, Some(new)) => Some(WorkflowEvent::Job(old, new)),
                (Some(old), None) => Some(WorkflowEvent::JobGone(old)),
                (None, None) => None,
            },
            WorkflowNews::CronJob(delta) => event(delta, Object::CronJob),
            WorkflowNews::JobFlow(delta) => event(delta, Object::JobFlow),
            WorkflowNews::JobTemplate(delta) => event(delta, Object::JobTemplate),
        };
        if let Some(event) = event {
            self.on_event(event);
        }
    }

    /// Passes an event to the machine, and carries out its commands.
    fn on_event(&mut self, event: WorkflowEvent) {
        let now = Timestamp::now();
        self.due = self.due.filter(|due| *due > now);
        for command in self.machine.on_event(now, event) {
            match command {
                WorkflowCommand::Call(key, call) => {
                    debug!("{key}: {call:?}");
                    let (calls, answers) = (self.calls.clone(), self.answers.clone());
                    tokio::spawn(async move {
                        let answer = calls.workflow(&key, *call).await;
                        // The receiver is closed when the controllers end.
                        let _ = answers.send((key, answer)).await;
                    });
                }
                WorkflowCommand::Notice(object, notice) => {
                    let metadata = object.metadata();
                    let involved = match &object {
                        Object::CronJob(_) => Involved::CronJob(metadata),
                        Object::JobFlow(_) => Involved::JobFlow(metadata),
                        Object::JobTemplate(_) => Involved::JobTemplate(metadata),
                    };
                    let event_type = notice.tone.as_str();
                    self.events
                        .send(involved, event_type, notice.reason, notice.message);
                }
                WorkflowCommand::Wake(time) => self.due = Some(time),
            }
        }
    }
}

fn event<T>(delta: Delta<T>, object: fn(Arc<T>) -> Object) -> Option<WorkflowEvent> {
    match (delta.old, delta.new) {
        (old, Some(new)) => Some(WorkflowEvent::Object(old.map(object), object(new))),
        (Some(old), None) => Some(WorkflowEvent::Gone(object(old))),
        (None, None) => None,
    }
}

fn jobs(namespace: &str) -> String {
    format!("/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs")
}

impl Calls {
    /// Carries out the call of a sync.
    async fn workflow(&self, key: &WorkflowKey, call: Call) -> Answer {
        match call {
            Call::CreateJob { job } => {
                let created: Result<Job, _> = self.create(jobs(&key.namespace), &job).await;
                let created = created.map(|job| Done::Job(Arc::new(job)));
                created.map_err(|error| refusal(&error))
            }
            Call::ReadJob { namespace, name } => match self.job(&namespace, &name).await {
                Ok(Some(job)) => Ok(Done::Job(Arc::new(job))),
                Ok(None) => Err(Refusal::NotFound),
                Err(error) => Err(refusal(&error)),
            },
            Call::DeleteJob {
                namespace,
                name,
                uid,
            } => {
                let path = format!("{}/{name}", jobs(&namespace));
                let options =
                    json!({"propagationPolicy": "Background", "preconditions": {"uid": uid}});
                match self.delete(path, &options).await {
                    Ok(()) => Ok(Done::Nothing),
                    // Another job has its name, so this one is deleted already.
                    Err(error) if error.status().is_some_and(|status| status.code == 409) => {
                        Err(Refusal::NotFound)
                    }
                    Err(error) => Err(refusal(&error)),
                }
            }
            Call::WriteStatus { patch, .. } => self.write_status(key, &patch).await,
        }
    }

    async fn write_status(&self, key: &WorkflowKey, patch: &Value) -> Answer {
        match key.kind {
            Kind::CronJob => self.status(key, patch, Object::CronJob).await,
            Kind::JobFlow => self.status(key, patch, Object::JobFlow).await,
            Kind::JobTemplate => self.status(key, patch, Object::JobTemplate).await,
        }
    }

    async fn status<T: DeserializeOwned>(
        &self,
        key: &WorkflowKey,
        patch: &Value,
        object: fn(Arc<T>) -> Object,
    ) -> Answer {
        let WorkflowKey {
            kind,
            namespace,
            name,
        } = key;
        let (group, plural) = match kind {
            Kind::CronJob => ("batch", "cronjobs"),
            Kind::JobFlow => ("flow", "jobflows"),
            Kind::JobTemplate => ("flow", "jobtemplates"),
        };
        let url = format!(
            "/apis/{group}.volcano.sh/v1alpha1/namespaces/{namespace}/{plural}/{name}/status"
        );
        let stored: Result<T, _> = self.patch(url, MERGE_PATCH, patch).await;
        let stored = stored.map(|stored| Done::Stored(object(Arc::new(stored))));
        stored.map_err(|error| refusal(&error))
    }
}
