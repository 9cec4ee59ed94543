//! One sync, which is run again with each answer.

use super::call::{Answer, Call};
use super::replay::{Replay, Stop};
use super::{cron_job, job_flow, job_template};
use evictd_batch_objects::Compat;
use evictd_reconcile::Notice;
use jiff::{SignedDuration, Timestamp};

/// The objects at the start of a sync.
#[derive(Debug)]
pub(crate) enum Input {
    CronJob(cron_job::Input),
    JobFlow(job_flow::Input),
    JobTemplate(job_template::Input),
}

/// A sync under way.
#[derive(Debug)]
pub(crate) struct Round {
    input: Input,
    now: Timestamp,
    compat: Compat,
    /// Those that the next turn needs.
    answers: Vec<Answer>,
    /// How many events of the next turn have been recorded.
    recorded: usize,
    /// How many items of its loop need not be looked at again.
    settled: usize,
}

/// The next call, or the end of a sync.
#[derive(Debug)]
pub(crate) enum Next {
    /// Make this call, and bring its answer.
    Call(Call),
    /// It is over. It may say when the object is due again.
    Done(Result<Option<SignedDuration>, String>),
}

impl Round {
    pub(crate) fn new(input: Input, now: Timestamp, compat: Compat) -> Self {
        Self {
            input,
            now,
            compat,
            answers: Vec::new(),
            recorded: 0,
            settled: 0,
        }
    }

    pub(crate) fn answered(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// The events that are new, and the next step.
    pub(crate) fn step(&mut self) -> (Vec<Notice>, Next) {
        let mut replay = Replay::new(&self.answers, self.settled);
        let (now, compat) = (self.now, self.compat);
        let result = match &self.input {
            Input::CronJob(input) => cron_job::sync(input, now, compat, &mut replay),
            Input::JobFlow(input) => job_flow::sync(input, now, compat, &mut replay).map(|()| None),
            Input::JobTemplate(input) => job_template::sync(input, &mut replay).map(|()| None),
        };
        let settled = replay.settled();
        let all = replay.notices.len();
        let notices: Vec<Notice> = replay.notices.into_iter().skip(self.recorded).collect();
        self.recorded = all - settled.notices;
        self.settled = settled.items;
        self.answers.drain(..settled.answers);
        let next = match result {
            Ok(due) => Next::Done(Ok(due)),
            Err(Stop::Failed(error)) => Next::Done(Err(error)),
            Err(Stop::Call(call)) => Next::Call(call),
        };
        (notices, next)
    }
}
