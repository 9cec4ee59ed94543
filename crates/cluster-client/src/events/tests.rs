use super::*;
use crate::Access;
use evictd_testkit::{Actor, ApiServer, Fault};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI64, Ordering},
};
use tokio::sync::oneshot;

const WAIT: Duration = Duration::from_secs(20);

struct Sent {
    api: ApiServer,
    admin: Actor,
    send: mpsc::Sender<Event>,
}

impl Sent {
    fn new() -> Self {
        Self::at(Timestamp::now)
    }

    fn at(now: impl Fn() -> Timestamp + Send + 'static) -> Self {
        Self::by(Reporter::agent("one".into()), now)
    }

    fn by(reporter: Reporter, now: impl Fn() -> Timestamp + Send + 'static) -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        let space =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
        admin.create(space).unwrap();
        let config = kube::Config::new(api.url().parse().unwrap());
        let actions = Access::new("a test".into(), config).actions().unwrap();
        let (send, events) = mpsc::channel(MAX_PENDING);
        let recorder = EventRecorder::of(reporter, actions, now);
        tokio::spawn(recorder.run(events));
        Self { api, admin, send }
    }

    /// All events, once there are so many.
    async fn are(&self, count: usize) -> Vec<Value> {
        let all = |admin: &Actor| Some(admin.list("events")).filter(|all| all.len() >= count);
        self.admin.wait(WAIT, all).await.expect("so many events")
    }
}

fn evicted(pod: &str) -> Event {
    Event {
        time: Timestamp::from_microsecond(1_800_000_000_123_456).unwrap(),
        subject: Subject::Pod {
            name: format!("shop/{pod}"),
            uid: format!("uid-{pod}"),
        },
        warning: true,
        reason: "Evicted".into(),
        action: "Evict",
        note: "The node was low on resource: memory. ".into(),
        annotations: [("starved_resource", "memory".to_owned())].into(),
    }
}

#[tokio::test]
async fn s1_052_s1_057_an_event_stands_by_its_pod() {
    let sent = Sent::new();
    sent.send.send(evicted("web")).await.unwrap();
    let event = sent.are(1).await.remove(0);
    // As the core group shows it.
    assert_eq!(event["metadata"]["namespace"], "shop");
    assert!(
        event["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("web.")
    );
    assert_eq!(
        event["metadata"]["annotations"],
        json!({ "starved_resource": "memory" })
    );
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "uid-web" });
    for (key, expected) in [
        ("involvedObject", pod),
        ("type", json!("Warning")),
        ("reason", json!("Evicted")),
        ("message", json!("The node was low on resource: memory. ")),
        ("eventTime", json!("2027-01-15T08:00:00.123456Z")),
        ("action", json!("Evict")),
        ("reportingComponent", json!("evictd")),
        ("reportingInstance", json!("one")),
    ] {
        assert_eq!(event[key], expected, "{key}: {event:#}");
    }
}

#[tokio::test]
async fn repeats_are_one_event_and_a_storm_is_cut_short() {
    let sent = Sent::new();
    for _ in 0..3 {
        sent.send.send(evicted("web")).await.unwrap();
    }
    for number in 0..40 {
        sent.send
            .send(evicted(&format!("web-{number}")))
            .await
            .unwrap();
    }
    let full = BURST as usize;
    sent.are(full).await;
    // The last of the storm is through when the channel is empty.
    while sent.send.capacity() < MAX_PENDING {
        tokio::task::yield_now().await;
    }
    assert_eq!(sent.are(full).await.len(), full);
}

#[tokio::test]
async fn an_event_survives_a_server_that_fails_and_one_that_is_refused_is_lost() {
    let sent = Sent::new();
    sent.api.fault(Fault::answer(503).times(2));
    sent.send.send(evicted("web")).await.unwrap();
    sent.are(1).await;
    sent.api.fault(Fault::answer(422).times(1));
    sent.send.send(evicted("denied")).await.unwrap();
    sent.send.send(evicted("later")).await.unwrap();
    let names: Vec<Value> = sent
        .are(2)
        .await
        .into_iter()
        .map(|event| event["involvedObject"]["name"].clone())
        .collect();
    assert!(!names.contains(&json!("denied")), "{names:?}");
}

#[tokio::test]
async fn an_event_survives_a_server_that_has_not_loaded_its_roles_yet() {
    let sent = Sent::new();
    for code in [401, 403] {
        sent.api
            .fault(Fault::answer(code).on("create", "events").times(1));
    }
    sent.send.send(evicted("web")).await.unwrap();
    assert_eq!(sent.are(1).await[0]["involvedObject"]["name"], "web");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_delays_one_event_by_two_minutes_and_no_other() {
    let asked = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&asked);
    let refuse = move |_: http::Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let refusal = json!({
            "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403,
        });
        let body = kube::client::Body::from(refusal.to_string().into_bytes());
        let answer = http::Response::builder().status(403).body(body);
        async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
    };
    let client = kube::Client::new(tower::service_fn(refuse), "default");
    let recorder = EventRecorder::new("one".into(), Actions::new(client), Timestamp::now);
    let recorders = Recorders::default();
    let sender = recorders.start(recorder, MAX_PENDING);
    for (pod, seconds, attempts) in [("first", 127, ATTEMPTS), ("next", 0, 1)] {
        let began = tokio::time::Instant::now();
        asked.store(0, Ordering::Relaxed);
        assert!(sender.send(evicted(pod)));
        assert_eq!(recorders.flush(WAIT * 10).await, 0, "{pod}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{pod}");
        assert_eq!(asked.load(Ordering::Relaxed), i64::from(attempts), "{pod}");
    }
}

