//! Brings a job's objects and status in line with it (S6-036 to S6-045).

use super::belonging::is_marked;
use super::call::{Answer, Call, Done, KeyPair};
use super::claims;
use super::dependencies::Waiting;
use super::failure::{MOST_PODS, RoundError};
use super::group;
use super::info::{JobInfo, Pods};
use super::lister::Lister;
use super::names::OUT_OF_SYNC;
use super::plugins;
use super::pod_diff::{Made, PodDiff};
use super::pods::Shared;
use super::status;
use super::step::{Next, Step, checked, listed};
use super::transition::{Rule, replicas};
use evictd_batch_objects::{Compat, Difference, Job, JobPhase, JobStatus, TaskPod};
use evictd_reconcile::{Notice, Refusal};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A synchronisation that is under way.
#[derive(Debug)]
pub(super) struct Sync {
    compat: Compat,
    job: Arc<Job>,
    rule: Rule,
    /// Whether plugins, claims and PodGroup were made in an earlier phase.
    initiated: bool,
    pods: BTreeMap<String, Pods>,
    /// Pods whose deletion was refused a short while ago.
    refused: BTreeSet<String>,
    keys: Option<KeyPair>,
    /// The tasks that wait for others.
    waiting: Waiting,
    pod_diff: PodDiff,
    /// The shared parts of the pods that are being created.
    shared: Option<Arc<Shared>>,
    /// Pods that are too many, but whose deletion was refused a short while ago.
    held: usize,
    /// As it will be.
    status: JobStatus,
    notices: Vec<Notice>,
    unsure: Vec<String>,
    /// Pods that were created since the last step.
    created: Vec<Arc<TaskPod>>,
    stored: Option<Box<Job>>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Keys,
    Plugins,
    Claims,
    NameClaims,
    Group,
    /// Whether pods may be made.
    Gate,
    Look,
    /// Batch by batch.
    Create,
    /// Surplus pods are marked, so that their end is no eviction.
    Mark,
    Delete,
    Write,
}

/// The calls of a stage.
enum Want {
    Calls(Vec<Call>),
    Stage(Stage),
    End,
    Fail(RoundError, Option<(&'static str, &'static str)>),
}

/// The reason of an event, and the beginning of its message (S6-037).
type Failure = (&'static str, &'static str);

const OF_STATUS: Failure = ("JobStatusError", "Failed to initialize job status, err:");
const OF_PLUGIN: Failure = ("PluginError", "Execute plugin when job add failed, err:");
const OF_CLAIM: Failure = ("PVCError", "Failed to create PVC, err:");
const OF_PODS: Failure = ("FailedCreate", "Error creating pods:");
const OF_GROUP: Failure = ("PodGroupError", "Failed to create PodGroup, err:");

impl Sync {
    pub(super) fn new(info: &JobInfo, job: Arc<Job>, rule: Rule, compat: Compat) -> Self {
        Self {
            compat,
            rule,
            initiated: status::is_initiated(&job.status),
            pods: info.pods().clone(),
            refused: info.refused.clone(),
            keys: None,
            waiting: Waiting::default(),
            pod_diff: PodDiff::default(),
            shared: None,
            held: 0,
            status: job.status.clone(),
            job,
            notices: Vec::new(),
            unsure: Vec::new(),
            created: Vec::new(),
            stored: None,
            stage: Stage::Begin,
        }
    }

    pub(super) fn start(&mut self, now: Timestamp, lister: &dyn Lister) -> Step {
        // A job in a missing queue would never be scheduled, so nothing is created for it.
        let queue = &self.job.spec.queue;
        if !lister.has_queue(queue) {
            let error = RoundError::Queue(queue.clone());
            if self.compat.has(Difference::WaitForMissing) {
                let message = format!(
                    "the job waits, because there is no queue \"{queue}\": create it, or make the job anew with another one"
                );
                self.notices.push(Notice::warning("QueueNotFound", message));
            }
            return self.failed(error, None);
        }
        let pods = replicas(&self.job.spec);
        // A typing error must not flood the API server.
        if pods > MOST_PODS {
            return self.failed(RoundError::TooLarge(pods), Some(OF_PODS));
        }
        self.proceed(now, lister)
    }

    /// Continues until a call is due or the sync is done.
    fn proceed(&mut self, now: Timestamp, lister: &dyn Lister) -> Step {
        loop {
            match self.wanted(now, lister) {
                Want::Stage(stage) => self.stage = stage,
                Want::Calls(calls) => return self.step(Next::Calls(calls)),
                Want::End => return self.step(Next::Done(Ok(()))),
                Want::Fail(error, failure) => return self.failed(error, failure),
            }
        }
    }

