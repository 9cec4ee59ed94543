//! Whether a new pod is admitted: by the conditions of this node (S1-085 to S1-089), and by its allocatable resources
//! (S2-001 to S2-005). The latter count only if they are known.
//!
//! ```text
//!   cache -> Gate::admit, once per new pod -> AdmissionDecision -> reported | rejected | other pods preempted
//! ```

use super::{Agent, allocatable::Allocatable};
use crate::fact::{AdmissionAction, AdmissionDecision, Fact};
use crate::{config, pods::Rejection};
use evictd_eviction::{
    ConditionMap, Housekeeper, NodeCondition, Observations,
    admission::{self, Answer},
    critical,
    decision::Spared,
    departures::{Event, Planned, Purpose},
    fit,
    rules::own_grace_period_seconds,
};
use evictd_pod::{Node, Pod};
use jiff::Timestamp;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    path::Path,
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

    /// A new id for a decision.
    pub(super) fn id(&mut self, now: Timestamp) -> String {
        self.count += 1;
        format!("{:x}-a{}", now.as_millisecond(), self.count)
    }
}

/// An admission answer, with the pods that its indices refer to.
pub(super) struct Finding<'a> {
    pub(super) answer: Answer,
    pub(super) candidates: Vec<&'a Pod>,
    /// The first resource that is short.
    pub(super) lacks: String,
}

/// Whether `pod` can be admitted beside `here`. Protected pods use resources, but are never preempted.
pub(super) fn examine<'a>(
    pod: &Pod,
    here: &'a [impl Borrow<Pod>],
    conditions: &[NodeCondition],
    room: Option<(&Allocatable, Node)>,
    housekeeper: &Housekeeper,
) -> Finding<'a> {
    let failures = match room {
        Some((Allocatable::Machine { .. }, node)) => {
            let known = |failure: &admission::Failure| match failure {
                admission::Failure::Insufficient(short) => {
                    node.status.allocatable.contains_key(&short.resource)
                }
                admission::Failure::Predicate { .. } => false,
            };
            let mut failures = fit::shortages(pod, here, &node);
            failures.retain(known);
            failures
        }
        Some((_, node)) => fit::failures(pod, here, &node),
        None => Vec::new(),
    };
    let lacks = failures.iter().find_map(|failure| match failure {
        admission::Failure::Insufficient(short) => Some(short.resource.clone()),
        admission::Failure::Predicate { .. } => None,
    });
    let rules = housekeeper.rules();
    let may_go = |other: &&Pod| {
        let protected = rules.protect.covers(other) || rules.spares(other) == Some(Spared::Never);
        !protected && !fit::is_same(other, pod)
    };
    let candidates: Vec<&Pod> = here.iter().map(Borrow::borrow).filter(may_go).collect();
    Finding {
        answer: admission::admit(pod, &candidates, conditions, &failures),
        candidates,
        lacks: lacks.unwrap_or_default(),
    }
}

/// Decides on new pods; exists while the pod cache is borrowed.
struct Gate<'a> {
    now: Timestamp,
    mode: config::Admission,
    /// Whether the decision is carried out. It is not if the kubelet cannot be informed of it: the kubelet would only
    /// restart the pod, and evictd kill it again and again.
    acts: bool,
    memory: &'a mut Admission,
    housekeeper: &'a Housekeeper,
    room: &'a Allocatable,
    is_rejected: &'a dyn Fn(&str) -> bool,
    /// Whether rejected pods that may still be admitted are checked again.
    again: bool,
    leaves: &'a dyn Fn(&str) -> bool,
}

