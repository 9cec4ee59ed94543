//! Kubernetes events about pods, with the reasons and messages of kube-scheduler (S5-064, S5-069, S4-024).

use super::pod_ref::PodRef;
use evictd_cluster_client::Actions;
use evictd_cluster_client::events::{
    Event, EventRecorder, EventSender, Group, Recorders, Reporter, Subject,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Recorders of each scheduler name. All events of a pod use the same recorder, which keeps their order.
const RECORDERS: usize = 8;
/// The events that a recorder writes at the same time. All recorders together write as many as there are bindings, because each
/// binding needs an event.
const CONCURRENT: usize = 8;
/// The most events that wait in a recorder. As in kube-scheduler, further ones are dropped.
const MAX_WAITING: usize = 1000;
/// The most series that a recorder counts.
const MAX_SERIES: usize = 512;
/// How often the count of a series is written. Ten thousand unschedulable pods repeat their event every few seconds.
const SERIES_WRITE_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// The longest note in bytes.
const LONGEST_NOTE: usize = 1024;
const CUT: &str = " ...";

type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Sends events. Clones share their recorders, which end with the last clone.
#[derive(Clone)]
pub(crate) struct Events {
    now: Now,
    senders: Arc<BTreeMap<String, Vec<EventSender>>>,
    recorders: Recorders,
    dropped: Arc<AtomicU64>,
}

impl Events {
    /// Starts the recorders of each scheduler name, which write events of its API group. Must be called inside the runtime.
    pub(crate) fn new<'a>(
        actions: &Actions,
        hostname: &str,
        schedulers: impl IntoIterator<Item = (&'a str, Group)>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let (now, all): (Now, Recorders) = (Arc::new(now), Recorders::default());
        let start = |scheduler: &str, group| {
            let reporter = Reporter {
                group,
                controller: scheduler.to_owned(),
                instance: format!("{scheduler}-{hostname}"),
                limited: false,
                max_series: MAX_SERIES,
                series_write_period: SERIES_WRITE_PERIOD,
                concurrent: CONCURRENT,
            };
            let clock = Arc::clone(&now);
            let recorder = EventRecorder::of(reporter, actions.clone(), move || clock());
            all.start(recorder, MAX_WAITING)
        };
        let senders = schedulers.into_iter().map(|(scheduler, group)| {
            let senders = (0..RECORDERS).map(|_| start(scheduler, group)).collect();
            (scheduler.to_owned(), senders)
        });
        Self {
            senders: Arc::new(senders.collect()),
            recorders: all.clone(),
            now: Arc::clone(&now),
            dropped: Arc::default(),
        }
    }

    /// Writes the events that wait, before the process ends.
    pub(crate) async fn flush_at_stop(&self) {
        self.recorders.flush_at_stop().await;
    }

    /// The number of dropped events since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// `Scheduled`, after a binding.
    pub(crate) fn scheduled(&self, scheduler: &str, pod: &PodRef, node: &str) {
        let message = format!("Successfully assigned {pod} to {node}");
        self.send(
            scheduler,
            pod,
            None,
            false,
            ("Scheduled", "Binding"),
            message,
        );
    }

    /// `FailedScheduling`, with the message of the pod's condition.
    pub(crate) fn failed_scheduling(&self, scheduler: &str, pod: &PodRef, message: &str) {
        let note = cut(message);
        let reason = ("FailedScheduling", "Scheduling");
        self.send(scheduler, pod, None, true, reason, note);
    }

    /// `Preempted`, after the deletion of a victim.
    pub(crate) fn preempted(
        &self,
        scheduler: &str,
        victim: &PodRef,
        preemptor: &PodRef,
        node: &str,
    ) {
        let message = format!("Preempted by pod {} on node {node}", preemptor.uid);
        let reason = ("Preempted", "Preempting");
        self.send(scheduler, victim, Some(preemptor), false, reason, message);
    }

    /// `BindingConditionsPending`, before the wait for devices that drivers must bind.
    pub(crate) fn waits_for_devices(&self, scheduler: &str, pod: &PodRef, node: &str) {
        let message = format!("waiting for binding conditions for device on node {node}");
        let reason = ("BindingConditionsPending", "Scheduling");
        self.send(scheduler, pod, None, false, reason, message);
    }

    /// `Evict`, for an eviction by a batch session (S6-119).
    pub(crate) fn evicted(&self, scheduler: &str, pod: &PodRef, why: &str) {
        let message = format!("Pod is evicted, because of {why}");
        self.send(scheduler, pod, None, true, ("Evict", "Evicting"), message);
    }

    /// An event of a batch session about any object.
    pub(crate) fn of_session(
        &self,
        scheduler: &str,
        subject: Subject,
        warning: bool,
        reason: String,
        message: &str,
    ) {
        let event = Event {
            time: (self.now)(),
            subject,
            warning,
            reason: reason.into(),
            action: "Scheduling",
            note: cut(message),
            annotations: BTreeMap::new(),
        };
        self.record(scheduler, event);
    }

    fn send(
        &self,
        scheduler: &str,
        pod: &PodRef,
        related: Option<&PodRef>,
        warning: bool,
        (reason, action): (&'static str, &'static str),
        note: String,
    ) {
        let (name, uid) = (pod.to_string(), pod.uid.to_string());
        let event = Event {
            time: (self.now)(),
            subject: match related {
                None => Subject::Pod { name, uid },
                Some(related) => Subject::PodAnd {
                    name,
                    uid,
                    related: related.reference(),
                },
            },
            warning,
            reason: reason.into(),
            action,
            note,
            annotations: BTreeMap::new(),
        };
        self.record(scheduler, event);
    }

    fn record(&self, scheduler: &str, event: Event) {
        let senders = self.senders.get(scheduler).into_iter().flatten();
        let mut hasher = DefaultHasher::new();
        match &event.subject {
            Subject::Pod { uid, .. } | Subject::PodAnd { uid, .. } => uid.hash(&mut hasher),
            Subject::Object(object) => object.uid.hash(&mut hasher),
            Subject::Node | Subject::NodeAnd(_) => {}
        }
        // The same recorder for all events of an object keeps their order.
        let index = usize::try_from(hasher.finish() % RECORDERS as u64).unwrap_or(0);
        if let Some(sender) = senders.into_iter().nth(index) {
            let dropped = !sender.send(event);
            self.dropped
                .fetch_add(u64::from(dropped), Ordering::Relaxed);
        }
    }
}

/// Cuts a long message and appends ` ...` (S5-069).
fn cut(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let mut end = LONGEST_NOTE - CUT.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_069_a_long_message_is_cut_to_1024_bytes() {
        assert_eq!(cut(&"x".repeat(1024)), "x".repeat(1024));
        assert_eq!(cut(&"x".repeat(1025)), format!("{} ...", "x".repeat(1020)));
        let cut = cut(&"é".repeat(600));
        assert!(cut.len() <= 1024 && cut.ends_with("é ..."));
    }
}
