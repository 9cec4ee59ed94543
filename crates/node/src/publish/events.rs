//! Publishes as Kubernetes events, in the kubelet's words, so that existing searches find them.

use super::Publish;
use crate::fact::{
    AdmissionAction, AdmissionDecision, Cycle, Decided, Fact, Terminated, largest_process,
};
use evictd_cluster_client::events::{Event, EventSender, ObjectReference, Subject};
use evictd_decision::{
    Owner,
    record::{Contents, Record},
};
use evictd_departures::Departure;
use evictd_eviction::Returned;
use evictd_reclaim::Reclaimed;
use evictd_signals::ConditionMap;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The reason of the event about a reclaim without an eviction; `explain` looks for it.
pub const RECLAIMED: &str = "Reclaimed";

/// The reason of the event that names a pod that is never evicted although it holds most, or exceeds its own limit.
const PASSED_OVER: &str = "PassedOver";

/// Passes events to the task that sends them.
#[derive(Debug)]
pub(crate) struct Events {
    node: String,
    send: EventSender,
    raised: Option<ConditionMap<bool>>,
    /// Events of evictions whose pod has no signal yet, by decision id.
    waiting: BTreeMap<String, Waiting>,
}

/// The event of an eviction that waits for the contents of the pod.
#[derive(Debug)]
struct Waiting {
    event: Event,
    /// Whether a budget may still forbid the eviction: then it waits for the end of the pod.
    asked: bool,
}

impl Events {
    /// Events about the node of this name; `send` passes them to their recorder.
    pub(crate) fn new(node: String, send: EventSender) -> Self {
        Self {
            node,
            send,
            raised: None,
            waiting: BTreeMap::new(),
        }
    }

    fn send(&self, event: Event) {
        if !self.send.send(event) {
            tracing::debug!("an event is lost: too many are waiting");
        }
    }

    fn of_node(
        &self,
        time: Timestamp,
        warning: bool,
        words: (&'static str, &'static str),
        note: String,
    ) {
        let (reason, action) = words;
        self.send(Event {
            time,
            subject: Subject::Node,
            warning,
            reason: reason.into(),
            action,
            note,
            annotations: BTreeMap::new(),
        });
    }
}

impl Publish for Events {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::CycleEnded(cycle) => self.cycle_ended(cycle),
            Fact::Decided(decided) => self.decided(decided),
            Fact::Admitted(admission) => self.admitted(admission),
            Fact::Terminating(departure, contents) => self.terminating(departure, *contents),
            Fact::Terminated(ended) => self.terminated(ended),
            Fact::Returned(time, returned) => self.returned(*time, returned),
            Fact::Reclaimed(record) => self.reclaimed(record),
            _ => {}
        }
    }
}