    fn wanted(&mut self, now: Timestamp, lister: &dyn Lister) -> Want {
        match self.stage {
            Stage::Begin => self.begin(now),
            Stage::Keys => {
                let needed = !self.initiated && plugins::needs_keys(&self.job, &self.status);
                calls_or(
                    Vec::from_iter(needed.then_some(Call::MakeKeys)),
                    Stage::Plugins,
                )
            }
            Stage::Plugins => self.plugins(),
            Stage::Claims => match claims::wanted(&self.job, lister) {
                Ok(calls) => calls_or(calls, Stage::NameClaims),
                Err(error) => Want::Fail(error, Some(OF_CLAIM)),
            },
            Stage::NameClaims => {
                let controlled = self.status.controlled_resources.get_or_insert_default();
                claims::record(&self.job, controlled);
                calls_or(Vec::from_iter(claims::names(&self.job)), Stage::Group)
            }
            Stage::Group => {
                self.waiting = Waiting::of(&self.job, &self.pods, self.compat, lister);
                let call = group::wanted(&self.job, &self.waiting, lister);
                calls_or(Vec::from_iter(call), Stage::Gate)
            }
            Stage::Gate => self.gate(now, lister),
            Stage::Look => {
                self.pod_diff
                    .take(&self.job, &self.pods, self.compat, lister);
                self.hold();
                match self.pod_diff.shared(&self.job) {
                    Ok(shared) => self.shared = shared,
                    Err(error) => return Want::Fail(error, Some(OF_PODS)),
                }
                Want::Stage(Stage::Create)
            }
            Stage::Create => {
                let shared = self.shared.clone();
                let calls = shared.map(|shared| self.pod_diff.next(&shared));
                calls_or(calls.unwrap_or_default(), Stage::Mark)
            }
            Stage::Mark => calls_or(self.marks(), Stage::Delete),
            Stage::Delete => {
                // The round fails, so that the deletion is tried again after its backoff.
                if self.pod_diff.surplus.is_empty() && self.held > 0 {
                    return self.held();
                }
                let calls = self.pod_diff.surplus.iter().map(|pod| Call::DeletePod {
                    name: pod.metadata.name.clone(),
                    uid: pod.metadata.uid.to_string(),
                });
                calls_or(calls.collect(), Stage::Write)
            }
            Stage::Write => self.counted(now),
        }
    }

    pub(super) fn answered(
        &mut self,
        answers: Vec<Answer>,
        now: Timestamp,
        lister: &dyn Lister,
    ) -> Step {
        match self.taken(answers) {
            Want::Stage(stage) => self.stage = stage,
            Want::Calls(calls) => return self.step(Next::Calls(calls)),
            Want::End => return self.step(Next::Done(Ok(()))),
            Want::Fail(error, failure) => return self.failed(error, failure),
        }
        self.proceed(now, lister)
    }

    /// Takes the answers to the calls of the stage.
    fn taken(&mut self, answers: Vec<Answer>) -> Want {
        let (what, next, failure) = match self.stage {
            Stage::Begin => ("cannot write the status", Stage::Keys, Some(OF_STATUS)),
            Stage::Keys => ("cannot make keys", Stage::Plugins, Some(OF_PLUGIN)),
            Stage::Plugins => {
                let next = if self.initiated {
                    Stage::Group
                } else {
                    Stage::Claims
                };
                ("cannot make what a plugin needs", next, Some(OF_PLUGIN))
            }
            Stage::Claims => ("cannot make a claim", Stage::NameClaims, Some(OF_CLAIM)),
            Stage::NameClaims => (
                "cannot name claims in the job",
                Stage::Group,
                Some(OF_CLAIM),
            ),
            Stage::Group => ("cannot write the PodGroup", Stage::Gate, Some(OF_GROUP)),
            Stage::Create => return self.created(answers),
            Stage::Mark => return self.marked(answers),
            Stage::Delete => return self.deleted(answers),
            Stage::Gate | Stage::Look | Stage::Write => {
                let done = checked("cannot write the status", answers);
                return match done {
                    Ok(done) => {
                        self.keep(done);
                        Want::End
                    }
                    Err(error) => Want::Fail(error, None),
                };
            }
        };
        match checked(what, answers) {
            Ok(done) => {
                self.keep(done);
                Want::Stage(next)
            }
            Err(error) => Want::Fail(error, failure),
        }
    }

