//! The outcome of a timeline, as it is serialized.

use super::{Action, Run, Step};
use crate::plugins::PluginName;
use crate::queue::{Pool, Popped};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state after each step, and at the end.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// One for each step.
    pub steps: Vec<StepOutcome>,
    /// The pods that wait at the end.
    pub pods: BTreeMap<String, PodOutcome>,
    /// How many pods entered a queue because of an event, by `queue/event`.
    pub incoming: BTreeMap<String, u64>,
    /// How many objects of kinds that wake no pod there were, by kind.
    #[serde(skip)]
    pub ignored: BTreeMap<String, usize>,
    /// Steps that were not possible, by index, with the error.
    #[serde(skip)]
    pub warnings: Vec<(usize, String)>,
}

/// The pools after a step, by `namespace/name`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// The popped pod; `Some(None)` if the queue would wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popped: Option<Option<String>>,
    /// The number of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// In the order of popping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<String>,
    /// In the order of popping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backoff: Vec<String>,
    /// By the end of the backoff.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_backoff: Vec<String>,
    /// By name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unschedulable: Vec<String>,
    /// By name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gated: Vec<String>,
    /// In the order of popping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<String>,
    /// Labels of the events that are kept for the pods in flight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_flight_events: Vec<&'static str>,
    /// By node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nominated: BTreeMap<String, Vec<String>>,
}

/// The attempts of a pod.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// The number of attempts.
    pub attempts: u32,
    /// How many attempts ended in a rejection.
    pub unschedulable_count: u32,
    /// How many attempts in a row ended in an error.
    pub consecutive_errors: u32,
    /// The plugins that rejected it, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<&'static str>,
    /// The end of its backoff, in milliseconds after the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until_ms: Option<i64>,
}

impl Run {
    pub(super) fn state(&self, step: &Step, popped: Option<Popped>) -> StepOutcome {
        let queue = &self.queue;
        let sorted = |pool| {
            let mut names = self.named(&queue.pods_in(pool));
            names.sort();
            names
        };
        let attempts = popped.as_ref().map(|popped| popped.attempts);
        let popped = popped.map(|popped| self.name(&popped.pod));
        let nominated = queue.nominated();
        StepOutcome {
            popped: (step.action == Some(Action::Pop)).then_some(popped),
            attempts,
            active: self.named(&queue.pods_in(Pool::Active)),
            backoff: self.named(&queue.pods_in(Pool::Backoff)),
            error_backoff: self.error_backoff(),
            unschedulable: sorted(Pool::Unschedulable),
            gated: sorted(Pool::Gated),
            in_flight: queue.in_flight().map(|key| self.name(key)).collect(),
            in_flight_events: queue.in_flight_events().collect(),
            nominated: nominated
                .map(|(node, pods)| (node.to_owned(), self.named(pods)))
                .collect(),
        }
    }

    pub(super) fn finish(mut self) -> Outcome {
        let pods = [
            Pool::Active,
            Pool::Backoff,
            Pool::ErrorBackoff,
            Pool::Unschedulable,
            Pool::Gated,
        ]
        .into_iter()
        .flat_map(|pool| self.queue.pods_in(pool))
        .filter_map(|key| Some((self.name(&key), self.pod(&key)?)))
        .collect();
        self.outcome.pods = pods;
        self.outcome
    }

    fn pod(&self, key: &str) -> Option<PodOutcome> {
        let waiting = self.queue.queued_pod(key)?;
        let mut plugins: Vec<_> = waiting.rejectors.iter().map(PluginName::as_str).collect();
        plugins.sort_unstable();
        let backs_off = matches!(waiting.pool, Pool::Backoff | Pool::ErrorBackoff);
        let end = waiting.backoff_until.filter(|_| backs_off);
        let end = end.map(|end| end.duration_since(self.begin).as_millis());
        Some(PodOutcome {
            attempts: waiting.attempts,
            unschedulable_count: waiting.unschedulable_count,
            consecutive_errors: waiting.consecutive_errors,
            plugins,
            backoff_until_ms: end.map(|end| i64::try_from(end).unwrap_or(i64::MAX)),
        })
    }

    /// By the end of the backoff, then by name.
    fn error_backoff(&self) -> Vec<String> {
        let mut pods: Vec<_> = self
            .queue
            .pods_in(Pool::ErrorBackoff)
            .into_iter()
            .map(|key| {
                let waiting = self.queue.queued_pod(&key);
                let end = waiting.and_then(|waiting| waiting.backoff_until);
                (end, self.name(&key))
            })
            .collect();
        pods.sort();
        pods.into_iter().map(|(_, name)| name).collect()
    }

    fn named(&self, keys: &[Arc<str>]) -> Vec<String> {
        keys.iter().map(|key| self.name(key)).collect()
    }

    fn name(&self, key: &str) -> String {
        self.names
            .get(key)
            .map_or_else(|| key.to_owned(), Clone::clone)
    }
}
