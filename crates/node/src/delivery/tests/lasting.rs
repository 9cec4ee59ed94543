//! Whether what was told lasts, in paused time, against an API server that is one function.

use super::*;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use evictd_cluster_client::Actions;
use http::{Method, StatusCode};
use serde_json::json;
use std::sync::Mutex;
use tokio::time::{Instant, sleep};

/// What a request does to the pod, by how many there were of its kind before; a code other than 200 refuses it.
type Play = Box<dyn FnMut(&Method, usize, &mut Value) -> u16 + Send>;

/// One pod, and whoever else writes on it.
struct Fake {
    pod: Value,
    play: Play,
    asked: Vec<(Method, Duration)>,
    patches: Vec<Value>,
    since: Instant,
}

type Shared = Arc<Mutex<Fake>>;

async fn answer(State(fake): State<Shared>, request: Request) -> Response {
    let method = request.method().clone();
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let mut fake = fake.lock().unwrap();
    let fake = &mut *fake;
    let before = fake.asked.iter().filter(|(one, _)| *one == method).count();
    fake.asked.push((method.clone(), fake.since.elapsed()));
    if method == Method::PATCH {
        let patch: Value = serde_json::from_slice(&body).unwrap();
        if let Some(annotations) = patch["metadata"].get("annotations") {
            fake.pod["metadata"]["annotations"] = annotations.clone();
        }
        for (field, value) in patch["status"].as_object().unwrap() {
            fake.pod["status"][field] = value.clone();
        }
        fake.patches.push(patch);
    } else if method == Method::DELETE {
        fake.pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
    }
    let code = StatusCode::from_u16((fake.play)(&method, before, &mut fake.pod)).unwrap();
    let text = if code.is_success() {
        fake.pod.to_string()
    } else {
        let reason = if code == 404 { "NotFound" } else { "R" };
        json!({"kind": "Status", "code": code.as_u16(), "reason": reason, "message": "m"})
            .to_string()
    };
    (code, Body::from(text)).into_response()
}

/// A pod of which a kubelet has written that it runs.
fn running() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" },
        "status": {
            "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{
                "name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
            }],
        },
    })
}

/// What its kubelet writes that has not heard of the end.
fn written_over(pod: &mut Value) {
    pod["status"]["phase"] = "Running".into();
}

/// What its kubelet writes once it has.
fn taken_over(pod: &mut Value) {
    let ready = json!({ "type": "Ready", "status": "False", "reason": "PodFailed" });
    pod["status"]["conditions"] = json!([ready]);
}

struct Story {
    fake: Shared,
    publications: UnboundedReceiver<Progress>,
}

impl Story {
    fn of(notice: Notice, pod: Value, play: Play) -> Self {
        Self::with(notice, pod, watch::channel(true).1, play)
    }

    fn with(notice: Notice, pod: Value, settled: watch::Receiver<bool>, play: Play) -> Self {
        let (story, delivery_queue) = Self::before(pod, settled, play);
        drop(delivery_queue.submit(notice));
        story
    }

    /// A story in which nothing has been asked for yet.
    fn before(pod: Value, settled: watch::Receiver<bool>, play: Play) -> (Self, DeliveryQueue) {
        let fake = Arc::new(Mutex::new(Fake {
            pod,
            play,
            asked: Vec::new(),
            patches: Vec::new(),
            since: Instant::now(),
        }));
        let server = Router::new().fallback(answer).with_state(Arc::clone(&fake));
        let actions = Actions::new(kube::Client::new(server, "default"));
        let (delivery_queue, publications) = DeliveryQueue::new(actions, settled);
        (Self { fake, publications }, delivery_queue)
    }

    async fn outcome(&mut self) -> DeliveryOutcome {
        let told = timeout(Duration::from_mins(15), closed(&mut self.publications)).await;
        let log = || self.fake.lock().unwrap().asked.clone();
        told.unwrap_or_else(|_| panic!("no fate: {:?}", log()))
            .outcome
    }

    /// When it was asked in this way, in seconds since the beginning.
    fn asked(&self, method: &Method) -> Vec<u64> {
        let fake = self.fake.lock().unwrap();
        let of = fake.asked.iter().filter(|(one, _)| one == method);
        of.map(|(_, at)| at.as_secs()).collect()
    }

    /// What the annotation said each time.
    fn records(&self) -> Vec<String> {
        let fake = self.fake.lock().unwrap();
        let record = |patch: &Value| {
            let record = &patch["metadata"]["annotations"]["evictd.dev/evicted"];
            record.as_str().unwrap().to_owned()
        };
        fake.patches.iter().map(record).collect()
    }
}

