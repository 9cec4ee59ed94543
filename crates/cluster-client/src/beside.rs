//! Whether another program is at work in the cluster.

use crate::{Actions, ApiError, CALL_TIMEOUT};
use serde_json::Value;
use tracing::warn;

/// The `namespace/name` of a pod of this program by its label (`app=volcano-scheduler`), if one has a node and is neither over
/// nor being deleted. A program that takes no lease can be found by its pods alone. Where the server does not say it is taken
/// for absent, which is logged.
pub async fn pod_at_work(actions: &Actions, program: &str, label: &str) -> Option<String> {
    let found = find(actions, label).await;
    found.unwrap_or_else(|error| {
        warn!("whether {program} is at work is not known: {error}");
        None
    })
}

async fn find(actions: &Actions, label: &str) -> Result<Option<String>, ApiError> {
    let selector = label.replace('=', "%3D");
    let path = format!("/api/v1/pods?labelSelector={selector}");
    let what = format!("looking for pods labelled {label}");
    let request = http::Request::get(path).body(Vec::new());
    let found: Value = actions.request(&what, CALL_TIMEOUT, request).await?;
    let mut pods = found["items"].as_array().into_iter().flatten();
    let at_work = pods.find(|pod| {
        let ended = matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
        pod["spec"]["nodeName"].is_string()
            && !ended
            && pod["metadata"]["deletionTimestamp"].is_null()
    });
    Ok(at_work.map(|pod| {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
        format!("{}/{}", text("namespace"), text("name"))
    }))
}
