//! Removes the annotations that evictd has written on evicted pods.

use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT, FIELD_MANAGER};
use evictd_decision::record::ANNOTATION;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::json;

const PAGE: u32 = 200;

/// Removes the annotation from every pod of this node and returns a list of them. Annotations that others write for
/// evictd to read are left alone.
pub async fn clean_pods(actions: &Actions, node: &str) -> Result<Vec<String>, ApiError> {
    let all: Api<PartialObjectMeta<Pod>> = Api::all(actions.client());
    let mut page = ListParams::default()
        .fields(&format!("spec.nodeName={node}"))
        .limit(PAGE);
    let what = format!("listing the pods of node {node}");
    let mut removed = Vec::new();
    loop {
        let list = actions.call(&what, CALL_TIMEOUT, all.list(&page)).await?;
        for pod in list.items {
            removed.extend(clean_pod(actions, pod).await?);
        }
        match list.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => return Ok(removed),
        }
    }
}

/// Through the status subresource, as it was written, which needs no further right. The UID is a precondition.
async fn clean_pod(
    actions: &Actions,
    pod: PartialObjectMeta<Pod>,
) -> Result<Option<String>, ApiError> {
    let pod = pod.metadata;
    let is_ours =
        |annotations: &std::collections::BTreeMap<_, _>| annotations.contains_key(ANNOTATION);
    if !pod.annotations.as_ref().is_some_and(is_ours) {
        return Ok(None);
    }
    let (namespace, name) = (
        pod.namespace.unwrap_or_default(),
        pod.name.unwrap_or_default(),
    );
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(actions.client(), &namespace);
    let by = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({
        "metadata": { "uid": pod.uid, "annotations": { ANNOTATION: null } },
    }));
    let what = format!("removing the record of pod {namespace}/{name}");
    let call = pods.patch_status(&name, &by, &patch);
    match actions.call(&what, CALL_TIMEOUT, call).await {
        Ok(_) => Ok(Some(format!(
            "annotation {ANNOTATION} of pod {namespace}/{name}"
        ))),
        // The pod is deleted, or another pod has its name.
        Err(error) if matches!(error.status().map(|status| status.code), Some(404 | 409)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
