//! Plugin extender: a server of the operator takes part in sessions (S6-224). It is asked over HTTP, through a port.

mod settings;
mod wire;

use super::{OnNode, Plugin, Reserved, Tiers, Vote};
use crate::conf::Arguments;
use crate::session::extender_calls::ExtenderCalls;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::Resource;
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::{Cluster, NodeId};
use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use serde::de::DeserializeOwned;
use settings::{Settings, Verb};
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wire::Encoder;

/// The most bytes of a request. A larger one is not sent.
const LONGEST_REQUEST: usize = 64 << 20;

/// The most bytes of the kept answers. With more, the same question may be sent again.
const LARGEST_ANSWERS: usize = 64 << 20;

/// The most characters of a message of the server that a condition repeats.
const LONGEST_MESSAGE: usize = 256;

/// The text of a response, or why there is none.
type Answer = Result<Box<str>, Box<str>>;

/// Responses by verb and request, so that the same question is sent once. A notification clears them.
#[derive(Debug, Default)]
struct Answers {
    by_request: HashMap<u64, Answer>,
    bytes: usize,
}

impl Answers {
    fn get(&self, request: u64) -> Option<Answer> {
        self.by_request.get(&request).cloned()
    }

    fn insert(&mut self, request: u64, answer: Answer) {
        let (Ok(text) | Err(text)) = &answer;
        if self.bytes.saturating_add(text.len()) > LARGEST_ANSWERS {
            *self = Self::default();
        }
        self.bytes += text.len();
        self.by_request.insert(request, answer);
    }
}

#[derive(Debug)]
pub(super) struct Extender {
    settings: Settings,
    calls: Arc<dyn ExtenderCalls>,
    encoder: Encoder,
    answers: RefCell<Answers>,
    /// Tasks whose last allocation the server refused, with its message.
    vetoes: HashMap<TaskId, String>,
    /// Whether a question was asked in this session.
    asked: Cell<bool>,
    /// It takes no part, because the server did not accept the session.
    left_out: bool,
    compat: Compat,
}

fn bounded(message: &str) -> String {
    message.chars().take(LONGEST_MESSAGE).collect()
}

impl Extender {
    pub(super) fn open(
        calls: Arc<dyn ExtenderCalls>,
        (snapshot, cluster): (&Snapshot, &Cluster),
        arguments: &Arguments,
        compat: Compat,
    ) -> Self {
        calls.begin();
        let mut extender = Self {
            settings: Settings::new(arguments),
            calls,
            encoder: Encoder::open(snapshot, cluster),
            answers: RefCell::default(),
            vetoes: HashMap::new(),
            asked: Cell::new(false),
            left_out: false,
            compat,
        };
        let opened = extender.notify(Verb::SessionOpen, || extender.encoder.session(snapshot));
        extender.left_out =
            opened.is_some_and(|opened| opened.is_err()) && !extender.settings.ignorable;
        extender
    }

    /// Whether the server takes part where this verb is used.
    fn has(&self, verb: Verb) -> bool {
        !self.left_out && self.settings.url(verb).is_some()
    }

    /// Whether the server is responsible for a task.
    fn is_interested(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        let request = &snapshot.tasks[task].request;
        let mut managed = self.settings.managed.iter();
        self.settings.managed.is_empty()
            || managed.any(|name| {
                let dim = snapshot.dims.find(name);
                dim.is_some_and(|dim| request.get(dim) > 0.0)
            })
    }

    /// Whether a failed call is ignored.
    fn ignores_failures(&self) -> bool {
        self.settings.ignorable && self.compat.has(Difference::IgnorableExtender)
    }

    fn post(&self, url: &str, body: Vec<u8>) -> Result<String, String> {
        if body.len() > LONGEST_REQUEST {
            let limit = LONGEST_REQUEST >> 20;
            return Err(format!(
                "extender {url}: the request has more than {limit} MiB"
            ));
        }
        let answer = self.calls.post(url, self.settings.within, body);
        answer.map_err(|problem| bounded(&format!("extender {url}: {problem}")))
    }

    /// The failure of every call once the port sends none. Then no request is written: a session would need long to write one
    /// for each pair of a pod and a node.
    fn used_up(&self, url: &str) -> Option<String> {
        self.calls.is_over().then(|| {
            format!(
                "extender {url}: not asked, because earlier calls of this session took too long"
            )
        })
    }

    /// Sends a notification. Returns the answer; `None` if the configuration has no such verb.
    fn notify<T: Serialize>(
        &self,
        verb: Verb,
        request: impl FnOnce() -> T,
    ) -> Option<Result<String, String>> {
        let url = self.settings.url(verb).filter(|_| !self.left_out)?;
        // From now on the server may give other answers.
        self.answers.take();
        if let Some(problem) = self.used_up(url) {
            return Some(Err(problem));
        }
        Some(match serde_json::to_vec(&request()) {
            Ok(body) => self.post(url, body),
            Err(error) => Err(format!("extender {url}: {error}")),
        })
    }

