//! The answer, with the keys of its JSON.

use super::search::{Proposal, Tried};
use super::subject::Subject;
use crate::session::JobDiagnosis;
use evictd_pod::wire::full_name;
use serde::Serialize;

/// How it is with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It waits for room, or for something that it needs before.
    Waits,
    /// It is pending: not enqueued yet.
    #[serde(rename = "notLetIn")]
    NotEnqueued,
    /// The next sessions start it, with all as it is.
    Starts,
    /// All its pods have a node.
    Runs,
    /// Its gang runs, and more of its pods wait.
    RunsInPart,
    /// It was stopped, and can be resumed.
    Stopped,
    /// It is over.
    Finished,
}

/// Why a job waits.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// As requested, `namespace/name`.
    pub job: String,
    /// Its kind: `Job`, `PodGroup`, `Pod`, or the `Owner` of pods.
    pub kind: &'static str,
    /// Its pod group, `namespace/name`, whether it is there or not.
    pub pod_group: String,
    /// How it is with it.
    pub state: State,
    /// The answer in a line.
    pub headline: String,
    /// Further remarks, a sentence each.
    pub more: Vec<String>,
    /// The changes that would start it, the smallest of each kind, expected ones first. Each was tried.
    pub soonest: Vec<Proposal>,
    /// Every change that was tried for them.
    #[serde(skip)]
    pub tried: Vec<Tried>,
    /// The jobs before it in the queue, as `diagnosis.ahead` has them by their pod groups.
    pub ahead: Vec<String>,
    /// Its preempted pods, newest first.
    pub history: Vec<String>,
    /// The session's diagnosis; absent if no session considers it.
    #[serde(rename = "closeup", skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<JobDiagnosis>,
    /// The message that the session would write to the pod group's condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

impl Answer {
    pub(super) fn of(subject: &Subject, state: State, headline: String) -> Self {
        Self {
            job: full_name(&subject.namespace, &subject.name),
            kind: subject.kind.as_str(),
            pod_group: subject.group.clone(),
            state,
            headline,
            more: Vec::new(),
            soonest: Vec::new(),
            tried: Vec::new(),
            ahead: Vec::new(),
            history: Vec::new(),
            diagnosis: None,
            said: None,
        }
    }
}
