//! Reflectors against a server that answers as a script says, in paused time.

mod long;
mod retries;

use super::*;
use crate::stagger::Fleet;
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, advance, sleep};

const PODS: &str = "/api/v1/pods";
const SECOND: Duration = Duration::from_secs(1);

/// An answer of the server: its code, the parts of its body, and whether the body ends after them.
struct Answer(u16, Vec<Bytes>, bool);

impl Answer {
    /// These events, and then nothing more for as long as anybody waits.
    fn events(events: &[String]) -> Self {
        let lines = events.iter().map(|event| format!("{event}\n").into());
        Self(200, lines.collect(), false)
    }

    /// The connection ends after its parts.
    fn cut(self) -> Self {
        Self(self.0, self.1, true)
    }

    fn refusal(code: u16) -> Self {
        let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": "No", "message": "no"});
        Self(code, vec![status.to_string().into()], true)
    }

    fn json(value: &serde_json::Value) -> Self {
        Self(200, vec![value.to_string().into()], true)
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match (self.1.is_empty(), self.2) {
            (false, _) => Poll::Ready(Some(Ok(Frame::data(self.1.remove(0))))),
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}

/// What is asked, when, and what is answered. After the script there is no answer.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<(Instant, String)>>>,
    connected: Arc<Mutex<usize>>,
}

impl Script {
    fn of(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            ..Self::default()
        }
    }

    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(_, what)| what.clone()).collect()
    }

    /// The pauses between the requests.
    fn pauses(&self) -> Vec<Duration> {
        let asked = self.asked.lock().unwrap();
        asked.windows(2).map(|two| two[1].0 - two[0].0).collect()
    }
}

impl Connect for Script {
    async fn connect(&self) -> Result<Client, WatchError> {
        *self.connected.lock().unwrap() += 1;
        let script = self.clone();
        let service = tower::service_fn(move |request: hyper::Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let version = query
                .split('&')
                .find_map(|one| one.strip_prefix("resourceVersion="));
            let verb = match (
                query.contains("watch=true"),
                query.contains("sendInitialEvents=true"),
            ) {
                (true, true) => "stream".to_owned(),
                (true, false) => format!("watch {}", version.unwrap_or_default()),
                _ if query.is_empty() => request.uri().path().to_owned(),
                _ => "list".to_owned(),
            };
            script.asked.lock().unwrap().push((Instant::now(), verb));
            let answer = script.answers.lock().unwrap().pop_front();
            async move {
                let Some(answer) = answer else {
                    return std::future::pending().await;
                };
                let mut response = hyper::Response::builder().status(answer.0);
                if answer.0 == 429 {
                    response = response.header("retry-after", "1");
                }
                Ok::<_, kube::Error>(response.body(answer).unwrap())
            }
        });
        Ok(Client::new(service, "default"))
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

/// An object of which little is kept.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Thing {
    metadata: Metadata,
}

impl Keyed for Thing {
    fn key(&self) -> Key<'_> {
        [&self.metadata.namespace, &self.metadata.name]
    }
}

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Until this was written down.
    #[allow(
        clippy::disallowed_methods,
        reason = "the clock of the test is set, and a thread that parses takes real time"
    )]
    async fn until(&self, line: &str) -> Vec<String> {
        let limit = std::time::Instant::now() + 60 * SECOND;
        while !self.0.lock().unwrap().iter().any(|own| own == line) {
            assert!(
                std::time::Instant::now() < limit,
                "{line} is missing: {:?}",
                self.take()
            );
            // A thread that parses stops the clock, unless it is set.
            advance(SECOND / 100).await;
            tokio::task::yield_now().await;
        }
        self.take()
    }
}

fn id(thing: &Thing) -> String {
    let Metadata {
        name,
        uid,
        resource_version,
        ..
    } = &thing.metadata;
    format!("{name}/{uid}@{resource_version}")
}

impl Store for Log {
    type Object = Thing;
    type Kept = Thing;
    type Table = ByKey<Thing>;

