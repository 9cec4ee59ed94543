//! One round of a job: an action is carried out, call by call, until it is done or has failed.

use super::call::Answer;
use super::info::JobInfo;
use super::kill::Kill;
use super::lister::Lister;
use super::request::Request;
use super::step::Step;
use super::sync::Sync;
use super::transition::{Procedure, Rule, procedure};
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Difference, JobPhase};
use jiff::Timestamp;

/// A round that is under way.
#[derive(Debug)]
pub struct Round(Work);

#[derive(Debug)]
enum Work {
    Nothing,
    Sync(Box<Sync>),
    Kill(Box<Kill>),
}

/// The input of a round.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The procedure.
    pub action: &'a Action,
    /// The target: it names the task, the pod or the partition if only those are meant.
    pub request: &'a Request,
    /// How.
    pub compat: Compat,
}

impl Task<'_> {
    /// Whether the action restarts pods in this phase, and whether that uses up a retry. A restart that is no failure of the
    /// job uses up none. The version of the job records the restart; one that a crash interrupts before that is counted.
    pub(crate) fn uses_retry(&self, phase: JobPhase) -> Option<bool> {
        let restarts = matches!(
            procedure(phase, self.action),
            Procedure::Kill(_, Rule::Restart) | Procedure::KillTarget(_, Rule::Restart)
        );
        restarts.then(|| !self.keeps_retries())
    }

    fn keeps_retries(&self) -> bool {
        let resumed = *self.action == Action::ResumeJob;
        let evicted = self.request.event == Event::PodEvicted;
        resumed && self.compat.has(Difference::ResumeKeepsRetries)
            || evicted && self.compat.has(Difference::EvictionKeepsRetries)
    }
}

impl Round {
    /// Starts an action. `info` has the job; a round of a deleted job is done at once (S6-031, S6-036). In Volcano the
    /// version of `info`'s job is raised here (S6-032).
    pub fn start(
        info: &mut JobInfo,
        task: Task<'_>,
        now: Timestamp,
        lister: &dyn Lister,
    ) -> (Self, Step) {
        let job = info.job.clone();
        let job = job.filter(|job| job.metadata.deletion_timestamp.is_none());
        let Some(job) = job else {
            return (Self(Work::Nothing), Step::done(Ok(())));
        };
        let phase = job.status.state.phase.or_pending();
        let rule = |rule| match task.uses_retry(phase) {
            Some(false) => Rule::Enter(JobPhase::Restarting),
            Some(true) | None => rule,
        };
        let kill = match procedure(phase, task.action) {
            Procedure::Sync(rule) => {
                let mut sync = Box::new(Sync::new(info, job, rule, task.compat));
                let step = sync.start(now, lister);
                return (Self(Work::Sync(sync)), step);
            }
            Procedure::Kill(retain, counted) => {
                Some(Kill::all(info, job, retain, rule(counted), task.compat))
            }
            Procedure::KillTarget(target, counted) => {
                let (target, rule) = ((target, task.request), rule(counted));
                Kill::some(info, job, target, rule, task.compat)
            }
        };
        let Some(kill) = kill else {
            return (Self(Work::Nothing), Step::done(Ok(())));
        };
        let mut kill = Box::new(kill);
        let step = kill.start(task.action, now, lister);
        (Self(Work::Kill(kill)), step)
    }

    /// Takes the answers to the calls of the last step, in their order.
    pub fn answered(&mut self, answers: Vec<Answer>, now: Timestamp, lister: &dyn Lister) -> Step {
        match &mut self.0 {
            Work::Nothing => Step::done(Ok(())),
            Work::Sync(sync) => sync.answered(answers, now, lister),
            Work::Kill(kill) => kill.answered(answers, now, lister),
        }
    }
}