    fn keep(&mut self, done: Vec<Done>) {
        for done in done {
            match done {
                Done::Job(job) => {
                    self.job = Arc::new((*job).clone());
                    self.stored = Some(job);
                }
                Done::Keys(keys) => self.keys = Some(keys),
                Done::Nothing | Done::Pod(_) => {}
            }
        }
    }

    /// A job without a phase gets one, and that is written first (S6-036).
    fn begin(&mut self, now: Timestamp) -> Want {
        if !self.status.state.phase.is_empty() {
            return Want::Stage(Stage::Keys);
        }
        self.status.state.phase = JobPhase::Pending.into();
        self.status.min_available = self.job.spec.min_available;
        status::stamp(&mut self.status, now);
        Want::Calls(vec![status::write(&self.job, &self.status)])
    }

    fn plugins(&mut self) -> Want {
        let stale = self.compat.has(Difference::HostsFollowScaling) && self.may_have_stale_hosts();
        let controlled = self.status.controlled_resources.get_or_insert_default();
        let (calls, next) = if self.initiated {
            (plugins::on_update(&self.job), Stage::Group)
        } else {
            let added = plugins::on_add(&self.job, controlled, self.keys.as_ref());
            let calls = added.and_then(|mut calls| {
                if stale {
                    calls.extend(plugins::on_update(&self.job)?);
                }
                Ok(calls)
            });
            (calls, Stage::Claims)
        };
        match calls {
            Ok(calls) => calls_or(calls, next),
            Err(error) => Want::Fail(error, Some(OF_PLUGIN)),
        }
    }

    /// Whether a job that waits has a list of hosts, and other pods than it is to have: it may have been scaled.
    fn may_have_stale_hosts(&self) -> bool {
        let pods: usize = self.pods.values().map(Pods::len).sum();
        plugins::has_hosts(&self.job, &self.status)
            && i64::try_from(pods) != Ok(replicas(&self.job.spec))
    }

    /// Pods are made once the PodGroup was let in; until then the phase follows from the old counts (S6-038).
    fn gate(&mut self, now: Timestamp, lister: &dyn Lister) -> Want {
        let group = group::of_job(&self.job, lister);
        if let Some(group) = &group {
            self.notices.extend(group::pending(&self.job, group));
            // Pods of a job that is not enqueued would fill the API server and wait for nothing.
            if !group.status.phase.is_pending() {
                return Want::Stage(Stage::Look);
            }
        }
        let before = self.status.clone();
        self.rule
            .apply(&self.job.spec, &mut self.status, &self.waiting);
        // Volcano compares with a status that it has changed itself meanwhile, and writes equal ones, too.
        let before = if self.compat.has(Difference::EqualStatusIsUnchanged) {
            status::forget_empty(&self.job, &mut self.status);
            &self.job.status
        } else {
            &before
        };
        if self.status == *before {
            return Want::End;
        }
        status::stamp(&mut self.status, now);
        Want::Calls(vec![status::write(&self.job, &self.status)])
    }

    /// A pod that is there already counts once it is seen (S6-041).
    fn created(&mut self, answers: Vec<Answer>) -> Want {
        let mut failed = Vec::new();
        let made = std::mem::take(&mut self.pod_diff.made);
        for (Made { task, name }, answer) in made.into_iter().zip(answers) {
            match answer {
                Ok(Done::Pod(pod)) => {
                    let task = self.job.spec.tasks.get(task);
                    let task = task.map_or("", |task| &task.name);
                    // The watch shows it only later, and the status must not miss it until then.
                    status::count(&mut self.pod_diff.counts, task, &pod);
                    self.created.push(Arc::from(pod));
                }
                Ok(_) | Err(Refusal::AlreadyExists) => {}
                Err(refusal) => failed.push((name, refusal)),
            }
        }
        if failed.is_empty() {
            return Want::Stage(Stage::Create);
        }
        let message = format!("Error creating pods: {}", listed("create", &failed));
        self.notices.push(Notice::warning("FailedCreate", message));
        let error = RoundError::Create {
            failed: failed.len(),
            tasks: self.pod_diff.tasks,
        };
        Want::Fail(error, None)
    }

    /// Leaves pods alone whose deletion was refused a short while ago.
    fn hold(&mut self) {
        let all = self.pod_diff.surplus.len();
        let pods = &self.refused;
        self.pod_diff
            .surplus
            .retain(|pod| !pods.contains(&pod.metadata.name));
        self.held = all - self.pod_diff.surplus.len();
    }

    /// It was said already why they could not be deleted.
    fn held(&self) -> Want {
        let error = RoundError::Delete {
            failed: self.held,
            total: self.held + self.pod_diff.surplus.len(),
        };
        Want::Fail(error, None)
    }

