//! One round of a job: an action is carried out, call by call, until it is done or has failed.

use super::call::Answer;
use super::info::JobInfo;
use super::kill::Kill;
use super::phase::Phase;
use super::request::Request;
use super::rules::Rules;
use super::step::Step;
use super::surroundings::Surroundings;
use super::sync::Sync;
use super::transition::{Procedure, procedure};
use crate::bus::Action;
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

/// What a round is about.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// What to do.
    pub action: &'a Action,
    /// For whom; it names the task, the pod or the partition, if only those are meant.
    pub request: &'a Request,
    /// How.
    pub rules: Rules,
}

impl Round {
    /// Begins to carry out an action. `info` has the job; a round of a job that is gone or being deleted is done at once
    /// (S6-031, S6-036). With Volcano's rules the version of `info`'s job is raised here (S6-032).
    pub fn start(
        info: &mut JobInfo,
        task: Task<'_>,
        now: Timestamp,
        around: &dyn Surroundings,
    ) -> (Self, Step) {
        let job = info.job.clone();
        let job = job.filter(|job| job.metadata.deletion_timestamp.is_none());
        let Some(job) = job else {
            return (Self(Work::Nothing), Step::done(Ok(())));
        };
        let phase = Phase::of(&job.status.state.phase);
        let kill = match procedure(phase, task.action) {
            Procedure::Sync(rule) => {
                let mut sync = Box::new(Sync::new(info, job, rule, task.rules));
                let step = sync.start(now, around);
                return (Self(Work::Sync(sync)), step);
            }
            Procedure::Kill(retain, rule) => Some(Kill::all(info, job, retain, rule, task.rules)),
            Procedure::KillTarget(target, rule) => {
                Kill::some(info, job, (target, task.request), rule, task.rules)
            }
        };
        let Some(kill) = kill else {
            return (Self(Work::Nothing), Step::done(Ok(())));
        };
        let mut kill = Box::new(kill);
        let step = kill.start(task.action, now, around);
        (Self(Work::Kill(kill)), step)
    }

    /// Takes the answers to the calls of the last step, in their order.
    pub fn answered(
        &mut self,
        answers: Vec<Answer>,
        now: Timestamp,
        around: &dyn Surroundings,
    ) -> Step {
        match &mut self.0 {
            Work::Nothing => Step::done(Ok(())),
            Work::Sync(sync) => sync.answered(answers, now, around),
            Work::Kill(kill) => kill.answered(answers, now, around),
        }
    }
}
