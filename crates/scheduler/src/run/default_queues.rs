//! Creates the root queue and the default queue, which every cluster needs (S6-141).

use evictd_cluster_client::{Actions, ApiError, Backoff, CALL_TIMEOUT, chance};
use hyper::{Method, Request};
use serde_json::{Value, json};
use std::time::Duration;
use tracing::{debug, info};

const QUEUES: &str = "/apis/scheduling.volcano.sh/v1beta1/queues";

/// Creates the missing ones, and leaves existing ones unchanged.
pub(super) async fn ensure(actions: Actions, default_queue: String) {
    let root = json!({ "weight": 1, "reclaimable": false });
    let of_jobs = json!({ "weight": 1, "reclaimable": true, "parent": "root" });
    for (name, spec) in [("root", root), (&*default_queue, of_jobs)] {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
        while let Err(error) = create(&actions, name, &spec).await {
            // Another process was faster.
            if error.status().is_some_and(|status| status.code == 409) {
                break;
            }
            debug!("queue {name}: {error}");
            tokio::time::sleep(backoff.next(chance())).await;
        }
    }
}

async fn create(actions: &Actions, name: &str, spec: &Value) -> Result<(), ApiError> {
    let queue = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": name }, "spec": spec,
    });
    let request = Request::builder()
        .method(Method::POST)
        .uri(QUEUES)
        .header(hyper::header::CONTENT_TYPE, "application/json")
        .body(queue.to_string().into_bytes());
    let what = format!("creating queue {name}");
    let _: Value = actions.request(&what, CALL_TIMEOUT, request).await?;
    info!("created queue {name}");
    Ok(())
}