impl Events {
    /// S1-078: only when a condition changes. One that is clear at start is no change, nor is one that an earlier run
    /// held already.
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        let conditions = cycle.housekeeper.conditions();
        let raised: ConditionMap<bool> = conditions.map(|one| (one, true)).collect();
        let before = self.raised.replace(raised);
        let before = before.unwrap_or_else(|| cycle.housekeeper.restored(cycle.now));
        for (condition, raised) in raised {
            if before[condition] != raised {
                let reason = condition.event_reason(raised);
                let note = format!("Node {} status is now: {reason}", self.node);
                self.of_node(cycle.now, false, (reason, "UpdateStatus"), note);
            }
        }
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        let decision = decided.decision;
        if decided.dry_run() {
            return;
        }
        if decision.threshold.is_some() {
            // S1-036
            let note = format!("Attempting to reclaim {}", decision.resource);
            let words = ("EvictionThresholdMet", "Reclaim");
            self.of_node(decision.time, true, words, note);
        }
        if let Some(passed_over) = &decision.passed_over {
            let note = format!("{}: {}", decision.signal, passed_over.sentence);
            self.of_node(decision.time, true, (PASSED_OVER, "Evict"), note);
        }
        if let Some((eviction, uid)) = decision.eviction.as_ref().zip(decision.uid.as_ref()) {
            // S1-052, S1-057
            let event = Event {
                time: decision.time,
                subject: Subject::Pod {
                    name: eviction.pod.clone(),
                    uid: uid.clone(),
                },
                warning: true,
                reason: eviction.reason.into(),
                action: "Evict",
                note: eviction.message.clone(),
                annotations: eviction.annotations.clone(),
            };
            if decided.terminates {
                let asked = decided.asked;
                let waiting = Waiting { event, asked };
                self.waiting.insert(decided.id().to_owned(), waiting);
            } else {
                self.send(event);
            }
        }
    }

    /// S1-088, S2-017
    fn admitted(&mut self, admission: &AdmissionDecision) {
        let (reason, action) = match &admission.act {
            AdmissionAction::Report if admission.preempt.is_empty() => {
                ("WouldReject".into(), "Admit")
            }
            AdmissionAction::Report => ("WouldPreempt".into(), "Admit"),
            AdmissionAction::Reject => (admission.reason.clone().into(), "Reject"),
            AdmissionAction::Leave { .. } => (admission.reason.clone().into(), "Preempt"),
            // The events of its victims report it.
            AdmissionAction::Preempt => return,
        };
        let note = match admission.act {
            AdmissionAction::Report => format!("{}: {}", admission.reason, admission.message),
            _ => admission.message.clone(),
        };
        self.send(Event {
            time: admission.time,
            subject: Subject::Pod {
                name: admission.pod.full_name(),
                uid: admission.pod.uid.clone(),
            },
            warning: true,
            reason,
            action,
            note,
            annotations: BTreeMap::new(),
        });
    }

    /// Others search for the kubelet's words, so the largest process comes after them.
    fn terminating(&mut self, departure: &Departure, contents: Option<&Contents>) {
        let Some(mut waiting) = self.waiting.remove(&departure.id) else {
            return;
        };
        if let Some(largest) = largest_process(departure, contents) {
            let note = &mut waiting.event.note;
            note.truncate(note.trim_end().len());
            note.extend([" Largest process: ", &largest, "."]);
        }
        if waiting.asked {
            self.waiting.insert(departure.id.clone(), waiting);
        } else {
            self.send(waiting.event);
        }
    }

    /// S1-050
    fn terminated(&mut self, ended: &Terminated<'_>) {
        let departure = ended.departure;
        let left = ended.result.as_ref().ok();
        if let Some(waiting) = self.waiting.remove(&departure.id)
            && (left.is_some() || !waiting.asked)
        {
            self.send(waiting.event);
        }
        if left.is_some_and(|termination| termination.gone_at.is_none()) {
            self.send(Event {
                time: ended.now,
                subject: Subject::Pod {
                    name: departure.pod.clone(),
                    uid: departure.uid.clone(),
                },
                warning: true,
                reason: "ExceededGracePeriod".into(),
                action: "Kill",
                note: "Container runtime did not kill the pod within specified grace period."
                    .to_owned(),
                annotations: BTreeMap::new(),
            });
        }
    }

    fn reclaimed(&self, record: &Record) {
        let removed = |done: &&Reclaimed| done.is_any() || done.pods > 0;
        if let Some(done) = record.reclaimed.as_ref().filter(removed) {
            let note = format!("{}: {}", record.signal, done.sentence());
            self.of_node(record.time, false, (RECLAIMED, "Reclaim"), note);
        }
    }

    fn returned(&mut self, time: Timestamp, returned: &Returned) {
        self.send(Event {
            time,
            subject: Subject::NodeAnd(reference(&returned.owner)),
            warning: true,
            reason: "EvictedAgain".into(),
            action: "Evict",
            note: returned.sentence(&format!("node {}", self.node)),
            annotations: BTreeMap::new(),
        });
    }
}

fn reference(owner: &Owner) -> ObjectReference {
    ObjectReference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: owner.namespace.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    }
}
