//! Kills pods of a job (S6-031 to S6-035). It marks them, deletes plugins' objects, writes the status, then deletes the
//! pods and the PodGroup. Volcano deletes pods right after marking them.

use super::call::{Answer, Call, Done};
use super::dependencies::Waiting;
use super::failure::RoundError;
use super::group;
use super::info::JobInfo;
use super::lister::Lister;
use super::names::{ENDING, OUT_OF_SYNC};
use super::plugins;
use super::pod_counts::TaskCounts;
use super::request::Request;
use super::status;
use super::step::{Next, Step, checked, listed};
use super::termination;
use super::transition::{Retain, Rule, Target};
use evictd_batch_objects::bus::Action;
use evictd_batch_objects::{Compat, Difference, Job, JobStatus, TaskPod};
use evictd_reconcile::{Notice, Refusal};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod and its task.
type Owned = (String, Arc<TaskPod>);

/// The termination of pods that is under way.
#[derive(Debug)]
pub(super) struct Kill {
    compat: Compat,
    job: Arc<Job>,
    rule: Rule,
    /// Whether only some pods are meant.
    partial: bool,
    /// The action of its marks; only with [`Difference::ResumeTermination`].
    termination: Option<String>,
    /// Those that go.
    going: Vec<Owned>,
    /// All others, counted.
    staying: TaskCounts,
    /// How many of them would go, but their deletion was refused a short while ago.
    held: usize,
    /// How many pods were looked at.
    total: usize,
    failed: Vec<(String, Refusal)>,
    unsure: Vec<String>,
    /// As it will be.
    status: JobStatus,
    stored: Option<Box<Job>>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Mark,
    Delete,
    Plugins,
    Write,
    Group,
}

