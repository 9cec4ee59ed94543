//! A kubelet that does not see its pods for a minute after its API server was started again.

use super::bench::Bench;
use crate::{
    agent::Cluster,
    config::{EvictMethod, SoftTierFallback, Tell},
    delivery::DeliveryQueue,
};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
};
use evictd_cluster_client::Actions;
use http::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The pressure is over as soon as nobody takes too much.
const SHORT: &str = "evictionHard: {memory.available: 100Mi}\nevictionPressureTransitionPeriod: 5s";

type Shared = Arc<Mutex<Value>>;

async fn answer(State(pod): State<Shared>, request: Request) -> Body {
    let method = request.method().clone();
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let mut pod = pod.lock().unwrap();
    if method == Method::PATCH {
        let patch: Value = serde_json::from_slice(&body).unwrap();
        if let Some(annotations) = patch["metadata"].get("annotations") {
            pod["metadata"]["annotations"] = annotations.clone();
        }
        for (field, value) in patch["status"].as_object().unwrap() {
            pod["status"][field] = value.clone();
        }
    }
    Body::from(pod.to_string())
}

fn ready(status: &str, reason: &str) -> Value {
    json!([{ "type": "Ready", "status": status, "reason": reason }])
}

/// `shop/hog`, of which its kubelet has written that it runs, and evictd's way to it.
fn cluster() -> (Shared, Cluster) {
    let container = json!({
        "name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "hog", "namespace": "shop", "uid": "hog" },
        "status": {
            "phase": "Running", "conditions": ready("True", ""), "containerStatuses": [container],
        },
    });
    let pod = Arc::new(Mutex::new(pod));
    let server = Router::new().fallback(answer).with_state(Arc::clone(&pod));
    let actions = Actions::new(kube::Client::new(server, "default"));
    let (delivery_queue, publications) =
        DeliveryQueue::new(actions.clone(), watch::channel(true).1);
    let cluster = Cluster {
        delivery_queue,
        method: EvictMethod::Auto,
        tell: Tell::Together,
        fallback: SoftTierFallback::Wait,
        actions,
        blocked: None,
        publications,
        reports: Arc::default(),
    };
    (pod, cluster)
}

/// Lets so many seconds pass in which the kubelet starts the hog again whenever it has ended, and says that it runs.
/// Returns how often.
async fn starts_again(bench: &mut Bench, pod: &Shared, seconds: u32, mebibytes: u64) -> u32 {
    let mut starts = 0;
    for _ in 0..seconds {
        bench.pass(1.0).await;
        if !bench.lives("hog") {
            bench.pod("hog", mebibytes);
            pod.lock().unwrap()["status"]["phase"] = "Running".into();
            starts += 1;
        }
    }
    starts
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_owed_until_a_kubelet_that_was_deaf_for_a_minute_has_seen_it() {
    let (pod, cluster) = cluster();
    let mut bench = Bench::new();
    bench.cluster = Some(cluster);
    bench.pod("hog", 950);
    bench.start(SHORT);
    let phase = || pod.lock().unwrap()["status"]["phase"].clone();
    assert_eq!(starts_again(&mut bench, &pod, 5, 950).await, 5);
    // It harms nothing from now on, and is ended until the pressure is over.
    let starts = starts_again(&mut bench, &pod, 55, 10).await;
    assert!((1..=7).contains(&starts), "{starts}");
    assert!(bench.lives("hog") && bench.told().contains(&"cleared".to_owned()));
    bench.pass(6.0).await;
    assert_eq!(phase(), "Failed", "it is told again");
    assert_eq!(bench.status()["leaving"][0]["pod"], "shop/hog", "and owed");
    // It writes its view once more, and then it sees its pods.
    pod.lock().unwrap()["status"]["phase"] = "Running".into();
    bench.pass(40.0).await;
    assert_eq!(phase(), "Failed");
    pod.lock().unwrap()["status"]["conditions"] = ready("False", "PodFailed");
    bench.leave("hog");
    bench.pass(40.0).await;
    assert_eq!(bench.status()["leaving"], json!([]));
    let told = bench.told();
    let evicted = told.iter().filter(|told| *told == "evicts shop/hog");
    assert_eq!(evicted.count(), 1, "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_whose_kubelet_stays_deaf_is_given_up_after_ten_minutes() {
    let (pod, cluster) = cluster();
    let mut bench = Bench::new();
    bench.cluster = Some(cluster);
    bench.pod("hog", 950);
    bench.start(SHORT);
    starts_again(&mut bench, &pod, 20, 10).await;
    let leaves = |bench: &Bench| bench.status()["leaving"] != json!([]);
    for _ in 0..19 {
        bench.pass(30.0).await;
        pod.lock().unwrap()["status"]["phase"] = "Running".into();
        assert!(leaves(&bench), "{:#?}", bench.log());
    }
    bench.pass(60.0).await;
    assert!(!leaves(&bench) && bench.lives("hog"));
}