    fn key(object: &Thing) -> Key<'_> {
        object.key()
    }

    fn version(object: &Thing) -> &str {
        &object.metadata.resource_version
    }

    fn has_version(kept: &Thing, version: &str) -> bool {
        kept.metadata.resource_version == version
    }

    fn has_uid(kept: &Thing, uid: &str) -> bool {
        kept.metadata.uid == uid
    }

    /// The long texts of these tests are of fields that are not kept.
    fn size(_: &Thing, bytes: usize) -> usize {
        if bytes > 1 << 20 { 100 } else { bytes }
    }

    fn applied(&mut self, old: Option<Thing>, new: Thing) -> Thing {
        self.add(match old {
            Some(old) => format!("{} -> {}", id(&old), id(&new)),
            None => format!("new {}", id(&new)),
        });
        new
    }

    fn gone(&mut self, old: Thing, _: Option<Thing>) {
        self.add(format!("gone {}", id(&old)));
    }

    fn unreadable(&mut self, old: Option<&Thing>, new: &Unreadable) -> Option<Thing> {
        let what = if old.is_some() { "stays" } else { "unknown" };
        self.add(format!(
            "{what} {}@{}",
            new.outline.full_name(),
            new.outline.version
        ));
        None
    }

    fn up_to_date(&mut self) {
        self.add("up to date".to_owned());
    }

    fn lost(&mut self, problem: &str) {
        self.add(format!("lost: {problem}"));
    }
}

fn thing(name: &str, uid: &str, version: u32) -> serde_json::Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version.to_string()}})
}

