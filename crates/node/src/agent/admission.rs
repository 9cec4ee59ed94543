//! Whether a new pod is admitted: by the conditions of this node (S1-085 to S1-089), and by its allocatable resources
//! (S2-001 to S2-005). The latter count only if they are known.
//!
//! ```text
//!   cache -> Gate::admit, once per new pod -> AdmissionDecision -> reported | rejected | other pods preempted
//! ```

use super::{active::Active, allocatable::Allocatable};
use crate::{
    config,
    fact::{AdmissionAction, AdmissionDecision},
    pods::{LocalPod, PodCache, PodSet, Rejection},
};
use evictd_admission::{Answer, critical, fit};
use evictd_decision::Spared;
use evictd_eviction::{Housekeeper, rules::own_grace_period_seconds};
use evictd_pod::{Node, Pod};
use evictd_signals::{ConditionMap, NodeCondition, Observations};
use jiff::Timestamp;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// State that admission keeps between cycles.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Since when each condition holds and keeps new pods off the node.
    raised: ConditionMap<Option<Timestamp>>,
    /// When the agent's first cycle began; pods that were there by then are not new.
    begun: Option<Timestamp>,
    /// The last observations of the node.
    seen: Observations,
    /// UIDs of pods that are admitted without a check.
    admitted_unchecked: BTreeSet<String>,
    /// The reason and message of rejected pods, by UID.
    rejections: BTreeMap<String, Rejection>,
    decisions: Vec<AdmissionDecision>,
    count: u64,
}

impl Admission {
    /// Notes which conditions hold now, and the observations of the node.
    pub(super) fn observe(
        &mut self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        seen: &Observations,
    ) {
        let since = |condition| self.raised[condition].unwrap_or(now);
        let held = housekeeper.taints();
        self.raised = held
            .map(|condition| (condition, Some(since(condition))))
            .collect();
        self.begun.get_or_insert(now);
        self.seen.clone_from(seen);
    }

    /// Admits this pod the next time it is checked, without a check.
    pub(super) fn admit_unchecked(&mut self, uid: &str) {
        self.admitted_unchecked.insert(uid.to_owned());
    }

    /// This condition keeps new pods off the node, as it did before this start.
    pub(super) fn restore(&mut self, condition: NodeCondition, since: Timestamp) {
        self.raised[condition] = Some(since);
    }

    /// An earlier run has rejected this pod.
    pub(super) fn restore_rejection(&mut self, uid: String, rejection: Rejection) {
        self.rejections.insert(uid, rejection);
    }

    /// The conditions that held when a pod came.
    fn held_at(&self, came: Timestamp) -> Vec<NodeCondition> {
        self.raised
            .iter()
            .filter(|(_, raised)| raised.is_some_and(|raised| came >= raised))
            .map(|(condition, _)| condition)
            .collect()
    }

    /// The present set of pods, after each new one was checked. The decisions about them are kept for
    /// [`Admission::take_decisions`].
    pub(super) fn check(&mut self, cache: &mut PodCache, node: &Situation<'_>) -> Arc<PodSet> {
        let mut gate = Gate { node, memory: self };
        let admit = |pod: &Pod, here: &[&Pod]| gate.admit(pod, here);
        if node.again {
            cache.fresh_snapshot(admit)
        } else {
            cache.snapshot(admit)
        }
    }

    /// The decisions since the last call. Pods that are no longer listed are forgotten.
    pub(super) fn take_decisions(&mut self, active: &Active) -> Vec<AdmissionDecision> {
        // A UID never comes back, so a pod that is no longer listed needs no memory.
        self.admitted_unchecked.retain(|uid| active.is_listed(uid));
        self.rejections.retain(|uid, _| active.is_listed(uid));
        std::mem::take(&mut self.decisions)
    }

    /// The answer that a pod would get now; it has no effects.
    pub(super) fn would_admit(
        &self,
        pod: &Pod,
        here: &[LocalPod],
        housekeeper: &Housekeeper,
        room: &Allocatable,
    ) -> evictd_admission::Outcome {
        let conditions: Vec<NodeCondition> = housekeeper.taints().collect();
        let node = room.node(housekeeper, &self.seen).map(|node| (room, node));
        let finding = examine(pod, here, &conditions, node, housekeeper);
        let mut outcome = finding.answer.named(&finding.candidates);
        let qos = |pod: &Pod| (pod.full_name(), pod.qos.as_str().to_owned());
        outcome.qos.extend(here.iter().map(|pod| qos(pod)));
        outcome
    }