    /// Asks the server. `None` if it takes no part here.
    fn ask<T: DeserializeOwned>(
        &self,
        verb: Verb,
        request: impl FnOnce() -> Result<Vec<u8>, serde_json::Error>,
    ) -> Option<Result<T, String>> {
        let url = self.settings.url(verb).filter(|_| !self.left_out)?;
        self.asked.set(true);
        if let Some(problem) = self.used_up(url) {
            return Some(Err(problem));
        }
        let wrong = |error: serde_json::Error| bounded(&format!("extender {url}: {error}"));
        let body = match request() {
            Ok(body) => body,
            Err(error) => return Some(Err(wrong(error))),
        };
        let mut hasher = DefaultHasher::new();
        (verb.argument(), &body).hash(&mut hasher);
        let key = hasher.finish();
        let known = self.answers.borrow().get(key);
        let answer = known.unwrap_or_else(|| {
            let answer = self.post(url, body);
            let answer = answer.map(Into::into).map_err(Into::into);
            self.answers.borrow_mut().insert(key, answer.clone());
            answer
        });
        Some(match answer {
            Ok(text) => serde_json::from_str(&text).map_err(wrong),
            Err(problem) => Err(problem.into()),
        })
    }

    /// The candidates that the server offers as victims for a task.
    fn victims(
        &self,
        verb: Verb,
        snapshot: &Snapshot,
        evictor: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if !self.is_interested(snapshot, evictor) {
            return None;
        }
        let answer: Result<wire::VoteResponse, String> = self.ask(verb, || {
            let evictees = candidates
                .iter()
                .map(|task| self.encoder.task(snapshot, *task));
            serde_json::to_vec(&wire::EvicteesRequest {
                evictor: self.encoder.task(snapshot, evictor),
                evictees: evictees.collect(),
            })
        })?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(_) if self.ignores_failures() => return None,
            Err(_) => return Some(Vec::new()),
        };
        if answer.status == 0 {
            return None;
        }
        let victims = answer.victims.unwrap_or_default();
        let named: HashSet<&str> = victims.iter().map(|victim| victim.uid.as_str()).collect();
        // Only those that were offered.
        let offered = candidates.iter().copied();
        Some(
            offered
                .filter(|task| named.contains(&**snapshot.tasks[*task].id))
                .collect(),
        )
    }

    /// Notifies the server that a task got a node or lost it. Returns its objection.
    fn event(&self, verb: Verb, snapshot: &Snapshot, task: TaskId) -> Option<String> {
        if !self.is_interested(snapshot, task) {
            return None;
        }
        let request = || wire::TaskRequest {
            task: self.encoder.task(snapshot, task),
        };
        match self.notify(verb, request)? {
            Err(problem) => (!self.settings.ignorable).then_some(problem),
            Ok(text) => {
                let answer = serde_json::from_str::<wire::EventResponse>(&text);
                let message = answer.ok()?.error_message?;
                (!message.is_empty()).then(|| bounded(&message))
            }
        }
    }
}

