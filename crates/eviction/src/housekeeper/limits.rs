//! Pods that exceed a limit of their own on local storage.

use super::Housekeeper;
use crate::{
    Cause, Decision, Eviction, StarvedResource, Usage, decision::LocalStorageLimit, local_storage,
};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::borrow::Borrow;
use std::collections::BTreeMap;

impl Housekeeper {
    /// Every pod that exceeds one of its own limits on local storage; one cycle may evict many (S1-072).
    pub fn check_local_storage(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (index, pod) in pods.iter().map(Borrow::borrow).enumerate() {
            let counts = self.rules.storage_limits();
            let exceeded = usage
                .of(index)
                .and_then(|used| local_storage::exceeded(pod, used, counts));
            let Some((limit, message)) = exceeded else {
                continue;
            };
            if self.spared(now, pod).is_none() {
                self.last_action = Some(now);
                decisions.push(self.local_storage_decision(now, index, pod, limit, message));
            }
        }
        decisions
    }

    fn local_storage_decision(
        &self,
        now: Timestamp,
        index: usize,
        pod: &Pod,
        limit: LocalStorageLimit,
        message: String,
    ) -> Decision {
        Decision {
            time: now,
            kind: Cause::LocalStorage,
            signal: limit.as_str(),
            resource: StarvedResource::EphemeralStorage,
            threshold: None,
            why: format!("{pod} exceeds a limit of its own: {}", message.trim_end()),
            eviction: Some(Eviction {
                index,
                pod: pod.full_name(),
                grace_period_seconds: self.rules.hard_grace_period_seconds,
                reason: "Evicted",
                message,
                annotations: BTreeMap::new(),
                disruption_target: false,
            }),
            uid: Some(pod.uid.clone()),
            owner: None,
            withheld: None,
            ranked: Vec::new(),
            runner_up: None,
            expected_gain: None,
            shares: None,
        }
    }
}
