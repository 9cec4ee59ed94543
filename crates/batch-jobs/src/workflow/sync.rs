//! One sync, which is run again with each answer.

use super::call::{Answer, Call, Object};
use super::{cron_job, job_flow, job_template};
use crate::job::Notice;
use evictd_batch_objects::Compat;
use jiff::{SignedDuration, Timestamp};

/// The answers so far, and the events.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    answers: &'a [Answer],
    notices: Vec<Notice>,
}

/// Why a sync does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// This call has no answer yet.
    Call(Call),
    /// It failed.
    Failed(String),
}

impl<'a> Replay<'a> {
    /// The answer to a call, if it has one.
    pub(super) fn call(&mut self, call: impl FnOnce() -> Call) -> Result<&'a Answer, Stop> {
        let Some((answer, rest)) = self.answers.split_first() else {
            return Err(Stop::Call(call()));
        };
        self.answers = rest;
        Ok(answer)
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

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
    answers: Vec<Answer>,
    /// How many events have been recorded.
    recorded: usize,
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
        }
    }

    pub(crate) fn answered(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// The events that are new, and the next step.
    pub(crate) fn step(&mut self) -> (Vec<Notice>, Next) {
        let mut replay = Replay {
            answers: &self.answers,
            notices: Vec::new(),
        };
        let (now, compat) = (self.now, self.compat);
        let result = match &self.input {
            Input::CronJob(input) => cron_job::sync(input, now, compat, &mut replay),
            Input::JobFlow(input) => job_flow::sync(input, now, compat, &mut replay).map(|()| None),
            Input::JobTemplate(input) => job_template::sync(input, &mut replay).map(|()| None),
        };
        let notices: Vec<Notice> = replay.notices.into_iter().skip(self.recorded).collect();
        self.recorded += notices.len();
        let next = match result {
            Ok(due) => Next::Done(Ok(due)),
            Err(Stop::Failed(error)) => Next::Done(Err(error)),
            Err(Stop::Call(call)) => Next::Call(call),
        };
        (notices, next)
    }
}

/// Writes the status of an object, unless it is equal and need not be written.
pub(super) fn write_status(
    object: &Object,
    status: (&impl serde::Serialize, &impl serde::Serialize),
    even_if_equal: bool,
    replay: &mut Replay<'_>,
) -> Result<(), Stop> {
    let value = |error: serde_json::Error| Stop::Failed(error.to_string());
    let old = serde_json::to_value(status.0).map_err(value)?;
    let new = serde_json::to_value(status.1).map_err(value)?;
    let difference = super::patch::difference(&old, &new);
    if difference.is_none() && !even_if_equal {
        return Ok(());
    }
    let difference = difference.unwrap_or_else(|| serde_json::json!({}));
    let mut patch = serde_json::json!({"metadata": {}, "status": difference});
    let version = &*object.metadata().resource_version;
    if !version.is_empty() {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    let written = replay.call(|| Call::WriteStatus { status: new, patch })?;
    match written {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Stop::Failed(refusal.about_job(&object.metadata().name))),
    }
}