fn is_terminating(pod: &TaskPod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

impl Kill {
    /// All pods but those that are retained. On the last attempt whatever ended stays to be looked at (S6-034).
    pub(super) fn all(
        info: &mut JobInfo,
        job: Arc<Job>,
        retain: Retain,
        rule: Rule,
        compat: Compat,
    ) -> Self {
        let mut kill = Self::new(job, rule, compat);
        let last = kill.status.retry_count >= kill.job.spec.max_retry.saturating_sub(1);
        let soft = last || retain == Retain::Soft;
        for (task, pod) in all_pods(info) {
            kill.total += 1;
            let ended = pod.status.phase.has_ended();
            // A terminating pod needs no second deletion, which would restart its grace period.
            if is_terminating(&pod) || ended && soft {
                kill.staying.add(&task, &pod);
            } else {
                kill.going.push((task, pod));
            }
        }
        kill.hold(info);
        let finished = rule == Rule::Keep && compat.has(Difference::FinishedIsFinal);
        if !finished {
            kill.status.version = kill.status.version.saturating_add(1);
        }
        if !compat.has(Difference::VersionOncePerKill)
            && let Some(known) = &mut info.job
        {
            // Volcano raises the version in its cache, although the status is written later or not at all.
            Arc::make_mut(known).status.version = kill.status.version;
        }
        kill
    }

    /// The pods of the request's task, its pod, or its partition; none of an unknown task or pod. `None` for an unknown
    /// partition, or one that has no pods: then nothing is done at all (S6-017).
    pub(super) fn some(
        info: &JobInfo,
        job: Arc<Job>,
        (target, request): (Target, &Request),
        rule: Rule,
        compat: Compat,
    ) -> Option<Self> {
        let mut kill = Self::new(job, rule, compat);
        kill.partial = true;
        let mut tasks = kill.job.spec.tasks.iter();
        // Of several tasks of one name Volcano takes the last.
        let task = tasks.rfind(|task| task.name == request.task_name);
        let parted = task.is_some_and(|task| task.partition_policy.is_some());
        let (task, pod) = (&request.task_name, &request.pod_name);
        let id = &request.partition_id;
        let going: Vec<Arc<TaskPod>> = match target {
            Target::Task => info.pods_of_task(task).cloned().collect(),
            Target::Pod => info.pod(task, pod).cloned().into_iter().collect(),
            Target::Partition if parted => info.pods_of_partition(task, id).cloned().collect(),
            Target::Partition => Vec::new(),
        };
        kill.staying = info.counts().clone();
        for pod in going {
            kill.staying.remove(task, &pod);
            kill.going.push((task.clone(), pod));
        }
        kill.total = kill.going.len();
        kill.hold(info);
        (target != Target::Partition || kill.total > 0).then_some(kill)
    }

    /// Leaves pods alone whose deletion was refused a short while ago: each mark is an event, which would bring the next one.
    fn hold(&mut self, info: &JobInfo) {
        let refused = |owned: &mut Owned| info.refused.contains(&owned.1.metadata.name);
        let held: Vec<Owned> = self.going.extract_if(.., refused).collect();
        self.held = held.len();
        for (task, pod) in &held {
            self.staying.add(task, pod);
        }
    }

    fn new(job: Arc<Job>, rule: Rule, compat: Compat) -> Self {
        Self {
            compat,
            rule,
            partial: false,
            termination: None,
            going: Vec::new(),
            staying: TaskCounts::default(),
            held: 0,
            total: 0,
            failed: Vec::new(),
            unsure: Vec::new(),
            status: job.status.clone(),
            job,
            stored: None,
            stage: Stage::Mark,
        }
    }

    pub(super) fn start(&mut self, action: &Action, now: Timestamp, lister: &dyn Lister) -> Step {
        let resumes = self.compat.has(Difference::ResumeTermination);
        self.termination = resumes.then(|| termination::text(action, &self.job.status));
        // The API server refused each of these deletions a short while ago.
        if self.going.is_empty() && self.held > 0 {
            return self.failure();
        }
        self.proceed(now, lister)
    }

    /// Continues until a call is due or the kill is done.
    fn proceed(&mut self, now: Timestamp, lister: &dyn Lister) -> Step {
        loop {
            let calls = match self.stage {
                Stage::Mark => self.marks(),
                Stage::Delete => self.deletions(),
                Stage::Plugins => match self.plugins() {
                    Ok(calls) => calls,
                    Err(error) => return self.step(Next::Done(Err(error))),
                },
                Stage::Write => self.write(now),
                Stage::Group => self.group(lister),
            };
            if !calls.is_empty() {
                return self.step(Next::Calls(calls));
            }
            if let Some(end) = self.advance() {
                return end;
            }
        }
    }

    pub(super) fn answered(
        &mut self,
        answers: Vec<Answer>,
        now: Timestamp,
        lister: &dyn Lister,
    ) -> Step {
        let taken = match self.stage {
            Stage::Mark => {
                self.marked(answers);
                Ok(())
            }
            Stage::Delete => {
                self.deleted(answers);
                Ok(())
            }
            Stage::Plugins => checked("cannot delete what plugins made", answers).map(|_| ()),
            Stage::Write => self.written(answers),
            Stage::Group => checked("cannot delete the PodGroup", answers).map(|_| ()),
        };
        if let Err(error) = taken {
            return self.step(Next::Done(Err(error)));
        }
        match self.advance() {
            Some(end) => end,
            None => self.proceed(now, lister),
        }
    }

    /// The next stage, or the end: after the last one, or if pods could not be marked or deleted. Volcano deletes
    /// before it writes, so a crash in between loses the status.
    fn advance(&mut self) -> Option<Step> {
        let resumes = self.compat.has(Difference::ResumeTermination);
        let failed = !self.failed.is_empty();
        self.stage = match self.stage {
            Stage::Mark if resumes && failed => return Some(self.failure()),
            // The status is written before the first deletion, so that a crash in between does not lose it.
            Stage::Mark if resumes => Stage::Plugins,
            Stage::Mark => Stage::Delete,
            Stage::Delete if failed || self.held > 0 => return Some(self.failure()),
            Stage::Delete if !resumes => Stage::Plugins,
            Stage::Plugins => Stage::Write,
            Stage::Write if resumes => Stage::Delete,
            Stage::Write | Stage::Delete if !self.partial => Stage::Group,
            Stage::Write | Stage::Delete | Stage::Group => {
                return Some(self.step(Next::Done(Ok(()))));
            }
        };
        None
    }

    fn step(&mut self, next: Next) -> Step {
        Step {
            notices: Vec::new(),
            stored: self.stored.take(),
            unsure: std::mem::take(&mut self.unsure),
            created: Vec::new(),
            next,
        }
    }

    fn failure(&mut self) -> Step {
        let mut step = self.step(Next::Done(Err(RoundError::Kill {
            failed: self.failed.len() + self.held,
            total: self.total,
        })));
        // Of those that are held it was said already.
        if !self.failed.is_empty() {
            let message = format!("Error deleting pods: {}", listed("delete", &self.failed));
            step.notices.push(Notice::warning("FailedDelete", message));
        }
        step
    }

    /// All are marked before the first is deleted, so that no deletion is taken for an eviction (S6-035).
    fn marks(&self) -> Vec<Call> {
        let mut annotations = BTreeMap::from([(OUT_OF_SYNC, "true".to_owned())]);
        annotations.extend(
            self.termination
                .clone()
                .map(|termination| (ENDING, termination)),
        );
        let names = self.going.iter().map(|(_, pod)| pod.metadata.name.clone());
        let mark = |name| Call::MarkPod {
            name,
            annotations: annotations.clone(),
        };
        names.map(mark).collect()
    }

    /// A pod that could not be marked is not deleted.
    fn marked(&mut self, answers: Vec<Answer>) {
        let mut answers = answers.into_iter();
        let (failed, staying) = (&mut self.failed, &mut self.staying);
        self.going.retain(|owned| match answers.next() {
            // Without the mark its deletion would look like an eviction, which has policies of its own.
            Some(Err(refusal)) if refusal != Refusal::NotFound => {
                failed.push((owned.1.metadata.name.clone(), refusal));
                staying.add(&owned.0, &owned.1);
                false
            }
            _ => true,
        });
    }

    fn deletions(&self) -> Vec<Call> {
        let alive = self.going.iter().filter(|(_, pod)| !is_terminating(pod));
        let deletion = |(_, pod): &Owned| Call::DeletePod {
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.to_string(),
        };
        alive.map(deletion).collect()
    }

    fn deleted(&mut self, answers: Vec<Answer>) {
        let alive = self.going.iter().filter(|(_, pod)| !is_terminating(pod));
        for ((_, pod), answer) in alive.zip(answers) {
            if let Err(refusal) = answer
                && refusal != Refusal::NotFound
            {
                self.failed.push((pod.metadata.name.clone(), refusal));
                // An error may hide a deletion that has happened.
                self.unsure.push(pod.metadata.name.clone());
            }
        }
    }

    fn plugins(&mut self) -> Result<Vec<Call>, RoundError> {
        if self.partial && self.compat.has(Difference::TargetKeepsPluginObjects) {
            return Ok(Vec::new());
        }
        let controlled = self.status.controlled_resources.get_or_insert_default();
        plugins::on_delete(&self.job, controlled)
    }

    fn write(&mut self, now: Timestamp) -> Vec<Call> {
        let current = &mut self.status;
        status::clear(current);
        let others = !self.partial || self.compat.has(Difference::KillCountsRetained);
        let others = if others {
            self.staying.terminating()
        } else {
            0
        };
        let termination = self.going.len() + others;
        current.terminating = i32::try_from(termination).unwrap_or(i32::MAX);
        if self.compat.has(Difference::KillCountsRetained) {
            self.staying.count_staying(current);
        }
        if self
            .rule
            .apply(&self.job.spec, current, &Waiting::default())
        {
            status::stamp(current, now);
        }
        current.running_duration = status::running_duration(&self.job, current);
        let finished = self.rule == Rule::Keep && self.compat.has(Difference::FinishedIsFinal);
        if finished {
            status::forget_empty(&self.job, current);
        }
        // A finished job would otherwise be written again with each event of its pods.
        if finished && *current == self.job.status {
            return Vec::new();
        }
        vec![status::write(&self.job, current)]
    }

    fn written(&mut self, answers: Vec<Answer>) -> Result<(), RoundError> {
        for done in checked("cannot write the status", answers)? {
            if let Done::Job(job) = done {
                self.stored = Some(job);
            }
        }
        Ok(())
    }

    fn group(&self, lister: &dyn Lister) -> Vec<Call> {
        let group = group::of_job(&self.job, lister);
        let name = group.map(|group| group.metadata.name.clone());
        name.map(|name| Call::DeletePodGroup { name })
            .into_iter()
            .collect()
    }
}

fn all_pods(info: &JobInfo) -> impl Iterator<Item = Owned> {
    info.pods().iter().flat_map(|(task, pods)| {
        let pods = pods.values();
        pods.map(move |pod| (task.clone(), Arc::clone(pod)))
    })
}
