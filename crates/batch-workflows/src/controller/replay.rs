//! A sync under way: the answers so far, the events, and the call that it stops at.

use super::call::{Answer, Call, Object};
use evictd_reconcile::{Notice, difference};

/// The answers so far, and the events.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    answers: &'a [Answer],
    pub(super) notices: Vec<Notice>,
    taken: usize,
    settled: Settled,
}

/// The part of a sync that need not run again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settled {
    /// The items of [`Replay::each`].
    pub(super) items: usize,
    /// The answers that they took in this turn.
    pub(super) answers: usize,
    /// The events that they recorded in this turn.
    pub(super) notices: usize,
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
    /// `items` of [`Replay::each`] are settled, and their answers are not among these.
    pub(super) const fn new(answers: &'a [Answer], items: usize) -> Self {
        Self {
            answers,
            notices: Vec::new(),
            taken: 0,
            settled: Settled {
                items,
                answers: 0,
                notices: 0,
            },
        }
    }

    pub(super) const fn settled(&self) -> Settled {
        self.settled
    }

    /// Handles each item with its calls, and never again once they are answered: else a sync would be quadratic in its calls.
    /// A sync has at most one such loop, before its other calls. Nothing but the calls and events of an item may matter later.
    pub(super) fn each<T>(
        &mut self,
        items: &[T],
        handle: impl Fn(&mut Self, &T) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        while let Some(item) = items.get(self.settled.items) {
            handle(self, item)?;
            self.settled = Settled {
                items: self.settled.items + 1,
                answers: self.taken,
                notices: self.notices.len(),
            };
        }
        Ok(())
    }

    /// The answer to a call, if it has one.
    pub(super) fn call(&mut self, call: impl FnOnce() -> Call) -> Result<&'a Answer, Stop> {
        let Some((answer, rest)) = self.answers.split_first() else {
            return Err(Stop::Call(call()));
        };
        self.answers = rest;
        self.taken += 1;
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
