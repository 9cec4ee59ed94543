//! Events that the controllers record, in the group that Volcano's are in.

use evictd_cluster_client::Actions;
use evictd_cluster_client::events::{
    Event, EventRecorder, Group, ObjectReference, Reporter, Subject,
};
use evictd_pod::wire::Metadata;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// Events that may wait; more are dropped.
const MAX_WAITING: usize = 10_000;
/// Events whose repeats are counted.
const MAX_SERIES: usize = 2000;
const SERIES_WRITE_PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// Who reports, by Volcano's name.
const REPORTER: &str = "vc-controller-manager";

/// Sends events; it ends with the last sender.
#[derive(Clone)]
pub(super) struct Events(mpsc::Sender<Event>);

/// What an event is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum About<'a> {
    Job(&'a Metadata),
    Queue(&'a Metadata),
}

impl Events {
    /// Must be called inside the runtime.
    pub(super) fn new(actions: &Actions, hostname: &str) -> Self {
        let reporter = Reporter {
            group: Group::Core,
            controller: REPORTER.to_owned(),
            instance: format!("{REPORTER}-{hostname}"),
            limited: false,
            max_series: MAX_SERIES,
            series_write_period: SERIES_WRITE_PERIOD,
        };
        let (send, events) = mpsc::channel(MAX_WAITING);
        let recorder = EventRecorder::of(reporter, actions.clone(), Timestamp::now);
        tokio::spawn(recorder.run(events));
        Self(send)
    }

    pub(super) fn send(&self, about: About<'_>, tone: &str, reason: &'static str, note: String) {
        let (api_version, kind, metadata) = match about {
            About::Job(metadata) => ("batch.volcano.sh/v1alpha1", "Job", metadata),
            About::Queue(metadata) => ("scheduling.volcano.sh/v1beta1", "Queue", metadata),
        };
        let event = Event {
            time: Timestamp::now(),
            subject: Subject::Object(ObjectReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: metadata.namespace.to_string(),
                name: metadata.name.clone(),
                uid: metadata.uid.to_string(),
            }),
            warning: tone == "Warning",
            reason: reason.into(),
            action: reason,
            note,
            annotations: BTreeMap::new(),
        };
        // Dropped where too many wait: an event is not worth the memory.
        let _ = self.0.try_send(event);
    }
}