#[tokio::test]
async fn the_core_group_has_the_first_time_the_last_time_and_a_count() {
    let reporter = Reporter {
        group: Group::Core,
        series_write_period: SignedDuration::ZERO,
        ..Reporter::agent("one".into())
    };
    let sent = Sent::by(reporter, Timestamp::now);
    sent.send.send(evicted("web")).await.unwrap();
    let event = sent.are(1).await.remove(0);
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "uid-web" });
    for (key, expected) in [
        ("involvedObject", pod),
        ("message", json!("The node was low on resource: memory. ")),
        ("firstTimestamp", json!("2027-01-15T08:00:00Z")),
        ("lastTimestamp", json!("2027-01-15T08:00:00Z")),
        ("count", json!(1)),
        ("eventTime", Value::Null),
        ("source", json!({ "component": "evictd" })),
        ("reportingComponent", json!("evictd")),
    ] {
        assert_eq!(event[key], expected, "{key}: {event:#}");
    }
    let mut again = evicted("web");
    again.time = Timestamp::from_second(1_800_000_060).unwrap();
    sent.send.send(again).await.unwrap();
    let counted = |admin: &Actor| {
        let events = admin.list("events").into_iter();
        events.into_iter().find(|event| event["count"] == 2)
    };
    let event = sent.admin.wait(WAIT, counted).await.expect("a count of 2");
    assert_eq!(event["firstTimestamp"], "2027-01-15T08:00:00Z");
    assert_eq!(event["lastTimestamp"], "2027-01-15T08:01:00Z");
    assert_eq!(event["series"], Value::Null);
}

#[tokio::test]
async fn a_repeat_creates_the_event_that_was_refused() {
    let sent = Sent::new();
    sent.api
        .fault(Fault::answer(422).on("create", "events").times(1));
    for _ in 0..2 {
        sent.send.send(evicted("web")).await.unwrap();
    }
    let event = sent.are(1).await.remove(0);
    assert_eq!(event["series"]["count"], 2, "{event:#}");
}

#[tokio::test]
async fn a_repeat_creates_the_event_whose_time_to_live_is_over() {
    let clock = Arc::new(AtomicI64::new(0));
    let read = Arc::clone(&clock);
    let sent = Sent::at(move || {
        Timestamp::from_second(1_800_000_000 + read.load(Ordering::Relaxed)).unwrap()
    });
    sent.send.send(evicted("web")).await.unwrap();
    let event = sent.are(1).await.remove(0);
    let name = event["metadata"]["name"].as_str().unwrap();
    let at = format!("shop/{name}");
    sent.admin.delete("events", &at, Value::Null).unwrap();
    clock.store(SERIES_WRITE_PERIOD.as_secs() + 1, Ordering::Relaxed);
    sent.send.send(evicted("web")).await.unwrap();
    let anew = sent.are(1).await.remove(0);
    assert_eq!(anew["series"]["count"], 2, "{anew:#}");
}

#[test]
fn a_burst_passes_and_then_one_in_a_while() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut rate_limit = RateLimit::new(at(0));
    assert!((0..BURST).all(|_| rate_limit.take(at(100))));
    assert!(!rate_limit.take(at(100)));
    assert!(!rate_limit.take(at(109)));
    assert!(rate_limit.take(at(110)));
    assert!(!rate_limit.take(at(119)));
    assert!(rate_limit.take(at(130)) && rate_limit.take(at(130)) && !rate_limit.take(at(130)));
}

#[test]
fn a_note_is_cut_where_a_character_ends() {
    let event = Event {
        note: "é".repeat(600),
        ..evicted("web")
    };
    let object = object::object(&event, &Reporter::agent("one".into()), ("shop", "web.1"));
    assert_eq!(object["note"].as_str().unwrap(), "é".repeat(512));
}

#[test]
fn the_count_of_a_repeated_event_is_reported() {
    let series = Series {
        event: evicted("web"),
        namespace: "shop".into(),
        name: "web.1".into(),
        created: true,
        count: 3,
        last: Timestamp::from_second(1_800_000_000).unwrap(),
        written: Timestamp::UNIX_EPOCH,
    };
    let request = request(repeat(&series, Group::Events)).unwrap();
    assert_eq!(
        request.uri().path(),
        "/apis/events.k8s.io/v1/namespaces/shop/events/web.1"
    );
    let body: Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(
        body,
        json!({ "series": { "count": 3, "lastObservedTime": "2027-01-15T08:00:00.000000Z" } })
    );
}

