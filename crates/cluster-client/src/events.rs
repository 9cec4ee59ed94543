//! Events, of `events.k8s.io/v1` or of the core group: repeated events are counted in one object, and their rate is limited
//! to protect the API server.

mod object;
mod recorders;

pub use recorders::{EventSender, Recorders};

use crate::actions::verb;
use crate::token_bucket::TokenBucket;
use crate::{Actions, ApiError, Backoff, CALL_TIMEOUT};
use jiff::{SignedDuration, Timestamp};
use object::{Call, create, name_of, repeat, request};
use serde::{Serialize, de::IgnoredAny};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

/// The most events that may wait to be sent; more are dropped.
pub const MAX_PENDING: usize = 64;

/// The most events that are sent in one burst.
const BURST: u32 = 25;
/// After a burst, one more event is allowed per this time.
const REFILL: Duration = Duration::from_secs(10);
/// An event is a repeat if its predecessor is at most this old.
const SERIES_GAP: SignedDuration = SignedDuration::from_mins(10);
/// How often the count of repeats is written.
const SERIES_WRITE_PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// The most events whose repeats are counted at the same time.
const MAX_SERIES: usize = 64;
/// The longest note in bytes that the API server accepts.
const LONGEST_NOTE: usize = 1024;
/// The longest name part in bytes, so that the name with its suffix is short enough for the API server.
const LONGEST_NAME: usize = 200;
/// Two minutes with these pauses. An API server that is started again is away for up to a minute, and then refuses
/// everybody until it has loaded its roles.
const ATTEMPTS: u32 = 14;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause, before the last attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The node that this agent runs on.
    Node,
    /// This node, with a related controller.
    NodeAnd(ObjectReference),
    /// A pod of this node.
    Pod {
        /// `namespace/name`
        name: String,
        /// UID of the pod.
        uid: String,
    },
    /// A pod, with a related object: of a victim, the pod that preempted it.
    PodAnd {
        /// `namespace/name`
        name: String,
        /// UID of the pod.
        uid: String,
        /// The other object.
        related: ObjectReference,
    },
    /// Any other object; one of the whole cluster has no namespace.
    Object(ObjectReference),
}

impl Subject {
    /// The UID of the object; empty for the node.
    fn uid(&self) -> &str {
        match self {
            Self::Node | Self::NodeAnd(_) => "",
            Self::Pod { uid, .. } | Self::PodAnd { uid, .. } => uid,
            Self::Object(object) => &object.uid,
        }
    }
}

/// The group that events are written to. Both show the same objects, but each lets only some fields be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// `events.k8s.io/v1`: a time in microseconds, and a series of repeats.
    Events,
    /// `v1`: `firstTimestamp`, `lastTimestamp` and `count`, as Volcano's events have them. Clients of those read no
    /// other group, and the other group refuses them.
    Core,
}

/// Who reports, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The group of the events.
    pub group: Group,
    /// `reportingController`: `evictd`, or the scheduler's name.
    pub controller: String,
    /// `reportingInstance`; of an agent its node, which events about the node are about.
    pub instance: String,
    /// Whether no more than a burst of events is sent, and then one in ten seconds.
    pub limited: bool,
    /// The most events whose repeats are counted at the same time.
    pub max_series: usize,
    /// How often the count of repeats is written.
    pub series_write_period: SignedDuration,
    /// The most events that are written at the same time. Events of one object are written one after the other.
    pub concurrent: usize,
}

impl Reporter {
    /// The agent of this node.
    pub fn agent(node: String) -> Self {
        Self {
            group: Group::Events,
            controller: "evictd".to_owned(),
            instance: node,
            limited: true,
            max_series: MAX_SERIES,
            series_write_period: SERIES_WRITE_PERIOD,
            concurrent: 1,
        }
    }
}

/// A reference to an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// `apps/v1`, ...
    pub api_version: String,
    /// `ReplicaSet`, ...
    pub kind: String,
    /// Namespace of the object; empty for one of the whole cluster.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
}

/// A report of an agent about an object; a repeat of the last one is only counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub time: Timestamp,
    /// The object.
    pub subject: Subject,
    /// Whether its type is `Warning` rather than `Normal`.
    pub warning: bool,
    /// The reason, in the kubelet's words.
    pub reason: Cow<'static, str>,
    /// The action that was taken.
    pub action: &'static str,
    /// The note, in the kubelet's words.
    pub note: String,
    /// Annotations of the event; those of the kubelet's evictions name containers and figures (S1-057).
    pub annotations: BTreeMap<&'static str, String>,
}

