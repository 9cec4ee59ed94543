//! Attempts that ask extenders.

use super::{Attempt, Outcome, Scheduler};
use crate::config::Extender;
use crate::cycle::{Filtered, Verdict};
use crate::extenders::{
    ExtenderRequest, ExtenderResponse, ExtenderState, NodeVictims, Replay, asks, choose,
    is_interested, narrow,
};
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{NodeId, Pod};
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

/// The most questions about nodes in one attempt. The nodes may change between question and answer.
const ROUNDS: u32 = 3;

/// The next step of an attempt.
enum Step {
    Decided(ScheduleResult),
    FitsNowhere(Box<Filtered>),
    AskExtenders(ExtenderRequest),
    Error(String),
}

impl Scheduler {
    /// Sets the extenders, in the order in which they are asked.
    pub fn set_extenders(&mut self, extenders: Vec<Extender>) {
        self.extenders = extenders;
    }

    /// Whether one of the extenders is asked about a pod.
    pub(super) fn has_extenders(&self, pod: &wire::Pod) -> bool {
        self.extenders
            .iter()
            .any(|extender| is_interested(extender, pod))
    }

    /// Continues an attempt with the answer to its [`Outcome::AskExtenders`]. `None` if the pod was deleted, or belongs to a gang:
    /// [`Scheduler::attempt`] returns the results of gangs.
    pub fn on_extender_response(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        reply: ExtenderResponse,
    ) -> Option<Attempt> {
        if self.answered_of_gang(now, (key, &reply)) {
            return None;
        }
        let asked = self.asked.get_mut(key)?;
        asked.hear(reply);
        let number = asked.number;
        let Some(pod) = self.queue.pod(key).cloned() else {
            self.asked.remove(key);
            self.queue.done(now, key);
            return None;
        };
        let outcome = self.interruptible(|own| own.decide(now, key, &pod, number));
        if !matches!(outcome, Outcome::AskExtenders(_)) {
            self.asked.remove(key);
        }
        Some(Attempt {
            key: Arc::clone(key),
            pod,
            number,
            outcome,
        })
    }

    /// Decides about a pod with the answers of the extenders that have arrived.
    pub(super) fn decide_with_extenders(
        &mut self,
        now: Timestamp,
        (key, number): (&Arc<str>, u32),
        (wire, mut pod): (&Arc<wire::Pod>, Pod),
        profile: usize,
    ) -> Outcome {
        let mut asked = self.asked.remove(key).unwrap_or_default();
        asked.number = number;
        if asked.leaves_nominated {
            self.cluster.forget_nomination(&mut pod);
        }
        let step = self.step(&mut asked, wire, &pod, profile);
        self.asked.insert(Arc::clone(key), asked);
        let outcome = match step {
            _ if self.is_interrupted() => {
                self.cluster.release(pod);
                self.end_interrupted(now, key, wire)
            }
            Step::Decided(decided) => self.place(now, (key, wire, number, profile), pod, decided),
            Step::FitsNowhere(filtered) => self.reject(now, key, (wire, pod), (profile, *filtered)),
            Step::AskExtenders(question) => {
                self.cluster.release(pod);
                Outcome::AskExtenders(question)
            }
            Step::Error(message) => {
                self.cluster.release(pod);
                self.error(now, key, message)
            }
        };
        if !matches!(outcome, Outcome::AskExtenders(_)) {
            self.asked.remove(key);
        }
        outcome
    }

    fn step(&self, asked: &mut ExtenderState, wire: &wire::Pod, pod: &Pod, profile: usize) -> Step {
        let (framework, cluster) = (&self.frameworks[profile], &self.cluster);
        let mut filtered = Box::new(framework.filter(cluster, pod));
        let mut scores = None;
        if !filtered.feasible.is_empty()
            && self.extenders.iter().any(|extender| asks(extender, wire))
        {
            let reply = match &asked.reply {
                Some(Ok(reply)) => reply,
                Some(Err(message)) => return Step::Error(message.clone()),
                None => return self.ask_about(asked, &filtered),
            };
            let known = |id: &NodeId| asked.nodes.contains(cluster.node_name(*id));
            let any_new = !filtered.feasible.iter().all(known);
            let alone = filtered.verdicts.contains(&Verdict::NotTried);
            filtered = narrow(cluster, reply, filtered);
            if filtered.feasible.is_empty() && (any_new || alone) && asked.rounds < ROUNDS {
                // The extenders reject the nominated node, or nodes have become feasible since the question.
                asked.leaves_nominated |= alone;
                asked.reply = None;
                return self.ask_again(asked, pod, profile);
            }
            scores = Some(reply);
        }
        if filtered.feasible.is_empty() {
            return Step::FitsNowhere(filtered);
        }
        let feasible = &filtered.feasible;
        Step::Decided(choose(framework, cluster, pod, feasible, scores))
    }

    fn ask_about(&self, asked: &mut ExtenderState, filtered: &Filtered) -> Step {
        let nodes = filtered.feasible.iter();
        let nodes = nodes.map(|id| Arc::from(self.cluster.node_name(*id)));
        let nodes: Vec<Arc<str>> = nodes.collect();
        asked.nodes = nodes.iter().cloned().collect();
        asked.rounds += 1;
        Step::AskExtenders(ExtenderRequest::Nodes(nodes))
    }

    /// Asks about all feasible nodes, whatever the nomination.
    fn ask_again(&self, asked: &mut ExtenderState, pod: &Pod, profile: usize) -> Step {
        let mut pod = pod.clone();
        pod.identity.nominated = None;
        let filtered = self.frameworks[profile].filter(&self.cluster, &pod);
        if filtered.feasible.is_empty() {
            return Step::FitsNowhere(Box::new(filtered));
        }
        self.ask_about(asked, &filtered)
    }

    /// The extenders that take part in a preemption for a pod, with their answers.
    pub(super) fn replays<'a>(
        extenders: &'a [Extender],
        asked: Option<&'a ExtenderState>,
        pod: &wire::Pod,
    ) -> Vec<Replay<'a>> {
        let extenders = extenders.iter().enumerate();
        let some = extenders.filter(|(_, extender)| {
            !extender.preempt_verb.is_empty() && is_interested(extender, pod)
        });
        let replays = some.map(|(index, extender)| Replay {
            index,
            extender,
            said: asked.and_then(|asked| asked.victims.get(&index)),
            question: None,
        });
        replays.collect()
    }
}

/// The next question to an extender, if any.
pub(super) fn question(replays: Vec<Replay<'_>>) -> Option<ExtenderRequest> {
    replays.into_iter().find_map(|replay| {
        let offers: Vec<NodeVictims> = replay.question?;
        let extender = replay.index;
        Some(ExtenderRequest::Victims { extender, offers })
    })
}
