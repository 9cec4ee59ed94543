//! The preempted pods of a job.

use super::subject::Subject;
use super::what_if::WhatIf;
use evictd_pod::wire::{full_name, null_is_default};
use jiff::Timestamp;
use serde::Deserialize;
use std::cmp::Reverse;

/// The most entries.
const MOST: usize = 5;

/// A v1 Event with the fields that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    /// Its object.
    #[serde(deserialize_with = "null_is_default")]
    pub involved_object: Object,
    /// In a word: `Evict`.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
    /// When it happened last.
    pub last_timestamp: Option<Timestamp>,
    /// The same, by newer clients.
    pub event_time: Option<Timestamp>,
}

/// The object of an event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    /// `Pod`, `PodGroup`.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
    /// Its namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
}

/// Sentences, the newest first.
pub(super) fn of(what_if: &WhatIf<'_>, subject: &Subject, events: &[Event]) -> Vec<String> {
    let group = subject.group.rsplit('/').next().unwrap_or_default();
    let is_own = |object: &Object| {
        let key = full_name(&object.namespace, &object.name);
        let pod = || {
            let pending = subject.job.as_ref().map(|job| &job.metadata.name);
            let of_job = pending.and_then(|job| object.name.strip_prefix(job.as_str()));
            // The pod may have been deleted since, so its name is all that is left.
            of_job.is_some_and(|rest| rest.starts_with('-'))
                || subject.pods(what_if).any(|(pod, _)| *pod == key)
        };
        object.namespace == subject.namespace
            && match object.kind.as_str() {
                "Pod" => pod(),
                "PodGroup" => object.name == group,
                _ => false,
            }
    };
    let evictions = events.iter().filter(|event| event.reason == "Evict");
    let evictions = evictions.filter(|event| is_own(&event.involved_object));
    let mut entries: Vec<(Option<Timestamp>, String)> = evictions
        .map(|event| {
            let Object { kind, name, .. } = &event.involved_object;
            let time = event.last_timestamp.or(event.event_time);
            let what = if kind == "Pod" { "pod" } else { "pod group" };
            (time, format!("{what} {name}: {}", event.message))
        })
        .collect();
    for (key, pod) in subject.pods(what_if) {
        let conditions = pod.status.conditions.iter();
        let mut going = conditions.filter(|condition| {
            condition.holds("DisruptionTarget") && condition.reason == "PreemptionByScheduler"
        });
        if let Some(condition) = going.next() {
            entries.push((
                condition.last_transition_time,
                format!("pod {key}: {}", condition.message),
            ));
        }
    }
    entries.sort_by_key(|(time, _)| Reverse(*time));
    let entries = entries
        .into_iter()
        .take(MOST)
        .map(|(time, text)| match time {
            Some(time) => format!("{time} {text}"),
            None => text,
        });
    entries.collect()
}
