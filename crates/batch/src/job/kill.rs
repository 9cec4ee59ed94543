//! Ends pods of a job (S6-031 to S6-035): marks them, takes back what plugins made, writes the status, deletes them, and
//! deletes the PodGroup. Volcano deletes them right after it has marked them.

use super::call::{Answer, Call, Done, Notice, Refusal};
use super::dependencies::Waiting;
use super::ending;
use super::failure::RoundError;
use super::group;
use super::info::{JobInfo, partition};
use super::names::{ENDING, OUT_OF_SYNC};
use super::plugins;
use super::request::Request;
use super::rules::Rules;
use super::status;
use super::step::{Next, Step, checked, listed};
use super::surroundings::Surroundings;
use super::transition::{Retain, Rule, Target};
use crate::bus::Action;
use crate::wire::{Job, JobStatus, TaskPod};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod and its task.
type Owned = (String, Arc<TaskPod>);

/// The ending of pods that is under way.
#[derive(Debug)]
pub(super) struct Kill {
    rules: Rules,
    job: Arc<Job>,
    rule: Rule,
    /// Whether only some pods are meant.
    partial: bool,
    /// What its marks say; with [`Rules::endings_resume`] only.
    ending: Option<String>,
    /// Those that go.
    going: Vec<Owned>,
    /// All others.
    staying: Vec<Owned>,
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
        rules: Rules,
    ) -> Self {
        let mut kill = Self::new(job, rule, rules);
        let last = kill.status.retry_count >= kill.job.spec.max_retry.saturating_sub(1);
        let soft = last || retain == Retain::Soft;
        for (task, pod) in all_pods(info) {
            kill.total += 1;
            let ended = matches!(&*pod.status.phase, "Succeeded" | "Failed");
            if is_terminating(&pod) || ended && soft {
                kill.staying.push((task, pod));
            } else {
                kill.going.push((task, pod));
            }
        }
        kill.hold(info);
        let finished = rule == Rule::Keep && rules.finished_stays;
        if !finished {
            kill.status.version = kill.status.version.saturating_add(1);
        }
        if !rules.version_of_success
            && let Some(known) = &mut info.job
        {
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
        rules: Rules,
    ) -> Option<Self> {
        let mut kill = Self::new(job, rule, rules);
        kill.partial = true;
        let mut tasks = kill.job.spec.tasks.iter();
        let task = tasks.rfind(|task| task.name == request.task_name);
        let parted = task.is_some_and(|task| task.partition_policy.is_some());
        for (task, pod) in all_pods(info) {
            let meant = task == request.task_name
                && match target {
                    Target::Task => true,
                    Target::Pod => pod.metadata.name == request.pod_name,
                    Target::Partition => {
                        let id = partition(&pod);
                        parted && !id.is_empty() && id == request.partition_id
                    }
                };
            let pods = if meant {
                &mut kill.going
            } else {
                &mut kill.staying
            };
            pods.push((task, pod));
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
        self.staying.extend(held);
    }

    fn new(job: Arc<Job>, rule: Rule, rules: Rules) -> Self {
        Self {
            rules,
            rule,
            partial: false,
            ending: None,
            going: Vec::new(),
            staying: Vec::new(),
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

    pub(super) fn start(
        &mut self,
        action: &Action,
        now: Timestamp,
        around: &dyn Surroundings,
    ) -> Step {
        let resumes = self.rules.endings_resume;
        self.ending = resumes.then(|| ending::text(action, &self.job.status));
        if self.going.is_empty() && self.held > 0 {
            return self.failure();
        }
        self.proceed(now, around)
    }

    /// Goes on until there is something to call, or nothing left to do.
    fn proceed(&mut self, now: Timestamp, around: &dyn Surroundings) -> Step {
        loop {
            let calls = match self.stage {
                Stage::Mark => self.marks(),
                Stage::Delete => self.deletions(),
                Stage::Plugins => match self.plugins() {
                    Ok(calls) => calls,
                    Err(error) => return self.step(Next::Done(Err(error))),
                },
                Stage::Write => self.write(now),
                Stage::Group => self.group(around),
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
        around: &dyn Surroundings,
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
            None => self.proceed(now, around),
        }
    }

    /// The next stage; or the end, after the last one or if pods could not be marked or ended. Volcano deletes before it
    /// writes, so that a crash between loses what it has not written.
    fn advance(&mut self) -> Option<Step> {
        let resumes = self.rules.endings_resume;
        let failed = !self.failed.is_empty();
        self.stage = match self.stage {
            Stage::Mark if resumes && failed => return Some(self.failure()),
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
        annotations.extend(self.ending.clone().map(|ending| (ENDING, ending)));
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
            Some(Err(refusal)) if refusal != Refusal::NotFound => {
                failed.push((owned.1.metadata.name.clone(), refusal));
                staying.push(owned.clone());
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
                self.unsure.push(pod.metadata.name.clone());
            }
        }
    }

    fn plugins(&mut self) -> Result<Vec<Call>, RoundError> {
        if self.partial && self.rules.targets_keep_plugins {
            return Ok(Vec::new());
        }
        let controlled = self.status.controlled_resources.get_or_insert_default();
        plugins::on_delete(&self.job, controlled)
    }

    fn write(&mut self, now: Timestamp) -> Vec<Call> {
        let own = &mut self.status;
        status::clear(own);
        let others = !self.partial || self.rules.kills_count_what_stays;
        let others = self
            .staying
            .iter()
            .filter(|(_, pod)| others && is_terminating(pod));
        let ending = self.going.len() + others.count();
        own.terminating = i32::try_from(ending).unwrap_or(i32::MAX);
        if self.rules.kills_count_what_stays {
            let staying = self.staying.iter().filter(|(_, pod)| !is_terminating(pod));
            staying.for_each(|(task, pod)| status::count(own, task, pod));
        }
        if self.rule.apply(&self.job.spec, own, &Waiting::default()) {
            status::stamp(own, now);
        }
        own.running_duration = status::running_duration(&self.job, own);
        let finished = self.rule == Rule::Keep && self.rules.finished_stays;
        if finished {
            status::forget_empty(&self.job, own);
        }
        if finished && *own == self.job.status {
            return Vec::new();
        }
        vec![status::write(&self.job, own)]
    }

    fn written(&mut self, answers: Vec<Answer>) -> Result<(), RoundError> {
        for done in checked("cannot write the status", answers)? {
            if let Done::Job(job) = done {
                self.stored = Some(job);
            }
        }
        Ok(())
    }

    fn group(&self, around: &dyn Surroundings) -> Vec<Call> {
        let group = group::of_job(&self.job, around);
        let name = group.map(|group| group.metadata.name.clone());
        name.map(|name| Call::DeletePodGroup { name })
            .into_iter()
            .collect()
    }
}

fn all_pods(info: &JobInfo) -> impl Iterator<Item = Owned> {
    info.pods.iter().flat_map(|(task, pods)| {
        let pods = pods.values();
        pods.map(move |pod| (task.clone(), Arc::clone(pod)))
    })
}
