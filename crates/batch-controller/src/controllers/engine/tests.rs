use super::*;
use evictd_cluster_client::Actions;
use evictd_cluster_client::events::Recorders;
use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use std::convert::Infallible;
use tower::service_fn;

fn engine() -> Engine {
    let server = service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
    });
    let actions = Actions::new(kube::Client::new(server, "default"));
    let ports = Ports {
        events: Events::new(&actions, "host", &Recorders::default()),
        calls: Calls::new(actions),
        metrics: Metrics::new().0,
        synced: watch::channel(false).0,
        workflows: evictd_cluster_client::news().0,
    };
    let (mut engine, _) = Engine::new(Compat::EVICTD, None, ports);
    for _ in 0..KINDS {
        engine.on_watch_event(WatchEvent::Listed);
    }
    engine
}

fn pod(index: usize) -> WatchEvent {
    let pod: TaskPod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("train-{index}"), "namespace": "ml", "uid": format!("u{index}"),
            "annotations": {
                "volcano.sh/job-name": "train", "volcano.sh/job-version": "1", "volcano.sh/task-spec": "w",
            },
            "ownerReferences": [{
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u",
                "controller": true,
            }],
        },
    }))
    .unwrap();
    WatchEvent::Pod(Delta {
        old: None,
        new: Some(Arc::new(pod)),
    })
}

#[tokio::test]
async fn changes_of_pods_that_have_come_already_share_a_round_up_to_a_bound() {
    let mut engine = engine();
    let mut taken = 1;
    engine.on_watch_events(pod(0), || {
        taken += 1;
        Some(pod(taken - 1))
    });
    assert_eq!(taken, MOST_TOGETHER);
    let known = |engine: &Engine| engine.jobs["ml/train"].info().pods()["w"].len();
    assert_eq!(known(&engine), MOST_TOGETHER);
    assert!(engine.changed.is_empty());
    // Another event has its turn at once.
    let mut after = vec![pod(taken + 1), WatchEvent::Listed, pod(taken)];
    engine.on_watch_events(pod(0), || after.pop());
    assert_eq!(after.len(), 1);
    assert_eq!(known(&engine), MOST_TOGETHER + 1);
}