/// Reads the clock that decides whether an event is a repeat.
type Now = Box<dyn Fn() -> Timestamp + Send>;

/// Sends the events of one reporter, counts repeats and limits their rate.
pub struct EventRecorder {
    reporter: Arc<Reporter>,
    actions: Actions,
    now: Now,
    rate_limit: Option<RateLimit>,
    /// The oldest first.
    series: VecDeque<Series>,
    /// The writes under way, each with its result. Their series are not in `series` meanwhile.
    writes: JoinSet<(Series, Result<(), ApiError>)>,
    /// By the UID of its object, for each write under way: the later events of the object, which wait for it.
    later: HashMap<String, VecDeque<Event>>,
    /// How many events wait there.
    waiting: usize,
    /// Whether the server has refused an event for as long as is tried. Until it takes one, each is tried once: the
    /// right is missing, and others must not wait.
    is_refused: bool,
}

/// An event that was sent, with the count of its repeats.
struct Series {
    event: Event,
    namespace: String,
    name: String,
    /// Whether the server has it, as far as is known.
    created: bool,
    count: u32,
    last: Timestamp,
    written: Timestamp,
}

impl EventRecorder {
    /// A recorder for the agent of this node; `now` reads the clock.
    pub fn new(
        node: String,
        actions: Actions,
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Self {
        Self::of(Reporter::agent(node), actions, now)
    }

    /// A recorder for this reporter; `now` reads the clock.
    pub fn of(
        reporter: Reporter,
        actions: Actions,
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Self {
        let rate_limit = reporter.limited.then(|| RateLimit::new(now()));
        Self {
            reporter: Arc::new(reporter),
            actions,
            now: Box::new(now),
            rate_limit,
            series: VecDeque::new(),
            writes: JoinSet::new(),
            later: HashMap::new(),
            waiting: 0,
            is_refused: false,
        }
    }

    /// Sends events until the sender of the channel is dropped.
    pub async fn run(self, events: mpsc::Receiver<Event>) {
        self.run_with(events, || {}).await;
    }

    /// As [`Self::run`]. Calls `ended` once for each event that is written, counted as a repeat, or lost.
    async fn run_with(mut self, mut events: mpsc::Receiver<Event>, ended: impl Fn() + Send) {
        let mut is_open = true;
        while is_open || !self.writes.is_empty() {
            let free = self.writes.len() < self.reporter.concurrent;
            tokio::select! {
                biased;
                Some(written) = self.writes.join_next() => {
                    // A lost task means that the runtime ends.
                    if let Ok((series, result)) = written {
                        self.written(series, result, &ended);
                    }
                }
                // Waiting events are bounded here as well.
                event = events.recv(), if is_open && free && self.waiting < MAX_PENDING => match event {
                    Some(event) => self.record(event, &ended),
                    None => is_open = false,
                },
            }
        }
    }

    /// Handles the next event, which waits for an earlier one of its object.
    fn record(&mut self, event: Event, ended: &impl Fn()) {
        match self.later.get_mut(event.subject.uid()) {
            Some(later) => {
                later.push_back(event);
                self.waiting += 1;
            }
            None => self.begin(event, VecDeque::new(), ended),
        }
    }

    /// Begins the first write that this event, or one of the later events of its object, needs.
    fn begin(&mut self, event: Event, mut later: VecDeque<Event>, ended: &impl Fn()) {
        let mut next = Some(event);
        while let Some(event) = next {
            if let Some(mut series) = self.series_to_write(event) {
                self.later
                    .insert(series.event.subject.uid().to_owned(), later);
                let (actions, reporter) = (self.actions.clone(), Arc::clone(&self.reporter));
                let is_refused = self.is_refused;
                self.writes.spawn(async move {
                    let result = series.send(&actions, &reporter, is_refused).await;
                    (series, result)
                });
                return;
            }
            ended();
            next = later.pop_front();
            self.waiting -= usize::from(next.is_some());
        }
    }

    /// Handles the end of a write.
    fn written(&mut self, series: Series, result: Result<(), ApiError>, ended: &impl Fn()) {
        let later = self.later.remove(series.event.subject.uid());
        if self.series.len() >= self.reporter.max_series {
            self.series.pop_front();
        }
        self.series.push_back(series);
        self.note_refusal(&result);
        match result {
            Err(error) if is_of_going_namespace(&error) => {
                tracing::debug!("an event is lost: {error}");
            }
            Err(error) => tracing::warn!("an event is lost: {error}"),
            Ok(()) => {}
        }
        ended();
        let mut later = later.unwrap_or_default();
        if let Some(next) = later.pop_front() {
            self.waiting -= 1;
            self.begin(next, later, ended);
        }
    }

    /// Counts an event. Returns the series to write, if it must be written now.
    fn series_to_write(&mut self, event: Event) -> Option<Series> {
        let now = (self.now)();
        let is_over = |series: &Series| now.duration_since(series.last) >= SERIES_GAP;
        while self.series.front().is_some_and(is_over) {
            self.series.pop_front();
        }
        // A repeat raises a count, so that a loop does not fill the API server with events.
        let same = |series: &Series| {
            let before = &series.event;
            before.subject == event.subject
                && before.reason == event.reason
                && before.note == event.note
                && !is_over(series)
        };
        let known = self.series.iter().position(same);
        if let Some(index) = known
            && let Some(series) = self.series.get_mut(index)
        {
            series.count += 1;
            series.last = event.time;
            let period = self.reporter.series_write_period;
            let is_fresh = series.created && now.duration_since(series.written) < period;
            if is_fresh || !may_send(&mut self.rate_limit, now) {
                return None;
            }
            series.written = now;
            return self.series.remove(index);
        }
        if !may_send(&mut self.rate_limit, now) {
            tracing::debug!("too many events: {} is not sent", event.reason);
            return None;
        }
        // The name stays, so that an attempt after a lost answer creates no second event.
        let (namespace, name) = name_of(&event.subject, &self.reporter.instance, now);
        Some(Series {
            last: event.time,
            event,
            namespace,
            name,
            created: false,
            count: 1,
            written: now,
        })
    }

    fn note_refusal(&mut self, sent: &Result<(), ApiError>) {
        self.is_refused = match sent {
            Ok(()) => false,
            Err(error) if is_of_going_namespace(error) => self.is_refused,
            Err(error) => error.is_refusal(),
        };
    }
}

impl Series {
    /// Writes the count of repeats into the event, or the event itself where the server does not have it: an earlier
    /// attempt was refused, or its time to live is over.
    async fn send(
        &mut self,
        actions: &Actions,
        reporter: &Reporter,
        is_refused: bool,
    ) -> Result<(), ApiError> {
        if self.created {
            let request = repeat(self, reporter.group);
            let sent = send(actions, || request.clone(), is_refused).await;
            let gone = |error: &ApiError| error.status().is_some_and(|status| status.code == 404);
            if !sent.as_ref().is_err_and(gone) {
                return sent;
            }
            self.created = false;
        }
        let request = create(self, reporter);
        send(actions, || request.clone(), is_refused).await?;
        self.created = true;
        Ok(())
    }
}

/// Whether the event's namespace is being deleted and accepts no new objects: the event would be deleted, too.
fn is_of_going_namespace(error: &ApiError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// Sends with a few attempts; an event is not worth more. With `is_refused` a refusal is not tried again.
async fn send(
    actions: &Actions,
    call: impl Fn() -> Call,
    is_refused: bool,
) -> Result<(), ApiError> {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut attempt = 1;
    loop {
        let request = request(call());
        let verb = verb(&request);
        let asked = async {
            let request = request.map_err(kube::Error::BuildRequest)?;
            actions.client().request::<IgnoredAny>(request).await
        };
        let what = "sending an event";
        let sent = actions.call_as(verb.as_ref(), what, CALL_TIMEOUT, asked);
        let Err(error) = sent.await else {
            return Ok(());
        };
        let code = error.status().map(|status| status.code);
        if code == Some(409) {
            // An earlier attempt without an answer has created it.
            return Ok(());
        }
        let is_final = is_of_going_namespace(&error)
            || (is_refused && error.is_refusal())
            || !error.may_pass();
        if is_final || attempt == ATTEMPTS {
            return Err(error);
        }
        attempt += 1;
        sleep(backoff.next(Backoff::NO_JITTER)).await;
    }
}

/// Without a limit always.
fn may_send(limit: &mut Option<RateLimit>, now: Timestamp) -> bool {
    limit.as_mut().is_none_or(|limit| limit.take(now))
}

/// Limits the rate: a burst, and after it one per [`REFILL`].
struct RateLimit {
    bucket: TokenBucket,
    start: Timestamp,
}

impl RateLimit {
    fn new(start: Timestamp) -> Self {
        let bucket = TokenBucket::new(REFILL, BURST);
        Self { bucket, start }
    }

    fn take(&mut self, now: Timestamp) -> bool {
        // A clock that was set back counts as one that stands still.
        let since_start = Duration::try_from(now.duration_since(self.start));
        self.bucket.take(since_start.unwrap_or_default()).is_ok()
    }
}

#[cfg(test)]
mod tests;