fn notice(way: Way) -> Notice {
    Notice {
        id: "d-1".into(),
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u-1".into(),
        generation: None,
        reason: "Evicted".into(),
        message: "Container main was using 90Mi. ".into(),
        disruption_target: Some("The node was low on resource: memory. ".into()),
        way,
        record: r#"{"decision":"d-1"}"#.into(),
        time: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_delivered_once_its_kubelet_has_adopted_it() {
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(|method, _, pod| {
            if *method == Method::PATCH {
                taken_over(pod);
            }
            200
        }),
    );
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    assert_eq!(story.asked(&Method::GET), [1], "one look is enough");
    assert_eq!(story.records(), [r#"{"decision":"d-1"}"#]);
}

#[tokio::test(start_paused = true)]
async fn an_overwritten_status_is_patched_again_with_another_record_until_it_lasts() {
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(|method, before, pod| {
            match (method, before) {
                (&Method::PATCH, 0..=2) => written_over(pod),
                (&Method::PATCH, _) => taken_over(pod),
                _ => {}
            }
            200
        }),
    );
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    assert_eq!(
        story.records(),
        [
            r#"{"decision":"d-1"}"#,
            r#"{"decision":"d-1","told":2}"#,
            r#"{"decision":"d-1","told":3}"#,
            r#"{"decision":"d-1","told":4}"#,
        ]
    );
    assert_eq!(
        story.asked(&Method::PATCH),
        [0, 2, 5, 10],
        "ever more rarely"
    );
    let fake = story.fake.lock().unwrap();
    for patch in &fake.patches {
        assert_eq!(
            patch["status"]["message"],
            "Container main was using 90Mi. "
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_says_nothing_is_waited_for_and_may_still_write_over_it() {
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(|method, before, pod| {
            if *method == Method::GET && before == 2 {
                // 16 s after a restart of the server, say.
                written_over(pod);
            }
            200
        }),
    );
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    assert_eq!(story.asked(&Method::PATCH), [0, 11]);
    let looks = story.asked(&Method::GET);
    assert_eq!(looks[..9], [1, 3, 10, 11, 12, 14, 21, 41, 71]);
    assert_eq!(
        looks.last(),
        Some(&611),
        "ten minutes after the last telling it stands"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_kubelet_overwrites_is_written_again_whenever_it_writes() {
    // It starts the pod again, later and later, and writes only then.
    let mut starts = vec![75, 45, 25, 10, 2];
    let since = Instant::now();
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(move |method, _, pod| {
            let elapsed = since.elapsed().as_secs();
            if starts.last().is_some_and(|at| elapsed >= *at) {
                starts.pop();
                written_over(pod);
            } else if *method == Method::PATCH && elapsed > 66 {
                taken_over(pod);
            }
            200
        }),
    );
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    assert!(story.fake.lock().unwrap().pod["status"]["phase"] == "Failed");
    let told = *story.asked(&Method::PATCH).last().unwrap();
    assert!(told > 66, "told last after {told} s");
}

#[tokio::test(start_paused = true)]
async fn that_the_server_has_accepted_it_is_said_once_and_before_its_kubelet_has() {
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(|method, before, pod| {
            match (method, before) {
                (&Method::PATCH, 0) => {
                    written_over(pod);
                    return 503;
                }
                (&Method::PATCH, 1) => written_over(pod),
                (&Method::PATCH, _) => taken_over(pod),
                _ => {}
            }
            200
        }),
    );
    let accepted = story.publications.recv().await.unwrap();
    assert_eq!(accepted, Progress::Accepted { id: "d-1".into() });
    assert_eq!(story.asked(&Method::PATCH).len(), 2);
    let closed = story.publications.recv().await.unwrap();
    assert!(matches!(closed, Progress::Closed(_)), "{closed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_published_status_is_checked_again_when_the_server_is_back() {
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(|method, before, _| match (method, before) {
            (&Method::GET, 1..=3) => 503,
            _ => 200,
        }),
    );
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    let looks = story.asked(&Method::GET);
    let back = looks[4];
    let after: Vec<u64> = looks[5..].iter().map(|at| at - back).collect();
    assert_eq!(after[..4], [2, 9, 29, 59]);
}

#[tokio::test(start_paused = true)]
async fn a_status_without_a_kubelets_write_is_confirmed_at_the_first_check() {
    let mut pod = running();
    pod["status"]
        .as_object_mut()
        .unwrap()
        .remove("containerStatuses");
    let mut story = Story::of(notice(Way::Status), pod, Box::new(|_, _, _| 200));
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    assert_eq!(story.asked(&Method::GET), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_after_its_notice_counts_as_published() {
    for code in [200, 404] {
        let mut story = Story::of(
            notice(Way::Status),
            running(),
            Box::new(move |method, _, pod| {
                pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
                if *method == Method::GET { code } else { 200 }
            }),
        );
        assert_eq!(story.outcome().await, DeliveryOutcome::Published, "{code}");
        assert_eq!(story.asked(&Method::PATCH).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_waits_for_the_taint_and_not_for_long() {
    for settles in [true, false] {
        let (settle, settled) = watch::channel(false);
        let mut story = Story::with(
            notice(Way::Status),
            running(),
            settled,
            Box::new(|_, _, pod| {
                taken_over(pod);
                200
            }),
        );
        sleep(Duration::from_millis(100)).await;
        assert_eq!(story.asked(&Method::PATCH).len(), 0);
        settle.send_replace(settles);
        assert_eq!(story.outcome().await, DeliveryOutcome::Published);
        let fake = story.fake.lock().unwrap();
        let expected = if settles { 100 } else { 500 };
        assert_eq!(fake.asked[0].1.as_millis(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_says_first_that_it_was_disrupted() {
    for (code, patches) in [(200, 1), (403, 1), (503, 2)] {
        let mut story = Story::of(
            notice(Way::Delete(1)),
            running(),
            Box::new(move |method, before, _| {
                if *method == Method::PATCH && before == 0 {
                    code
                } else {
                    200
                }
            }),
        );
        assert_eq!(story.outcome().await, DeliveryOutcome::Published, "{code}");
        assert_eq!(story.asked(&Method::DELETE).len(), 1, "{code}");
        let fake = story.fake.lock().unwrap();
        assert_eq!(fake.patches.len(), patches, "{code}");
        assert_eq!(fake.pod["status"]["phase"], "Running");
        let status = &fake.patches[0]["status"];
        assert_eq!(status["conditions"][0]["type"], "DisruptionTarget");
        assert_eq!(status.as_object().unwrap().len(), 1, "{status}");
        let first: Vec<_> = fake.asked.iter().map(|(method, _)| method).collect();
        assert_eq!(first[0], Method::PATCH, "{code}");
    }
}

/// Its only container has ended so.
fn ended(pod: &mut Value) {
    let terminated = json!({ "terminated": { "exitCode": 0 } });
    pod["status"]["containerStatuses"][0]["state"] = terminated;
}

#[tokio::test(start_paused = true)]
async fn an_emptied_reason_is_written_again_even_after_refusals() {
    let mut story = Story::of(
        notice(Way::Status),
        running(),
        Box::new(|method, before, pod| {
            match (method, before) {
                (&Method::PATCH, 0) => taken_over(pod),
                // Its roles are not loaded.
                (&Method::PATCH, 1..=5) => {
                    pod["status"]["reason"] = "".into();
                    return 403;
                }
                // Long after the kubelet has taken over the phase, its grace is over.
                (&Method::GET, 3) => {
                    ended(pod);
                    pod["status"]["reason"] = "".into();
                    pod["status"]["message"] = "".into();
                }
                _ => {}
            }
            200
        }),
    );
    assert_eq!(story.outcome().await, DeliveryOutcome::Published);
    sleep(Duration::from_mins(15)).await;
    let fake = story.fake.lock().unwrap();
    assert_eq!(fake.pod["status"]["reason"], "Evicted");
    assert_eq!(fake.patches.len(), 1 + 6);
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_an_earlier_run_has_published_is_written_again() {
    for (way, writes) in [(Way::Status, 1), (Way::Delete(1), 0)] {
        let mut pod = running();
        taken_over(&mut pod);
        ended(&mut pod);
        let settled = watch::channel(true).1;
        let (story, delivery_queue) = Story::before(pod, settled, Box::new(|_, _, _| 200));
        delivery_queue.watch_reason(notice(way));
        sleep(Duration::from_mins(15)).await;
        let fake = story.fake.lock().unwrap();
        assert_eq!(fake.patches.len(), writes, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_the_kubelet_empties_is_written_again_when_all_have_ended() {
    for (stubborn, tellings, looks) in [(false, 1, 5), (true, 3, 6)] {
        let mut story = Story::of(
            notice(Way::Status),
            running(),
            Box::new(move |method, before, pod| {
                let is_patch = *method == Method::PATCH;
                if is_patch && before == 0 {
                    taken_over(pod);
                }
                if is_patch && (before == 0 || stubborn) {
                    pod["status"]["reason"] = "".into();
                    pod["status"]["message"] = "".into();
                }
                if *method == Method::GET && before == 2 {
                    ended(pod);
                }
                200
            }),
        );
        assert_eq!(story.outcome().await, DeliveryOutcome::Published);
        sleep(Duration::from_mins(15)).await;
        let fake = story.fake.lock().unwrap();
        assert_eq!(fake.patches.len(), 1 + tellings, "stubborn: {stubborn}");
        for patch in &fake.patches[1..] {
            assert_eq!(patch["status"]["reason"], "Evicted");
            assert_eq!(
                patch["status"]["message"],
                "Container main was using 90Mi. "
            );
            assert_eq!(
                patch["metadata"],
                json!({ "uid": "u-1" }),
                "and nothing else"
            );
        }
        let gets = fake
            .asked
            .iter()
            .filter(|(method, _)| *method == Method::GET);
        assert_eq!(gets.count(), looks, "it ends");
    }
}
