//! A sync under way: the answers so far, the events, and the call that it stops at.

use super::call::{Answer, Call, Object};
use evictd_reconcile::{Notice, difference};

/// The answers so far, and the events.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    answers: &'a [Answer],
    pub(super) notices: Vec<Notice>,
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
    pub(super) const fn new(answers: &'a [Answer]) -> Self {
        Self {
            answers,
            notices: Vec::new(),
        }
    }

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
    let changes = difference(&old, &new);
    if changes.is_none() && !even_if_equal {
        return Ok(());
    }
    let changes = changes.unwrap_or_else(|| serde_json::json!({}));
    let mut patch = serde_json::json!({"metadata": {}, "status": changes});
    let version = &*object.metadata().resource_version;
    if !version.is_empty() {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    let written = replay.call(|| Call::WriteStatus { status: new, patch })?;
    match written {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Stop::Failed(
            refusal.about(object.kind().resource(), &object.metadata().name),
        )),
    }
}
