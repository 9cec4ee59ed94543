//! Avoids repeated messages: a state that lasts, such as "every pod is spared", is published once.

use crate::pods::LocalPod;
use evictd_decision::{Cause, Decision, Shares, Withheld};
use evictd_eviction::Housekeeper;
use evictd_pod::Quantity;
use evictd_signals::{Signal, SignalMap};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// A signal, or a pod's local storage limit with the pod's UID.
type Subject = (&'static str, Option<String>);

/// Why no pod is evicted, and which pod would be.
type Verdict = (Option<Withheld>, Option<String>);

/// Remembers the published decisions.
#[derive(Debug, Default)]
pub(super) struct Dedup {
    said: BTreeMap<Subject, Verdict>,
    /// When each signal was last seen past a threshold.
    crossed: SignalMap<Option<Timestamp>>,
}

impl Dedup {
    /// Whether a decision that evicts no pod differs from the last one on the same subject.
    pub(super) fn is_new(&mut self, decision: &Decision) -> bool {
        let of_pod = decision.kind == Cause::LocalStorage;
        let passed_over = decision.passed_over.as_ref();
        let pod = decision.uid.clone();
        let pod = pod.or_else(|| passed_over.and_then(|one| one.uid.clone()));
        let subject = (decision.signal, pod.filter(|_| of_pod));
        let verdict = (
            decision.withheld.clone().map(stable_part),
            decision.uid.clone(),
        );
        self.said.insert(subject, verdict.clone()) != Some(verdict)
    }

    /// A pod is evicted for this signal: the next decision on it is new in any case.
    pub(super) fn note_evicted(&mut self, signal: &'static str) {
        self.said.remove(&(signal, None));
    }

    /// Forgets a publication once the node's condition is over or the pod has ended: the next one is published again. A
    /// recurring pressure is published once in a transition period, also while it raises no condition.
    pub(super) fn forget_ended(
        &mut self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        pods: &[LocalPod],
    ) {
        let period = housekeeper.rules().pressure_transition_period;
        for (signal, crossed) in &mut self.crossed {
            if is_crossed(housekeeper, signal) {
                *crossed = Some(now);
            }
        }
        let crossed = &self.crossed;
        let recent = |signal: Signal| match crossed[signal] {
            // Pressure sways around its threshold within seconds, and each crossing would be published again.
            Some(then) if signal.is_pressure() => now.duration_since(then) <= period,
            _ => is_crossed(housekeeper, signal),
        };
        let presses = |signal: Signal| match signal.condition() {
            Some(condition) if !signal.is_pressure() => housekeeper.presses(condition),
            _ => recent(signal),
        };
        self.said.retain(|(signal, pod), _| match pod {
            Some(uid) => pods.iter().any(|pod| pod.uid == *uid),
            None => Signal::parse(signal).is_some_and(presses),
        });
    }
}

/// The part of a reason that stays the same while nothing changes. The usage of terminating pods and their order differ
/// in every observation. So does the pod that grows fastest or waits most.
fn stable_part(withheld: Withheld) -> Withheld {
    // Figures differ from cycle to cycle; without them the same state is published once.
    match withheld {
        Withheld::DyingPodsRelease {
            mut pods, resource, ..
        } => {
            pods.sort_unstable();
            Withheld::DyingPodsRelease {
                pods,
                resource,
                release: Quantity::ZERO,
            }
        }
        Withheld::NoRelief { .. } => Withheld::NoRelief {
            shares: Shares::default(),
            growth: None,
        },
        Withheld::MemoryLeft { capacity, .. } => Withheld::MemoryLeft {
            available: Quantity::ZERO,
            capacity,
        },
        Withheld::OwnLimits { .. } => Withheld::OwnLimits { pods: Vec::new() },
        other => other,
    }
}

fn is_crossed(housekeeper: &Housekeeper, signal: Signal) -> bool {
    let mut crossed = housekeeper.first_observed();
    crossed.any(|(threshold, _)| threshold.signal == signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_eviction::Rules;
    use evictd_signals::{Observation, ThresholdMaps};
    use evictd_usage::Usage;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// A decision on a node without pods.
    fn nobody(signal: Signal) -> Decision {
        let maps = ThresholdMaps {
            hard: [(signal.to_string(), "10".to_owned())].into(),
            ..ThresholdMaps::default()
        };
        let mut housekeeper = Housekeeper::new(Rules {
            thresholds: maps.parse().unwrap(),
            ..Rules::evictd()
        });
        let low = Observation {
            available: 1,
            capacity: 100,
            time: Some(at(0)),
        };
        housekeeper.observe(at(0), &[(signal, low)].into_iter().collect());
        housekeeper
            .decide(at(0), &[] as &[LocalPod], &Usage::default())
            .unwrap()
    }

    #[test]
    fn a_changed_release_of_terminating_pods_is_no_new_decision_but_other_pods_are() {
        let decision = nobody(Signal::MemoryAvailable);
        let release = |pods: &[&str], bytes| Decision {
            withheld: Some(Withheld::DyingPodsRelease {
                pods: pods.iter().map(ToString::to_string).collect(),
                release: Quantity::bytes(bytes),
                resource: evictd_signals::StarvedResource::Memory,
            }),
            ..decision.clone()
        };
        let mut dedup = Dedup::default();
        let table = [
            (release(&["a/a", "a/b"], 9), true),
            (release(&["a/a", "a/b"], 8), false),
            (release(&["a/b", "a/a"], 7), false),
            (release(&["a/b"], 7), true),
            (decision.clone(), true),
            (release(&["a/b"], 7), true),
        ];
        for (second, (decision, new)) in (0..).zip(table) {
            let told = dedup.is_new(&decision);
            assert_eq!(told, new, "{second}: {}", decision.why);
        }
    }
}
