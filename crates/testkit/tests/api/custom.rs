//! Custom resources: objects that the server knows only by their definition.

use super::{client, code};
use evictd_testkit::ApiServer;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn the_status_of_a_job_is_written_by_its_own_path_only() {
    let api = ApiServer::start().unwrap();
    let kind = resource("batch.volcano.sh", "v1alpha1", "Job");
    let jobs: Api<DynamicObject> = Api::namespaced_with(client(&api), "default", &kind);
    let job = object(json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"minAvailable": 1}, "status": {"state": {"phase": "Running"}},
    }));
    let made = jobs.create(&PostParams::default(), &job).await.unwrap();
    assert_eq!(made.data["status"], Value::Null);
    let patch = json!({"spec": {"minAvailable": 2}, "status": {"state": {"phase": "Pending"}}});
    let parameters = PatchParams::default();
    let patched = jobs
        .patch_status("a", &parameters, &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(patched.data["spec"]["minAvailable"], 1);
    assert_eq!(patched.data["status"]["state"]["phase"], "Pending");
    let strategic = Patch::Strategic(&patch);
    let refused = jobs.patch("a", &parameters, &strategic).await;
    assert_eq!(code(refused).0, 415);
}

#[tokio::test]
async fn groups_of_pods_of_two_api_groups_are_not_the_same_objects() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let volcano = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "a"},
        "spec": {"minMember": 1}, "status": {"phase": "Inqueue"},
    });
    admin.create(volcano).unwrap();
    assert_eq!(admin.get("podgroups", "a"), None);
    let kind = resource("scheduling.volcano.sh", "v1beta1", "PodGroup");
    let groups: Api<DynamicObject> = Api::namespaced_with(client(&api), "default", &kind);
    assert_eq!(
        groups.get("a").await.unwrap().data["status"]["phase"],
        "Inqueue"
    );
    // Volcano's definition has no path for their status: it is written with the rest.
    let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let parameters = PatchParams::default();
    let refused = groups.patch_status("a", &parameters, &patch).await;
    assert_eq!(code(refused).0, 404);
    groups.patch("a", &parameters, &patch).await.unwrap();
    let stored = admin.get("podgroups.scheduling.volcano.sh", "a").unwrap();
    assert_eq!(stored["status"]["phase"], "Running");
    assert_eq!(admin.list("podgroups.scheduling.volcano.sh").len(), 1);
}