impl Gate<'_> {
    fn admit(&mut self, pod: &Pod, here: &[&Pod]) -> Result<(), Rejection> {
        let ends = pod.terminal || pod.deletion_timestamp.is_some();
        if ends || self.memory.admitted_unchecked.remove(&pod.uid) {
            return Ok(());
        }
        let rejection = self.rejection_of(pod);
        let Some(begun) = self.memory.begun else {
            // Pods that are there at the start are not new, but some were rejected by an earlier run.
            return rejection.map_or(Ok(()), Err);
        };
        let may_change = self.again && self.room.is_machine();
        if let Some(rejection) = rejection.filter(|_| !may_change) {
            return Err(rejection);
        }
        if self.mode == config::Admission::Off {
            return Ok(());
        }
        let came = pod.start_time.unwrap_or(self.now);
        let conditions = self.memory.held_at(came);
        let (room, here) = if came >= begun {
            let stays = |other: &&&Pod| !other.terminal && !(self.leaves)(&other.uid);
            let here: Vec<&Pod> = here.iter().filter(stays).copied().collect();
            let node = self.room.node(self.housekeeper, &self.memory.seen);
            (node, here)
        } else {
            (None, Vec::new())
        };
        if conditions.is_empty() && room.is_none() {
            return Ok(());
        }
        let room = room.map(|node| (self.room, node));
        let finding = examine(pod, &here, &conditions, room, self.housekeeper);
        self.decide(pod, conditions, finding)
    }

    /// The reason and message of this pod's rejection, if it was rejected.
    fn rejection_of(&self, pod: &Pod) -> Option<Rejection> {
        let rejection = self.memory.rejections.get(&pod.uid);
        rejection.filter(|_| (self.is_rejected)(&pod.uid)).cloned()
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
        let for_pressure = !admission::admit(pod, &candidates, &conditions, &[]).allowed;
        let fits = answer.allowed && answer.preempt.is_empty();
        // A node with a kubelet leaves fitting to the kubelet, so only a warning is worth while when it preempts.
        let is_ours = for_pressure || self.room.is_machine();
        if fits || !(is_ours || pod.critical.is_some()) {
            return Ok(());
        }
        let acts = self.mode == config::Admission::Reject && self.acts && is_ours;
        let rejection = Rejection {
            reason: answer.reason.clone(),
            message: answer.message.clone(),
        };
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
            id: self.memory.id(self.now),
            time: self.now,
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

impl Agent {
    /// Updates the set of pods (with `fresh` also the existing cgroups), and carries out the decisions about new ones.
    pub(super) fn update_pods(&mut self, fresh: bool) {
        let departures = self.housekeeper.departures();
        let leaves = |uid: &str| {
            departures.is_terminating(uid) || departures.is_planned(uid) || departures.has_left(uid)
        };
        let is_rejected = |uid: &str| departures.is_rejected(uid);
        let can_reject = self.ports.cluster.is_some() || self.ports.allocatable.is_machine();
        let mut gate = Gate {
            now: self.clock.now(),
            mode: self.behaviour.admission,
            acts: !self.terminations_off() && can_reject,
            memory: &mut self.admission,
            housekeeper: &self.housekeeper,
            room: &self.ports.allocatable,
            is_rejected: &is_rejected,
            again: fresh,
            leaves: &leaves,
        };
        let set = if fresh {
            let admit = |pod: &Pod, here: &[&Pod]| gate.admit(pod, here);
            self.ports.pod_cache.fresh_snapshot(admit)
        } else {
            let admit = |pod: &Pod, here: &[&Pod]| gate.admit(pod, here);
            self.ports.pod_cache.snapshot(admit)
        };
        self.take_set(set);
        let active = &self.active;
        let Admission {
            admitted_unchecked,
            rejections,
            ..
        } = &mut self.admission;
        admitted_unchecked.retain(|uid| active.is_listed(uid));
        rejections.retain(|uid, _| active.is_listed(uid));
        for decision in std::mem::take(&mut self.admission.decisions) {
            match decision.act {
                AdmissionAction::Reject => self.reject(decision),
                AdmissionAction::Preempt => self.plan_preemption(decision),
                AdmissionAction::Report | AdmissionAction::Leave { .. } => {
                    self.publish_admission(&decision);
                }
            }
        }
    }

    pub(super) fn publish_admission(&mut self, decision: &AdmissionDecision) {
        self.ports.publishers.publish(&Fact::Admitted(decision));
    }

    /// Writes the decision to disk, so that the next run can finish it if this one ends now.
    pub(super) fn write_intent(&mut self, decision: &AdmissionDecision) {
        self.ports.publishers.publish(&Fact::Admitting(decision));
    }

    /// The answer that a pod would get now; it has no effects.
    pub(super) fn would_admit(&self, pod: &Pod) -> admission::Outcome {
        let here = &self.active.set().pods;
        let conditions: Vec<NodeCondition> = self.housekeeper.taints().collect();
        let seen = &self.admission.seen;
        let room = self
            .ports
            .allocatable
            .node(&self.housekeeper, seen)
            .map(|node| (&self.ports.allocatable, node));
        let finding = examine(pod, here, &conditions, room, &self.housekeeper);
        let mut outcome = finding.answer.named(&finding.candidates);
        let qos = |pod: &Pod| (pod.full_name(), pod.qos.as_str().to_owned());
        outcome.qos.extend(here.iter().map(|pod| qos(pod)));
        outcome
    }

    /// Rejects a pod: publishes its status and the decision, and terminates its processes.
    fn reject(&mut self, mut decision: AdmissionDecision) {
        decision.grace = self.hard_grace();
        decision.boot_id.clone_from(&self.ports.boot_id);
        decision.notice = self.notice_of(&decision, None);
        let cgroup = self.active.cgroup_of(&decision.pod.uid).map(Path::to_owned);
        let hierarchies = &self.ports.evictor.hierarchies;
        decision.ends = cgroup
            .as_ref()
            .is_some_and(|cgroup| hierarchies.runs(cgroup));
        self.write_intent(&decision);
        let conditions = decision.conditions.clone();
        let purpose = Purpose::Rejection { conditions };
        let mut departure = decision.departure(purpose, cgroup);
        departure.runs = decision.ends;
        let notice = decision.notice.take();
        self.begin_departure(departure, notice);
        self.publish_admission(&decision);
    }

    fn hard_grace(&self) -> Duration {
        let seconds = self.housekeeper.rules().hard_grace_period_seconds;
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        grace.max(self.behaviour.least_grace)
    }

    /// Admits a critical pod: its victims are terminated from now on, one after the other.
    fn plan_preemption(&mut self, decision: AdmissionDecision) {
        self.publish_admission(&decision);
        let planned = decision.victims.into_iter().map(|uid| Planned {
            uid,
            preemptor: decision.pod.uid.clone(),
            lacks: decision.lacks.clone(),
        });
        self.report(Event::Plan(planned.collect()));
    }

    /// Preempts the next victim (S2-016). A victim that cannot be terminated is skipped, and the critical pod stays
    /// admitted (S2-019).
    pub(super) fn preempt(&mut self, planned: Planned) {
        let set = std::sync::Arc::clone(self.active.set());
        let find = |uid: &str| set.pods.iter().find(|pod| pod.uid == uid);
        let both = find(&planned.uid).zip(find(&planned.preemptor));
        let cgroup = self.active.cgroup_of(&planned.uid).map(Path::to_owned);
        match (both, cgroup) {
            (Some((pod, preemptor)), Some(cgroup)) => {
                self.begin_preemption((pod, preemptor, planned.lacks), &cgroup);
                return;
            }
            (Some((pod, preemptor)), None) => tracing::error!(
                EVICTD_POD = pod.full_name(),
                EVICTD_POD_UID = pod.uid,
                "{pod} cannot be preempted for {preemptor}: no cgroup of it is known"
            ),
            // The victim has ended without evictd.
            (None, _) => {}
        }
        self.housekeeper.departures_mut().skip_planned();
        self.report(Event::Next);
    }

    fn begin_preemption(&mut self, (pod, preemptor, lacks): (&Pod, &Pod, String), cgroup: &Path) {
        let now = self.clock.now();
        let seconds = u64::try_from(own_grace_period_seconds(pod)).unwrap_or(0);
        let mut decision = AdmissionDecision {
            id: self.admission.id(now),
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
            grace: Duration::from_secs(seconds).max(self.behaviour.least_grace),
            notice: None,
            ends: true,
            boot_id: self.ports.boot_id.clone(),
        };
        decision.notice = self.notice_of(&decision, Some(critical::CONDITION_MESSAGE));
        self.write_intent(&decision);
        let resource = decision.lacks.clone();
        let departure =
            decision.departure(Purpose::Preemption { resource }, Some(cgroup.to_owned()));
        let notice = decision.notice.take();
        self.begin_departure(departure, notice);
        self.publish_admission(&decision);
    }
}