    fn marks(&self) -> Vec<Call> {
        if !self.compat.has(Difference::SurplusIsNotEvicted) {
            return Vec::new();
        }
        let mark = |pod: &Arc<TaskPod>| Call::MarkPod {
            name: pod.metadata.name.clone(),
            annotations: BTreeMap::from([(OUT_OF_SYNC, "true".to_owned())]),
        };
        let surplus = self.pod_diff.surplus.iter();
        let surplus = surplus.filter(|pod| !is_marked(pod));
        surplus.map(mark).collect()
    }

    /// A pod that could not be marked is not deleted in this round, which fails and is tried again.
    fn marked(&mut self, answers: Vec<Answer>) -> Want {
        let mut answers = answers.into_iter();
        let mut failed = Vec::new();
        self.pod_diff.surplus.retain(|pod| {
            if is_marked(pod) {
                return true;
            }
            match answers.next() {
                // A deleted pod needs no annotation.
                Some(Err(refusal)) if refusal != Refusal::NotFound => {
                    failed.push((pod.metadata.name.clone(), refusal));
                    false
                }
                _ => true,
            }
        });
        if failed.is_empty() {
            return Want::Stage(Stage::Delete);
        }
        let message = format!("Error deleting pods: {}", listed("delete", &failed));
        self.notices.push(Notice::warning("FailedDelete", message));
        let error = RoundError::Delete {
            failed: failed.len(),
            total: failed.len() + self.pod_diff.surplus.len(),
        };
        Want::Fail(error, None)
    }

    fn deleted(&mut self, answers: Vec<Answer>) -> Want {
        let mut failed = Vec::new();
        for (pod, answer) in self.pod_diff.surplus.iter().zip(answers) {
            let name = pod.metadata.name.clone();
            match answer {
                Err(refusal) if refusal != Refusal::NotFound => {
                    self.unsure.push(name.clone());
                    failed.push((name, refusal));
                }
                // The pod stays until its grace period is over.
                _ => self.pod_diff.counts.terminating += 1,
            }
        }
        if failed.is_empty() {
            return if self.held > 0 {
                self.held()
            } else {
                Want::Stage(Stage::Write)
            };
        }
        let message = format!("Error deleting pods: {}", listed("delete", &failed));
        self.notices.push(Notice::warning("FailedDelete", message));
        let error = RoundError::Delete {
            failed: failed.len(),
            total: self.pod_diff.surplus.len(),
        };
        Want::Fail(error, None)
    }

    /// The status from the counts (S6-042).
    fn counted(&mut self, now: Timestamp) -> Want {
        let before = if self.compat.has(Difference::EqualStatusIsUnchanged) {
            self.job.status.clone()
        } else {
            self.status.clone()
        };
        let current = &mut self.status;
        let counts = std::mem::take(&mut self.pod_diff.counts);
        current.pending = counts.pending;
        current.running = counts.running;
        current.succeeded = counts.succeeded;
        current.failed = counts.failed;
        current.terminating = counts.terminating;
        current.unknown = counts.unknown;
        current.task_status_count = counts.task_status_count;
        current.min_available = self.job.spec.min_available;
        if !self.compat.has(Difference::EqualStatusIsUnchanged) {
            // Volcano drops it with every sync.
            current.running_duration = None;
        }
        self.rule.apply(&self.job.spec, current, &self.waiting);
        if self.compat.has(Difference::EqualStatusIsUnchanged) {
            status::forget_empty(&self.job, current);
        }
        if status::is_same(&before, current, self.compat) {
            return Want::End;
        }
        status::stamp(current, now);
        Want::Calls(vec![status::write(&self.job, current)])
    }

    fn step(&mut self, next: Next) -> Step {
        Step {
            notices: std::mem::take(&mut self.notices),
            stored: self.stored.take(),
            unsure: std::mem::take(&mut self.unsure),
            created: std::mem::take(&mut self.created),
            next,
        }
    }

    fn failed(&mut self, error: RoundError, failure: Option<Failure>) -> Step {
        let notice = failure.map(|(reason, begins)| {
            let message = format!("{begins} {error}");
            Notice::warning(reason, message)
        });
        self.notices.extend(notice);
        self.step(Next::Done(Err(error)))
    }
}

/// The calls, or the next stage if there are none.
fn calls_or(calls: Vec<Call>, next: Stage) -> Want {
    if calls.is_empty() {
        Want::Stage(next)
    } else {
        Want::Calls(calls)
    }
}