    /// The decision to preempt `pod` for a critical pod that lacks this resource.
    pub(super) fn preemption(
        &mut self,
        now: Timestamp,
        (pod, preemptor, lacks): (&Pod, &Pod, String),
        (least_grace, boot_id): (Duration, &str),
    ) -> AdmissionDecision {
        let seconds = u64::try_from(own_grace_period_seconds(pod)).unwrap_or(0);
        AdmissionDecision {
            id: self.id(now),
            time: now,
            pod: pod.clone(),
            act: AdmissionAction::Leave {
                preemptor: preemptor.full_name(),
            },
            reason: critical::REASON.to_owned(),
            message: critical::MESSAGE.to_owned(),
            preempt: Vec::new(),
            conditions: Vec::new(),
            victims: Vec::new(),
            lacks,
            grace: Duration::from_secs(seconds).max(least_grace),
            notice: None,
            ends: true,
            boot_id: boot_id.to_owned(),
        }
    }

    /// A new id for a decision.
    fn id(&mut self, now: Timestamp) -> String {
        self.count += 1;
        format!("{:x}-a{}", now.as_millisecond(), self.count)
    }
}

/// An admission answer, with the pods that its indices refer to.
struct Finding<'a> {
    answer: Answer,
    candidates: Vec<&'a Pod>,
    /// The first resource that is short.
    lacks: String,
}

/// Whether `pod` can be admitted beside `here`. Protected pods use resources, but are never preempted.
fn examine<'a>(
    pod: &Pod,
    here: &'a [impl Borrow<Pod>],
    conditions: &[NodeCondition],
    room: Option<(&Allocatable, Node)>,
    housekeeper: &Housekeeper,
) -> Finding<'a> {
    let failures = match room {
        Some((Allocatable::Machine { .. }, node)) => {
            // Of a machine only some amounts are known. An unknown amount cannot be called missing.
            let known = |failure: &evictd_admission::Failure| match failure {
                evictd_admission::Failure::Insufficient(short) => {
                    node.status.allocatable.contains_key(&short.resource)
                }
                evictd_admission::Failure::Predicate { .. } => false,
            };
            let mut failures = fit::shortages(pod, here, &node);
            failures.retain(known);
            failures
        }
        Some((_, node)) => fit::failures(pod, here, &node),
        None => Vec::new(),
    };
    let lacks = failures.iter().find_map(|failure| match failure {
        evictd_admission::Failure::Insufficient(short) => Some(short.resource.clone()),
        evictd_admission::Failure::Predicate { .. } => None,
    });
    let rules = housekeeper.rules();
    let may_go = |other: &&Pod| {
        // A preemption must not end a pod that no eviction may end.
        let protected = rules.protect.covers(other) || rules.spares(other) == Some(Spared::Never);
        !protected && !fit::is_same(other, pod)
    };
    let candidates: Vec<&Pod> = here.iter().map(Borrow::borrow).filter(may_go).collect();
    Finding {
        answer: evictd_admission::admit(pod, &candidates, conditions, &failures),
        candidates,
        lacks: lacks.unwrap_or_default(),
    }
}

/// The node as admission sees it.
pub(super) struct Situation<'a> {
    pub(super) now: Timestamp,
    pub(super) mode: config::Admission,
    /// Whether the decision is carried out. It is not if the kubelet cannot be informed of it: the kubelet would only
    /// restart the pod, and evictd kill it again and again.
    pub(super) acts: bool,
    pub(super) housekeeper: &'a Housekeeper,
    pub(super) room: &'a Allocatable,
    /// Whether existing cgroups are read again, and rejected pods that may still be admitted are checked again.
    pub(super) again: bool,
}

impl Situation<'_> {
    /// Whether the pod with this UID has left or is about to.
    fn leaves(&self, uid: &str) -> bool {
        let departures = self.housekeeper.departures();
        departures.is_terminating(uid) || departures.is_planned(uid) || departures.has_left(uid)
    }
}

/// Decides on new pods; exists while the pod cache is borrowed.
struct Gate<'a> {
    node: &'a Situation<'a>,
    memory: &'a mut Admission,
}

