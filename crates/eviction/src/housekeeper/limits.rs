//! Pods that exceed a limit of their own on local storage.

use super::Housekeeper;
use crate::{
    Cause, Decision, Eviction, StarvedResource, Usage,
    decision::PassedOver,
    local_storage::{self, Exceeded},
    message::local_storage_message,
    why::passed_over,
};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::borrow::Borrow;
use std::collections::BTreeMap;

impl Housekeeper {
    /// Follows the kubelet of this version, major and minor, where the rules are the kubelet's.
    pub fn follow_kubelet(&mut self, version: (u32, u32)) {
        self.rules.follow_kubelet(version);
    }

    /// Every pod that exceeds one of its own limits on local storage; one cycle may evict many (S1-072). A decision
    /// without an eviction is about a pod that is never evicted.
    pub fn check_local_storage(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Vec<Decision> {
        let mut decisions = Vec::new();
        self.over_own_limit.clear();
        for (index, pod) in pods.iter().map(Borrow::borrow).enumerate() {
            let counts = self.rules.storage_limits();
            let exceeded = usage.of(index).and_then(|used| {
                let exceeded = local_storage::exceeded(pod, used, counts)?;
                Some((used, exceeded))
            });
            let Some((used, mut exceeded)) = exceeded else {
                continue;
            };
            if self.rules.messages_name_what_counted {
                exceeded.message = local_storage_message(&exceeded, pod, used);
            }
            let decision = match self.spared(now, pod) {
                None => {
                    self.last_action = Some(now);
                    self.over_limit(now, (index, pod), exceeded)
                }
                Some(spared) if spared.lasts() => {
                    let message = &exceeded.message;
                    let one = passed_over::over_limit(pod, exceeded.used, spared, message);
                    self.over_own_limit.push(one.clone());
                    over_limit_and_spared(now, &exceeded, one)
                }
                Some(_) => continue,
            };
            decisions.push(decision);
        }
        decisions
    }

    /// Pods that exceeded a limit of their own at the last check and are never evicted.
    pub fn over_own_limit(&self) -> &[PassedOver] {
        &self.over_own_limit
    }

    fn over_limit(
        &self,
        now: Timestamp,
        (index, pod): (usize, &Pod),
        exceeded: Exceeded,
    ) -> Decision {
        let Exceeded { limit, message, .. } = exceeded;
        let why = format!("{pod} exceeds a limit of its own: {}", message.trim_end());
        let mut decision = of_limit(now, limit.as_str(), why);
        decision.uid = Some(pod.uid.clone());
        decision.eviction = Some(Eviction {
            index,
            pod: pod.full_name(),
            grace_period_seconds: self.rules.hard_grace_period_seconds,
            reason: "Evicted",
            message,
            annotations: BTreeMap::new(),
            disruption_target: false,
        });
        decision
    }
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
    }
}
