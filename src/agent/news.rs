//! What is worth saying: a state that stays, such as "everybody is spared", is said once.

use evictd_eviction::{Cause, Decision, Housekeeper, Signal, UsageNeed, decision::Withheld};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// A decision that ends nobody is not made again before this.
const QUIET: SignedDuration = SignedDuration::from_secs(1);

/// A signal, or a limit of a pod's own with the pod's UID.
type Subject = (&'static str, Option<String>);

/// Why nobody goes, and who would.
type Verdict = (Option<Withheld>, Option<String>);

/// Remembers what was said.
#[derive(Debug, Default)]
pub(super) struct News {
    said: BTreeMap<Subject, Verdict>,
    /// For what nobody can go, and until when it need not be thought about again.
    quiet: Option<(UsageNeed, Timestamp)>,
}

impl News {
    /// Whether thinking about this again would only bring the same.
    pub(super) fn is_quiet(&self, now: Timestamp, need: UsageNeed) -> bool {
        self.quiet
            .is_some_and(|(about, until)| about == need && now < until)
    }

    /// Whether a decision that ends nobody differs from the last one on its subject.
    pub(super) fn is_new(&mut self, now: Timestamp, decision: &Decision) -> bool {
        if let Some(acting) = &decision.threshold {
            let need = UsageNeed {
                signal: acting.threshold.signal,
                hard: acting.threshold.is_hard(),
            };
            self.quiet = Some((need, now.saturating_add(QUIET).unwrap_or(now)));
        }
        let of_pod = decision.kind == Cause::LocalStorage;
        let subject = (decision.signal, decision.uid.clone().filter(|_| of_pod));
        let verdict = (decision.withheld.clone(), decision.uid.clone());
        self.said.insert(subject, verdict.clone()) != Some(verdict)
    }

    /// Somebody goes for this signal: whatever is said of it next is new.
    pub(super) fn moved(&mut self, signal: &'static str) {
        self.said.remove(&(signal, None));
    }

    /// The pods or their fates are others now.
    pub(super) fn think_again(&mut self) {
        self.quiet = None;
    }

    /// The next time of trouble is news again: once the node's condition is over, or the pod gone.
    pub(super) fn forget_what_is_over(&mut self, housekeeper: &Housekeeper, pods: &[Pod]) {
        let holds = |signal: Signal| {
            housekeeper
                .conditions()
                .any(|held| held == signal.condition())
        };
        self.said.retain(|(signal, pod), _| match pod {
            Some(uid) => pods.iter().any(|pod| pod.uid == *uid),
            None => Signal::parse(signal).is_some_and(holds),
        });
    }
}