fn event(kind: &str, object: &serde_json::Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

fn bookmark(version: u32, ends_list: bool) -> String {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if ends_list {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    event("BOOKMARK", &json!({ "metadata": metadata }))
}

struct Running {
    log: Log,
    script: Script,
    watches: Watches,
    _task: tokio::task::JoinHandle<()>,
}

fn run(script: Script) -> Running {
    run_with(script, Retry::soon())
}

fn run_with(script: Script, retry: Retry) -> Running {
    let (log, watches) = (Log::default(), Watches::default());
    let reflector = Reflector::new(PODS, log.clone(), watches.budget());
    let (connect, all) = (script.clone(), watches.clone());
    let task = tokio::spawn(async move {
        reflector.run(String::new(), connect, &all, retry).await;
    });
    Running {
        log,
        script,
        watches,
        _task: task,
    }
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_gap_of_the_watch_are_delivered_once_with_the_last_known_state() {
    let first = [
        event("ADDED", &thing("stays", "1", 1)),
        event("ADDED", &thing("goes", "2", 2)),
        event("ADDED", &thing("anew", "3", 3)),
        bookmark(3, true),
        event("MODIFIED", &thing("goes", "2", 4)),
    ];
    let second = [
        event("ADDED", &thing("stays", "1", 1)),
        event("ADDED", &thing("anew", "4", 6)),
        event("ADDED", &thing("ghost", "5", 7)),
        // It goes while the list is still sent.
        event("DELETED", &thing("ghost", "5", 8)),
        bookmark(8, true),
        event("DELETED", &thing("stays", "1", 9)),
        event("DELETED", &thing("never seen", "9", 10)),
    ];
    let running = run(Script::of([
        Answer::events(&first).cut(),
        Answer::refusal(410),
        Answer::events(&second),
    ]));
    let log = running.log.until("gone stays/1@1").await;
    let expected = [
        "new stays/1@1",
        "new goes/2@2",
        "new anew/3@3",
        "up to date",
        "goes/2@2 -> goes/2@4",
        "lost: the connection was cut",
        "anew/3@3 -> anew/4@6",
        "new ghost/5@7",
        "gone ghost/5@7",
        "gone goes/2@4",
        "up to date",
        "gone stays/1@1",
    ];
    assert_eq!(log, expected);
    assert_eq!(running.script.asked(), ["stream", "watch 4", "stream"]);
    assert_eq!(running.watches.states()[0].problem, None);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_broken_off_leaves_what_it_has_not_named_until_the_next_one() {
    let begun = [event("ADDED", &thing("a", "1", 5))];
    let whole = [
        event("ADDED", &thing("a", "1", 1)),
        event("ADDED", &thing("b", "2", 2)),
        bookmark(2, true),
    ];
    let last = [event("ADDED", &thing("a", "1", 5)), bookmark(6, true)];
    let running = run(Script::of([
        Answer::events(&whole).cut(),
        Answer::refusal(410),
        Answer::events(&begun).cut(),
        Answer::events(&last),
    ]));
    let log = running.log.until("gone b/2@2").await;
    assert_eq!(
        log.iter().filter(|line| line.contains("b/2")).count(),
        2,
        "{log:?}"
    );
    assert_eq!(
        log.iter().filter(|line| line.contains("a/1@5")).count(),
        1,
        "{log:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_streams_no_lists_is_asked_for_one_and_watched_from_there() {
    for code in [400, 422, 500] {
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": [thing("a", "1", 3)]});
        let changes = [event("MODIFIED", &thing("a", "1", 8)), bookmark(20, false)];
        let running = run(Script::of([
            Answer::refusal(code),
            Answer::json(&list),
            Answer::events(&changes).cut(),
            Answer::events(&[]),
        ]));
        running.log.until("lost: the connection was cut").await;
        sleep(SECOND).await;
        // The next watch begins at the bookmark, and no list is streamed any more.
        assert_eq!(
            running.script.asked(),
            ["stream", "list", "watch 7", "watch 20"],
            "{code}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_lacks_is_an_empty_list_and_one_it_had_only_after_a_minute() {
    let running = run(Script::of(
        std::iter::repeat_with(|| Answer::refusal(404)).take(5),
    ));
    let log = running.log.until("up to date").await;
    assert_eq!(log, ["up to date"]);
    assert_eq!(running.watches.broken(), None);

    let there = [event("ADDED", &thing("a", "1", 1)), bookmark(1, true)];
    let absent = std::iter::repeat_with(|| Answer::refusal(404)).take(50);
    let answers = std::iter::once(Answer::events(&there).cut()).chain(absent);
    let running = run(Script::of(answers));
    let began = Instant::now();
    running.log.until("gone a/1@1").await;
    assert!(
        began.elapsed() >= Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_never_had_is_asked_for_six_times_a_minute_at_most() {
    let absent = std::iter::repeat_with(|| Answer::refusal(404)).take(50);
    let running = run(Script::of(absent));
    running.log.until("up to date").await;
    sleep(Duration::from_mins(1)).await;
    let asked = running.script.asked().len();
    assert!((3..=7).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_lack_of_a_right_is_an_empty_list_only_where_discovery_lacks_the_kind() {
    let resources = |name: &str| Answer::json(&json!({"resources": [{ "name": name }]}));
    let running = run(Script::of([
        Answer::refusal(403),
        resources("pods"),
        Answer::refusal(403),
        resources("nodes"),
    ]));
    let log = running.log.until("up to date").await;
    assert_eq!(log, ["lost: 403 No: no", "up to date"]);
    assert_eq!(
        running.script.asked(),
        ["stream", "/api/v1", "stream", "/api/v1"]
    );
}

#[tokio::test(start_paused = true)]
async fn credentials_are_read_again_after_401_and_not_after_503() {
    for (code, connections) in [(401, 3), (503, 1)] {
        let there = [bookmark(1, true)];
        let running = run(Script::of([
            Answer::refusal(code),
            Answer::refusal(code),
            Answer::events(&there),
        ]));
        running.log.until("up to date").await;
        assert_eq!(
            *running.script.connected.lock().unwrap(),
            connections,
            "{code}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_come_less_and_less_often_and_a_broken_watch_says_so_after_a_minute() {
    let running = run(Script::of(
        std::iter::repeat_with(|| Answer::refusal(503)).take(40),
    ));
    sleep(59 * SECOND).await;
    assert_eq!(running.watches.broken(), None);
    sleep(2 * SECOND).await;
    let broken = running.watches.broken().unwrap();
    assert_eq!(broken, "cannot watch /api/v1/pods: 503 No: no");
    sleep(600 * SECOND).await;
    let mut most = SECOND / 4;
    for pause in running.script.pauses() {
        assert!(
            pause >= most / 2 && pause <= most + SECOND / 100,
            "{pause:?} of {most:?}"
        );
        most = (most * 2).min(30 * SECOND);
    }
    assert!(running.script.asked().len() > 20);
}

#[tokio::test(start_paused = true)]
async fn agents_come_back_one_after_the_other_and_at_once_where_it_is_urgent() {
    let fleet = Fleet::of(5000);
    let down = std::iter::repeat_with(|| Answer::refusal(503)).take(3);
    let running = run_with(Script::of(down), Retry::spread(fleet.clone()));
    sleep(9 * SECOND).await;
    let before = running.script.asked().len();
    sleep(600 * SECOND).await;
    let after = running.script.asked().len();
    assert!(before <= 2 && after <= 4, "{before} {after}");
    let down = std::iter::repeat_with(|| Answer::refusal(503)).take(3);
    fleet.set_urgent(true);
    let urgent = run_with(Script::of(down), Retry::spread(fleet));
    sleep(120 * SECOND).await;
    assert!(urgent.script.asked().len() >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_renewed_at_its_end_without_a_pause_and_without_a_list() {
    let there = [bookmark(5, true)];
    let running = run(Script::of([Answer::events(&there)]));
    running.log.until("up to date").await;
    // The server ends it, which the script cannot: the request itself names the time.
    assert_eq!(running.script.asked(), ["stream"]);
}