impl Plugin for Extender {
    fn preemptable(
        &self,
        tiers: Tiers<'_>,
        preemptor: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.victims(Verb::Preemptable, tiers.snapshot, preemptor, candidates)
    }

    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        reclaimer: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.victims(Verb::Reclaimable, tiers.snapshot, reclaimer, candidates)
    }

    fn might_yield(&self, _: &Snapshot, _: JobId, _: JobId) -> Option<bool> {
        self.has(Verb::Preemptable).then_some(true)
    }

    fn job_enqueueable(
        &self,
        tiers: Tiers<'_>,
        job: JobId,
        _: &Resource,
        _: &Reserved,
    ) -> Result<Vote, String> {
        let answer = self.ask(Verb::JobEnqueueable, || {
            let job = self.encoder.job(tiers.snapshot, job);
            serde_json::to_vec(&wire::JobRequest { job })
        });
        let answer: wire::VoteResponse = match answer {
            None => return Ok(Vote::Abstain),
            Some(Ok(answer)) => answer,
            Some(Err(_)) if self.settings.ignorable => return Ok(Vote::Permit),
            Some(Err(problem)) => return Err(problem),
        };
        match answer.status {
            0 => Ok(Vote::Abstain),
            1.. => Ok(Vote::Permit),
            _ => Err("the extender of the scheduler does not let the job in".to_owned()),
        }
    }

    fn job_let_in(&mut self, snapshot: &Snapshot, job: JobId) {
        // As in Volcano nothing follows from the answer.
        let _ = self.notify(Verb::JobEnqueued, || wire::JobRequest {
            job: self.encoder.job(snapshot, job),
        });
    }

    fn overused(&self, queue: QueueId) -> bool {
        let answer = self.ask(Verb::QueueOverused, || {
            let queue = self.encoder.queue(queue);
            serde_json::to_vec(&wire::QueueRequest { queue })
        });
        answer.is_some_and(|answer: Result<wire::OverusedResponse, String>| {
            answer.map_or(!self.settings.ignorable, |answer| answer.overused)
        })
    }

    fn job_ready(&self, snapshot: &Snapshot, job: JobId) -> bool {
        let answer = self.ask(Verb::JobReady, || {
            let job = self.encoder.job(snapshot, job);
            serde_json::to_vec(&wire::JobRequest { job })
        });
        answer.is_none_or(|answer: Result<wire::ReadyResponse, String>| {
            // Volcano has it the wrong way round: only an ignorable server that fails keeps jobs from being ready.
            let strict = self.compat.has(Difference::IgnorableExtender);
            answer.map_or(self.settings.ignorable == strict, |answer| answer.status)
        })
    }

    fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        match self.event(Verb::Allocate, snapshot, task) {
            Some(veto) => self.vetoes.insert(task, veto),
            None => self.vetoes.remove(&task),
        };
    }

    fn deallocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        // The task has lost its node already, so an objection has no effect.
        let _ = self.event(Verb::Deallocate, snapshot, task);
    }

    fn veto(&self, task: TaskId) -> Option<&str> {
        self.vetoes.get(&task).map(String::as_str)
    }

    /// The server may distinguish any two tasks.
    fn node_key(&self, snapshot: &Snapshot, task: TaskId) -> u64 {
        let judges = self.has(Verb::Predicate) || self.has(Verb::Prioritize);
        if judges && self.is_interested(snapshot, task) {
            task.index() as u64 + 1
        } else {
            0
        }
    }

    /// A server that counts allocations may judge every node otherwise after each.
    fn looks_beyond(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        self.has(Verb::Predicate)
            && (self.has(Verb::Allocate) || self.has(Verb::Deallocate))
            && self.is_interested(snapshot, task)
    }

    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        let OnNode {
            snapshot,
            task,
            node,
        } = at;
        if !self.is_interested(snapshot, task) {
            return None;
        }
        let answer: Result<wire::PredicateResponse, String> = self.ask(Verb::Predicate, || {
            serde_json::to_vec(&wire::OnNodeRequest {
                task: self.encoder.task(snapshot, task),
                node: self.encoder.node(snapshot, node),
            })
        })?;
        let (text, unresolvable) = match answer {
            Err(_) if self.settings.ignorable => return None,
            Err(problem) => (problem, true),
            Ok(answer) => {
                let message = answer.status.filter(|message| !message.is_empty())?;
                (bounded(&message), answer.code != wire::UNSCHEDULABLE)
            }
        };
        Some(Refusal {
            texts: vec![text],
            unresolvable,
            ..Refusal::default()
        })
    }

    fn scores_together(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        self.has(Verb::Prioritize) && self.is_interested(snapshot, task)
    }

    fn node_scores(&self, at: OnNode<'_>, nodes: &[NodeId]) -> Option<Vec<f64>> {
        let (snapshot, task) = (at.snapshot, at.task);
        if !self.is_interested(snapshot, task) {
            return None;
        }
        let answer: Result<wire::PrioritizeResponse, String> =
            self.ask(Verb::Prioritize, || {
                let nodes = nodes.iter().map(|node| self.encoder.node(snapshot, *node));
                serde_json::to_vec(&wire::OnNodesRequest {
                    task: self.encoder.task(snapshot, task),
                    nodes: nodes.collect(),
                })
            })?;
        // Without an answer no node is better than another.
        let answer = answer.ok()?;
        let failed = answer
            .error_message
            .is_some_and(|message| !message.is_empty());
        let scores = answer.node_score.filter(|_| !failed)?;
        let scores = nodes.iter().map(|node| {
            let score = scores.get(self.encoder.node_name(*node)).copied();
            score.filter(|score| score.is_finite()).unwrap_or(0.0)
        });
        Some(scores.collect())
    }

    fn closed(&self) -> bool {
        let url = self.settings.url(Verb::SessionClose);
        if let Some(url) = url {
            // As in Volcano also after a session that the server did not accept; nothing follows from the answer.
            let _ = self.post(url, b"{}".to_vec());
        }
        self.asked.get() || self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::{Answers, LARGEST_ANSWERS};

    #[test]
    fn s6_224_kept_answers_are_bounded_in_bytes() {
        let mut answers = Answers::default();
        for request in 0..5 {
            let text = "x".repeat(LARGEST_ANSWERS / 4);
            answers.insert(request, Ok(text.into()));
            assert!(answers.get(request).is_some() && answers.bytes <= LARGEST_ANSWERS);
        }
        assert!(answers.get(0).is_none());
    }
}
