//! The events that a scheduler writes about pods, in kube-scheduler's words (S5-064, S5-069, S4-024).

use super::pod_ref::PodRef;
use evictd_cluster_client::Actions;
use evictd_cluster_client::events::{Event, EventRecorder, Group, Reporter, Subject};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Recorders of each scheduler name. Each sends one event at a time, and all events of a pod go through the same one, so
/// that their order is kept.
const RECORDERS: usize = 8;
/// Events that may wait in a recorder; more are dropped, as kube-scheduler drops them.
const MAX_WAITING: usize = 1000;
/// Events of a recorder whose repeats are counted.
const MAX_SERIES: usize = 512;
/// How often the count of a pod's repeats is written. Ten thousand pods that fit nowhere repeat theirs each few seconds.
const SERIES_WRITE_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// The longest note in bytes.
const LONGEST_NOTE: usize = 1024;
const CUT: &str = " ...";

type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Sends events. Clones share their recorders, which end with the last clone.
#[derive(Clone)]
pub struct Events {
    now: Now,
    recorders: Arc<BTreeMap<String, Vec<mpsc::Sender<Event>>>>,
    dropped: Arc<AtomicU64>,
}

impl Events {
    /// For these scheduler names, each of which reports under its own name and into its group. `now` reads the clock. Must
    /// be called inside the runtime.
    pub fn new<'a>(
        actions: &Actions,
        hostname: &str,
        schedulers: impl IntoIterator<Item = (&'a str, Group)>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let now: Now = Arc::new(now);
        let start = |scheduler: &str, group| {
            let reporter = Reporter {
                group,
                controller: scheduler.to_owned(),
                instance: format!("{scheduler}-{hostname}"),
                limited: false,
                max_series: MAX_SERIES,
                series_write_period: SERIES_WRITE_PERIOD,
            };
            let (send, events) = mpsc::channel(MAX_WAITING);
            let clock = Arc::clone(&now);
            let recorder = EventRecorder::of(reporter, actions.clone(), move || clock());
            tokio::spawn(recorder.run(events));
            send
        };
        let recorders = schedulers.into_iter().map(|(scheduler, group)| {
            let recorders = (0..RECORDERS).map(|_| start(scheduler, group)).collect();
            (scheduler.to_owned(), recorders)
        });
        Self {
            recorders: Arc::new(recorders.collect()),
            now: Arc::clone(&now),
            dropped: Arc::default(),
        }
    }

    /// How many events were dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// The pod has its node.
    pub fn scheduled(&self, scheduler: &str, pod: &PodRef, node: &str) {
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

    /// An attempt to place the pod has failed; `message` is that of its condition.
    pub fn failed_scheduling(&self, scheduler: &str, pod: &PodRef, message: &str) {
        let note = cut(message);
        let words = ("FailedScheduling", "Scheduling");
        self.send(scheduler, pod, None, true, words, note);
    }

    /// The pod was deleted for another one.
    pub fn preempted(&self, scheduler: &str, victim: &PodRef, preemptor: &PodRef, node: &str) {
        let message = format!("Preempted by pod {} on node {node}", preemptor.uid);
        let words = ("Preempted", "Preempting");
        self.send(scheduler, victim, Some(preemptor), false, words, message);
    }

    /// The pod goes for others, by a session (S6-119).
    pub fn evicted(&self, scheduler: &str, pod: &PodRef, why: &str) {
        let message = format!("Pod is evicted, because of {why}");
        self.send(scheduler, pod, None, true, ("Evict", "Evicting"), message);
    }

    /// Whatever a session says of an object.
    pub fn told(
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

    /// All events of an object go through the same recorder.
    fn record(&self, scheduler: &str, event: Event) {
        let recorders = self.recorders.get(scheduler).into_iter().flatten();
        let mut hasher = DefaultHasher::new();
        match &event.subject {
            Subject::Pod { uid, .. } | Subject::PodAnd { uid, .. } => uid.hash(&mut hasher),
            Subject::Object(object) => object.uid.hash(&mut hasher),
            Subject::Node | Subject::NodeAnd(_) => {}
        }
        let place = usize::try_from(hasher.finish() % RECORDERS as u64).unwrap_or(0);
        if let Some(recorder) = recorders.into_iter().nth(place) {
            // Dropped where too many wait: an event is not worth the memory.
            let dropped = recorder.try_send(event).is_err();
            self.dropped
                .fetch_add(u64::from(dropped), Ordering::Relaxed);
        }
    }
}

/// S5-069: what is too long ends in ` ...`.
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
