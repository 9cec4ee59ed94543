//! The steps of a round.

use super::call::{Answer, Call, Done};
use super::failure::RoundError;
use evictd_batch_objects::{Job, TaskPod};
use evictd_reconcile::{Notice, Refusal};
use std::sync::Arc;

/// The next step of a round, and the answer that it needs.
#[derive(Debug)]
pub struct Step {
    /// Events on the job.
    pub notices: Vec<Notice>,
    /// The job as it is stored now, if the round has changed it.
    pub stored: Option<Box<Job>>,
    /// Pods of which it is not known whether they are still there (S6-032).
    pub unsure: Vec<String>,
    /// Pods that were created, as the answers show them.
    pub created: Vec<Arc<TaskPod>>,
    /// The next calls, or the end.
    pub next: Next,
}

/// The next calls, or the end of a round.
#[derive(Debug)]
pub enum Next {
    /// Make these, all at once if possible, and bring their answers in this order.
    Calls(Vec<Call>),
    /// It is over.
    Done(Result<(), RoundError>),
}

impl Step {
    pub(super) fn calls(calls: Vec<Call>) -> Self {
        Self {
            notices: Vec::new(),
            stored: None,
            unsure: Vec::new(),
            created: Vec::new(),
            next: Next::Calls(calls),
        }
    }

    pub(super) fn done(result: Result<(), RoundError>) -> Self {
        Self {
            next: Next::Done(result),
            ..Self::calls(Vec::new())
        }
    }
}

/// Turns the first failure into the error of a round. An object that exists or is deleted already is no failure.
pub(super) fn checked(what: &'static str, answers: Vec<Answer>) -> Result<Vec<Done>, RoundError> {
    let harmless = |answer: Answer| match answer {
        // An earlier round may have made the call and lost the answer.
        Err(Refusal::NotFound | Refusal::AlreadyExists) => Ok(Done::Nothing),
        answer => answer,
    };
    let answers = answers.into_iter().map(harmless).collect::<Result<_, _>>();
    answers.map_err(|refusal: Refusal| RoundError::Call {
        what,
        why: refusal.to_string(),
    })
}

/// How many failures are listed.
const TOLD: usize = 10;

/// Names that failed and why, as Volcano lists them: `[failed to delete pod a, err ...]`. The first are enough.
pub(super) fn listed(verb: &str, failed: &[(String, Refusal)]) -> String {
    let one =
        |(name, refusal): &(String, Refusal)| format!("failed to {verb} pod {name}, err {refusal}");
    let more = failed.len().saturating_sub(TOLD);
    let more = (more > 0).then(|| format!("and {more} more"));
    let all: Vec<String> = failed.iter().take(TOLD).map(one).chain(more).collect();
    format!("[{}]", all.join(" "))
}
