//! What is known of pods that had to go for others.

use super::subject::Subject;
use super::world::World;
use evictd_pod::wire::null_is_default;
use jiff::Timestamp;
use serde::Deserialize;
use std::cmp::Reverse;

/// The most that is told.
const TOLD: usize = 5;

/// A v1 Event, with what is read of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    /// What it is about.
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

/// What an event is about.
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
pub(super) fn of(world: &World<'_>, subject: &Subject, events: &[Event]) -> Vec<String> {
    let group = subject.group.rsplit('/').next().unwrap_or_default();
    let is_own = |object: &Object| {
        let key = format!("{}/{}", object.namespace, object.name);
        let pod = || {
            let made = subject.job.as_ref().map(|job| &job.metadata.name);
            let of_job = made.and_then(|job| object.name.strip_prefix(job.as_str()));
            of_job.is_some_and(|rest| rest.starts_with('-'))
                || subject.pods(world).any(|(own, _)| *own == key)
        };
        object.namespace == subject.namespace
            && match object.kind.as_str() {
                "Pod" => pod(),
                "PodGroup" => object.name == group,
                _ => false,
            }
    };
    let own = events.iter().filter(|event| event.reason == "Evict");
    let own = own.filter(|event| is_own(&event.involved_object));
    let mut told: Vec<(Option<Timestamp>, String)> = own
        .map(|event| {
            let Object { kind, name, .. } = &event.involved_object;
            let time = event.last_timestamp.or(event.event_time);
            let what = if kind == "Pod" { "pod" } else { "pod group" };
            (time, format!("{what} {name}: {}", event.message))
        })
        .collect();
    for (key, pod) in subject.pods(world) {
        let conditions = pod.status.conditions.iter();
        let mut going = conditions.filter(|own| {
            own.kind == "DisruptionTarget"
                && own.status == "True"
                && own.reason == "PreemptionByScheduler"
        });
        if let Some(condition) = going.next() {
            told.push((
                condition.last_transition_time,
                format!("pod {key}: {}", condition.message),
            ));
        }
    }
    told.sort_by_key(|(time, _)| Reverse(*time));
    let told = told.into_iter().take(TOLD).map(|(time, text)| match time {
        Some(time) => format!("{time} {text}"),
        None => text,
    });
    told.collect()
}
