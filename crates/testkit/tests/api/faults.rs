//! What goes wrong on command, and who may do what.

use super::{AT_MOST, client, client_with_token, code, pod, running};
use evictd_testkit::{ApiServer, Fault};
use futures_util::{StreamExt, TryStreamExt};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_fault_refuses_the_ordered_number_of_requests() {
    let api = ApiServer::start().unwrap();
    api.actor("test").create(pod("a", "one")).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client(&api));
    api.fault(
        Fault::answer(503)
            .retry_after(1)
            .on("patch", "pods/status")
            .times(2),
    );
    let patch = async || {
        let patch = Patch::Merge(json!({"status": {"phase": "Failed"}}));
        pods.patch_status("a", &PatchParams::default(), &patch)
            .await
    };
    assert_eq!(code(patch().await), (503, "ServiceUnavailable".to_owned()));
    pods.get("a").await.unwrap();
    assert_eq!(code(patch().await).0, 503);
    patch().await.unwrap();
    let statuses: Vec<u16> = api.log().iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [503, 200, 503, 200]);
    assert_eq!(api.log()[0].verb, "patch");
    assert_eq!(
        api.log()[0].path,
        "/api/v1/namespaces/default/pods/a/status?"
    );
}

#[tokio::test]
async fn answers_can_be_delayed_cut_or_replaced_by_garbage() {
    let api = ApiServer::start().unwrap();
    api.actor("test").create(pod("a", "one")).unwrap();
    let pods: Api<Pod> = Api::all(client(&api));
    let list = async || pods.list(&ListParams::default()).await;
    api.fault(
        Fault::delay(Duration::from_hours(1))
            .on("list", "pods")
            .times(1),
    );
    // Long enough that the request arrives on a busy machine: the fault is for this one.
    let patience = Duration::from_secs(1);
    assert!(tokio::time::timeout(patience, list()).await.is_err());
    for bytes in [0, 20] {
        api.fault(Fault::cut_after(bytes).times(1));
        assert!(!matches!(list().await, Ok(_) | Err(kube::Error::Api(_))));
    }
    api.fault(Fault::garbage().times(1));
    assert!(matches!(list().await, Err(kube::Error::SerdeError(_))));
    assert_eq!(list().await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_watch_is_cut_within_its_lines() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    for name in ["a", "b"] {
        admin.create(pod(name, "one")).unwrap();
    }
    let pods: Api<Pod> = Api::all(client(&api));
    api.fault(Fault::cut_after(1).on("watch", "pods").times(1));
    let mut events = pods
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    events.try_next().await.unwrap().unwrap();
    // kube takes it for an end.
    assert!(matches!(events.try_next().await, Ok(None) | Err(_)));
    admin
        .wait(AT_MOST, |_| (api.counters().watches == 0).then_some(()))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stopped_server_refuses_connections_until_it_is_started_again() {
    let api = ApiServer::start().unwrap();
    let nodes: Api<Node> = Api::all(client(&api));
    let list = async || nodes.list(&ListParams::default()).await;
    list().await.unwrap();
    let mut events = nodes
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    api.go_away();
    assert!(matches!(events.next().await, None | Some(Err(_))));
    assert!(list().await.is_err());
    api.come_back();
    list().await.unwrap();
}

#[tokio::test]
async fn tokens_expire_and_rules_are_enforced() {
    let api = ApiServer::start().unwrap();
    api.actor("test").create(pod("a", "one")).unwrap();
    api.require_tokens();
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    api.grant(
        "secret",
        "system:serviceaccount:kube-system:evictd",
        Some(rules),
    );
    let list = async |pods: Api<Pod>| pods.list(&ListParams::default()).await;
    assert_eq!(code(list(Api::all(client(&api))).await).0, 401);
    assert_eq!(
        code(list(Api::all(client_with_token(&api, "wrong"))).await).0,
        401
    );
    let pods: Api<Pod> = Api::all(client_with_token(&api, "secret"));
    list(pods.clone()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client_with_token(&api, "secret"));
    let patch = Patch::Merge(json!({}));
    let answer = pods
        .patch_status("a", &PatchParams::default(), &patch)
        .await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "pods \"a\" is forbidden: User \"system:serviceaccount:kube-system:evictd\" cannot patch resource \
         \"pods/status\" in API group \"\" in the namespace \"default\""
    );
    api.expire("secret");
    assert_eq!(code(list(pods).await), (401, "Unauthorized".to_owned()));
}

#[tokio::test]
async fn a_policy_denies_with_its_own_message() {
    let api = ApiServer::start().unwrap();
    api.actor("test").create(running("a")).unwrap();
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"],
    });
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{
            "expression": "object.status.phase == oldObject.status.phase",
            "message": "phases are the kubelet's",
        }],
    });
    let bound = json!({"policyName": "phases", "validationActions": ["Deny"]});
    for (kind, spec) in [
        ("ValidatingAdmissionPolicy", spec),
        ("ValidatingAdmissionPolicyBinding", bound),
    ] {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "phases"}, "spec": spec,
        });
        api.actor("test").create(object).unwrap();
    }
    let pods: Api<Pod> = Api::default_namespaced(client(&api));
    let patch = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let answer = pods
        .patch_status("a", &PatchParams::default(), &patch)
        .await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(status.code, 422);
    assert!(
        status
            .message
            .ends_with("denied request: phases are the kubelet's"),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn the_clock_of_the_server_can_be_set() {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.clock_skew = SignedDuration::from_hours(-48));
    let made = api.actor("test").create(pod("a", "one")).unwrap();
    let created: jiff::Timestamp = made["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(jiff::Timestamp::now().duration_since(created) > SignedDuration::from_hours(47));
}
