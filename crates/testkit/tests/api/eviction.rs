//! `pods/eviction` answers as a real server was seen to.

use super::{client, running};
use evictd_testkit::{Actor, ApiServer};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

fn budget(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

fn looked_at(admin: &Actor, name: &str, allowed: u32) {
    let status = json!({"status": {
        "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        "disruptionsAllowed": allowed,
    }});
    admin
        .merge("poddisruptionbudgets/status", name, status)
        .unwrap();
}

/// kube's own `evict` names the options wrongly, so that a server ignores them.
async fn evict(pods: &Api<Pod>, name: &str, options: Value) -> kube::Result<Value> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options,
    });
    pods.create_subresource("eviction", name, &PostParams::default(), &eviction)
        .await
}

async fn refused(pods: &Api<Pod>, name: &str) -> Box<kube::core::Status> {
    let answer = evict(pods, name, Value::Null).await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}")
    };
    status
}

#[tokio::test]
async fn a_disruption_budget_blocks_until_it_is_processed_and_then_allows_one_eviction() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    admin.create(running("a")).unwrap();
    admin.create(budget("q3", "a")).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client(&api));

    let unseen = refused(&pods, "a").await;
    let details = unseen.details.clone().unwrap();
    assert_eq!(
        (unseen.code, unseen.reason.as_str()),
        (429, "TooManyRequests")
    );
    assert_eq!(
        unseen.message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(details.causes[0].reason, "DisruptionBudget");
    assert_eq!(
        details.causes[0].message,
        "The disruption budget q3 is still being processed by the server."
    );
    assert_eq!(details.retry_after_seconds, 10);

    looked_at(&admin, "q3", 0);
    let details = refused(&pods, "a").await.details.clone().unwrap();
    assert_eq!(
        details.causes[0].message,
        "The disruption budget q3 needs 1 healthy pods and has 1 currently"
    );
    assert_eq!(details.retry_after_seconds, 0);

    looked_at(&admin, "q3", 1);
    let done = evict(&pods, "a", json!({"gracePeriodSeconds": 1}))
        .await
        .unwrap();
    assert_eq!(
        (&done["status"], &done["code"]),
        (&json!("Success"), &json!(201))
    );
    let pod = admin.get("pods", "a").unwrap();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 1);
    let condition = pod["status"]["conditions"][1].clone();
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
    let budget = admin.get("poddisruptionbudgets", "q3").unwrap();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
}

#[tokio::test]
async fn two_disruption_budgets_are_an_error_and_an_ended_pod_needs_none() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    admin.create(running("a")).unwrap();
    for name in ["x", "y"] {
        admin.create(budget(name, "a")).unwrap();
    }
    let pods: Api<Pod> = Api::default_namespaced(client(&api));
    let two = refused(&pods, "a").await;
    assert_eq!(two.code, 500);
    assert_eq!(
        two.message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    assert_eq!(refused(&pods, "none").await.code, 404);
    let another = json!({"preconditions": {"uid": "another"}});
    assert_eq!(super::code(evict(&pods, "a", another).await).0, 409);
    admin
        .merge("pods/status", "a", json!({"status": {"phase": "Failed"}}))
        .unwrap();
    evict(&pods, "a", Value::Null).await.unwrap();
    assert_eq!(admin.get("pods", "a"), None);
}