impl Gate<'_> {
    fn admit(&mut self, pod: &Pod, here: &[&Pod]) -> Result<(), Rejection> {
        let ends = pod.terminal || pod.deletion_timestamp.is_some();
        // A pod that ends takes no room, and one that was let in again is not checked twice.
        if ends || self.memory.admitted_unchecked.remove(&pod.uid) {
            return Ok(());
        }
        let rejection = self.rejection_of(pod);
        let Some(begun) = self.memory.begun else {
            // Pods that are there at the start are not new, but some were rejected by an earlier run.
            return rejection.map_or(Ok(()), Err);
        };
        let may_change = self.node.again && self.node.room.is_machine();
        if let Some(rejection) = rejection.filter(|_| !may_change) {
            return Err(rejection);
        }
        if self.node.mode == config::Admission::Off {
            return Ok(());
        }
        // A pod from before the condition was raised is not new, even if it is seen only now.
        let came = pod.start_time.unwrap_or(self.node.now);
        let conditions = self.memory.held_at(came);
        let (room, here) = if came >= begun {
            let stays = |other: &&&Pod| !other.terminal && !self.node.leaves(&other.uid);
            let here: Vec<&Pod> = here.iter().filter(stays).copied().collect();
            let node = self
                .node
                .room
                .node(self.node.housekeeper, &self.memory.seen);
            (node, here)
        } else {
            (None, Vec::new())
        };
        if conditions.is_empty() && room.is_none() {
            return Ok(());
        }
        let room = room.map(|node| (self.node.room, node));
        let finding = examine(pod, &here, &conditions, room, self.node.housekeeper);
        self.decide(pod, conditions, finding)
    }

    /// The reason and message of this pod's rejection, if it was rejected.
    fn rejection_of(&self, pod: &Pod) -> Option<Rejection> {
        let rejection = self.memory.rejections.get(&pod.uid);
        rejection
            .filter(|_| self.node.housekeeper.departures().is_rejected(&pod.uid))
            .cloned()
    }

    fn decide(
        &mut self,
        pod: &Pod,
        conditions: Vec<NodeCondition>,
        finding: Finding<'_>,
    ) -> Result<(), Rejection> {
        let Finding {
            answer,
            candidates,
            lacks,
        } = finding;
        let for_pressure = !evictd_admission::admit(pod, &candidates, &conditions, &[]).allowed;
        let fits = answer.allowed && answer.preempt.is_empty();
        // A node with a kubelet leaves fitting to the kubelet, so only a warning is worth while when it preempts.
        let is_ours = for_pressure || self.node.room.is_machine();
        if fits || !(is_ours || pod.critical.is_some()) {
            return Ok(());
        }
        let acts = self.node.mode == config::Admission::Reject && self.node.acts && is_ours;
        let rejection = Rejection {
            reason: answer.reason.clone(),
            message: answer.message.clone(),
        };
        // It was rejected before: that decision is in the history, and a second one would be published again.
        if acts && !answer.allowed && self.rejection_of(pod).is_some() {
            return Err(rejection);
        }
        let of_victims = |text: fn(&Pod) -> String| {
            let victims = answer
                .preempt
                .iter()
                .filter_map(|index| candidates.get(*index));
            victims.copied().map(text).collect::<Vec<_>>()
        };
        let decision = AdmissionDecision {
            id: self.memory.id(self.node.now),
            time: self.node.now,
            pod: pod.clone(),
            act: match (acts, answer.allowed) {
                (false, _) => AdmissionAction::Report,
                (true, true) => AdmissionAction::Preempt,
                (true, false) => AdmissionAction::Reject,
            },
            preempt: of_victims(Pod::full_name),
            victims: of_victims(|pod| pod.uid.clone()),
            reason: if answer.allowed {
                critical::REASON.to_owned()
            } else {
                answer.reason
            },
            message: if answer.allowed {
                format!("too little {lacks} is free")
            } else {
                answer.message
            },
            lacks,
            conditions: if for_pressure { conditions } else { Vec::new() },
            grace: Duration::ZERO,
            notice: None,
            ends: false,
            boot_id: String::new(),
        };
        let rejected = decision.act == AdmissionAction::Reject;
        if rejected {
            let uid = pod.uid.clone();
            self.memory.rejections.insert(uid, rejection.clone());
        }
        self.memory.decisions.push(decision);
        if rejected { Err(rejection) } else { Ok(()) }
    }
}