#[tokio::test]
async fn an_event_on_an_owner_stands_by_the_node_and_names_the_owner() {
    let sent = Sent::new();
    let owner = ObjectReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u-1".to_owned(),
    };
    let event = Event {
        subject: Subject::NodeAnd(owner),
        ..evicted("web-a")
    };
    sent.send.send(event).await.unwrap();
    let event = sent.are(1).await.remove(0);
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["involvedObject"]["kind"], "Node");
    assert_eq!(event["involvedObject"]["name"], "one");
    let related = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "shop", "name": "web", "uid": "u-1",
    });
    assert_eq!(event["related"], related);
}

#[test]
fn only_what_a_going_namespace_refuses_is_not_missed() {
    let refused = |reason: &str| {
        let status: kube::core::Status = serde_json::from_value(json!({
            "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403,
            "details": { "causes": [{ "reason": reason, "message": "", "field": "metadata.namespace" }] },
        }))
        .unwrap();
        let what = "POST /api/v1/namespaces/shop/events".to_owned();
        let cause = Box::new(kube::Error::Api(status.boxed()));
        ApiError::Call {
            what,
            cause,
            peer: crate::Peer::ApiServer,
        }
    };
    assert!(is_of_going_namespace(&refused("NamespaceTerminating")));
    assert!(!is_of_going_namespace(&refused("Forbidden")));
}

/// A server that holds each request until it is let through.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<VecDeque<Request>>>);

/// The event of a request, and how to let it through.
type Request = (String, oneshot::Sender<()>);

impl Held {
    fn actions(&self) -> Actions {
        let held = self.clone();
        let serve = move |request: http::Request<kube::client::Body>| {
            let held = held.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                let event: Value = serde_json::from_slice(&body).unwrap();
                let (pass, passed) = oneshot::channel();
                let name = format!("{} {}", event["regarding"]["name"], event["note"]);
                held.0
                    .lock()
                    .unwrap()
                    .push_back((name.replace('"', ""), pass));
                let _ = passed.await;
                let answer = kube::client::Body::from(b"{}".to_vec());
                Ok::<_, std::convert::Infallible>(http::Response::new(answer))
            }
        };
        Actions::new(kube::Client::new(tower::service_fn(serve), "default"))
    }

    /// The requests that are held once nothing else can happen.
    async fn names(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let held = self.0.lock().unwrap();
        held.iter().map(|(name, _)| name.clone()).collect()
    }

    fn pass_first(&self) {
        let (_, pass) = self.0.lock().unwrap().pop_front().unwrap();
        pass.send(()).unwrap();
    }
}

fn note(pod: &str, note: &str) -> Event {
    Event {
        note: note.into(),
        ..evicted(pod)
    }
}

fn of_scheduler(held: &Held, concurrent: usize) -> EventRecorder {
    let reporter = Reporter {
        limited: false,
        concurrent,
        ..Reporter::agent("one".into())
    };
    EventRecorder::of(reporter, held.actions(), Timestamp::now)
}

#[tokio::test(start_paused = true)]
async fn so_many_events_are_written_at_once_and_those_of_one_object_in_their_order() {
    let (held, recorders) = (Held::default(), Recorders::default());
    let sender = recorders.start(of_scheduler(&held, 3), 100);
    for (pod, text) in [
        ("a", "1"),
        ("a", "2"),
        ("a", "2"),
        ("b", "1"),
        ("c", "1"),
        ("d", "1"),
    ] {
        assert!(sender.send(note(pod, text)));
    }
    assert_eq!(held.names().await, ["a 1", "b 1", "c 1"]);
    held.pass_first();
    // The second event of the object comes before others. Its repeat is only counted.
    assert_eq!(held.names().await, ["b 1", "c 1", "a 2"]);
    held.pass_first();
    assert_eq!(held.names().await, ["c 1", "a 2", "d 1"]);
    for _ in 0..3 {
        held.pass_first();
    }
    assert_eq!(recorders.flush(WAIT).await, 0);
    assert!(held.names().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_object_with_many_events_holds_no_more_than_a_bound_and_others_are_written() {
    let (held, recorders) = (Held::default(), Recorders::default());
    let sender = recorders.start(of_scheduler(&held, 2), 10);
    let mut taken = 0;
    for number in 0..1000 {
        taken += usize::from(sender.send(note("a", &number.to_string())));
        tokio::task::yield_now().await;
    }
    // One is being written; the others wait in the recorder and in its channel.
    assert_eq!(taken, 1 + MAX_PENDING + 10);
    while !held.names().await.is_empty() {
        held.pass_first();
    }
    assert_eq!(recorders.flush(WAIT).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_the_last_event_and_says_how_many_were_not_written_in_time() {
    let (held, recorders) = (Held::default(), Recorders::default());
    let sender = recorders.start(of_scheduler(&held, 2), 100);
    for pod in ["a", "b", "c", "d", "e"] {
        assert!(sender.send(note(pod, "1")));
    }
    held.names().await;
    held.pass_first();
    let began = tokio::time::Instant::now();
    // A call without an answer is repeated until the time is over.
    assert_eq!(recorders.flush(Duration::from_secs(2)).await, 4);
    assert_eq!(began.elapsed(), Duration::from_secs(2));
}
