//! Records events, in the API group of Volcano's events.

use evictd_cluster_client::Actions;
use evictd_cluster_client::events::{
    Event, EventRecorder, EventSender, Group, ObjectReference, Recorders, Reporter, Subject,
};
use evictd_pod::wire::Metadata;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The number of pending events. More are dropped.
const MAX_PENDING: usize = 10_000;
/// The number of events whose repeats are counted.
const MAX_SERIES: usize = 2000;
/// The number of events that are written at the same time.
const CONCURRENT: usize = 16;
const SERIES_WRITE_PERIOD: SignedDuration = SignedDuration::from_mins(1);
/// The name of Volcano's controllers, which tools filter events by.
const REPORTER: &str = "vc-controller-manager";

/// The sending end of the recorder, which ends with the last sender.
#[derive(Clone)]
pub(super) struct Events(EventSender);

/// The object of an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Involved<'a> {
    Job(&'a Metadata),
    Queue(&'a Metadata),
    CronJob(&'a Metadata),
    JobFlow(&'a Metadata),
    JobTemplate(&'a Metadata),
    /// The lease of these controllers, for events about themselves.
    Lease(&'a Metadata),
}

impl Events {
    /// Must be called inside the runtime.
    pub(super) fn new(actions: &Actions, hostname: &str, recorders: &Recorders) -> Self {
        let reporter = Reporter {
            group: Group::Core,
            controller: REPORTER.to_owned(),
            instance: format!("{REPORTER}-{hostname}"),
            limited: false,
            max_series: MAX_SERIES,
            series_write_period: SERIES_WRITE_PERIOD,
            concurrent: CONCURRENT,
        };
        let recorder = EventRecorder::of(reporter, actions.clone(), Timestamp::now);
        Self(recorders.start(recorder, MAX_PENDING))
    }

    pub(super) fn send(
        &self,
        object: Involved<'_>,
        event_type: &str,
        reason: &'static str,
        note: String,
    ) {
        let (batch, flow) = ("batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1");
        let (api_version, kind, metadata) = match object {
            Involved::Job(metadata) => (batch, "Job", metadata),
            Involved::CronJob(metadata) => (batch, "CronJob", metadata),
            Involved::JobFlow(metadata) => (flow, "JobFlow", metadata),
            Involved::JobTemplate(metadata) => (flow, "JobTemplate", metadata),
            Involved::Lease(metadata) => ("coordination.k8s.io/v1", "Lease", metadata),
            Involved::Queue(metadata) => ("scheduling.volcano.sh/v1beta1", "Queue", metadata),
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
            warning: event_type == "Warning",
            reason: reason.into(),
            action: reason,
            note,
            annotations: BTreeMap::new(),
        };
        self.0.send(event);
    }
}
