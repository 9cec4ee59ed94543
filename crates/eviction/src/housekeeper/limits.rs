//! Pods that exceed a limit of their own on local storage.

use crate::{
    local_storage::{self, Exceeded},
    message::{local_storage_message, parts_of_limit},
    rules::Rules,
};
use evictd_decision::{Cause, Decision, Eviction, PassedOver, Spared};
use evictd_pod::Pod;
use evictd_signals::StarvedResource;
use evictd_usage::Usage;
use jiff::Timestamp;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Pods that exceed a limit of their own and are never evicted, at the last check.
#[derive(Debug, Clone, Default)]
pub(super) struct LimitCheck {
    over: Vec<PassedOver>,
}

impl LimitCheck {
    /// Every pod that exceeds one of its own limits on local storage; one cycle may evict many (S1-072). A decision
    /// without an eviction is about a pod that is never evicted.
    pub(super) fn check(
        &mut self,
        now: Timestamp,
        (pods, usage): (&[impl Borrow<Pod>], &Usage),
        rules: &Rules,
        spared: impl Fn(&Pod) -> Option<Spared>,
    ) -> Vec<Decision> {
        let mut decisions = Vec::new();
        // A pod that has shrunk below its limit since the last check is no longer shown.
        self.over.clear();
        for (index, pod) in pods.iter().map(Borrow::borrow).enumerate() {
            let counts = rules.storage_limits();
            let exceeded = usage.of(index).and_then(|used| {
                let exceeded = local_storage::exceeded(pod, used, counts)?;
                Some((used, exceeded))
            });
            let Some((used, mut exceeded)) = exceeded else {
                continue;
            };
            if rules.messages_name_what_counted {
                exceeded.message = local_storage_message(&exceeded, pod, used);
            }
            let decision = match spared(pod) {
                None => Decision {
                    parts: parts_of_limit(pod, used),
                    ..over_limit(now, (index, pod), exceeded, rules)
                },
                Some(spared) if spared.lasts() => {
                    let message = &exceeded.message;
                    let one = PassedOver::over_limit(pod, exceeded.used, spared, message);
                    self.over.push(one.clone());
                    over_limit_and_spared(now, &exceeded, one)
                }
                Some(_) => continue,
            };
            decisions.push(decision);
        }
        decisions
    }

    /// The pods of the last check that are never evicted.
    pub(super) fn over(&self) -> &[PassedOver] {
        &self.over
    }
}

fn over_limit(
    now: Timestamp,
    (index, pod): (usize, &Pod),
    exceeded: Exceeded,
    rules: &Rules,
) -> Decision {
    let Exceeded { limit, message, .. } = exceeded;
    let why = format!("{pod} exceeds a limit of its own: {}", message.trim_end());
    let mut decision = of_limit(now, limit.as_str(), why);
    decision.uid = Some(pod.uid.clone());
    decision.eviction = Some(Eviction {
        index,
        pod: pod.full_name(),
        grace_period_seconds: rules.hard_grace_period_seconds,
        reason: "Evicted",
        message,
        annotations: BTreeMap::new(),
        disruption_target: false,
    });
    decision
}

fn over_limit_and_spared(now: Timestamp, exceeded: &Exceeded, passed_over: PassedOver) -> Decision {
    let why = passed_over.sentence.clone();
    let mut decision = of_limit(now, exceeded.limit.as_str(), why);
    decision.passed_over = Some(passed_over);
    decision
}

fn of_limit(now: Timestamp, limit: &'static str, why: String) -> Decision {
    Decision {
        time: now,
        kind: Cause::LocalStorage,
        signal: limit,
        resource: StarvedResource::EphemeralStorage,
        threshold: None,
        why,
        eviction: None,
        uid: None,
        owner: None,
        withheld: None,
        passed_over: None,
        ranked: Vec::new(),
        runner_up: None,
        expected_gain: None,
        shares: None,
        parts: Vec::new(),
    }
}
