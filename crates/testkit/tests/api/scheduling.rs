//! What a scheduler needs of the server: bindings, leases, reviews of access and the selector of its pods.

use super::{client, code, pod};
use evictd_testkit::ApiServer;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn typed<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn unplaced(name: &str) -> Value {
    let mut pod = pod(name, "");
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod
}

fn binding(name: &str, uid: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "uid": uid, "annotations": {"by": "test"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "one"},
    })
}

/// What the server says to this binding, as text of the error.
async fn bind(api: &ApiServer, name: &str, binding: Value) -> Result<Value, String> {
    let pods: Api<Pod> = Api::default_namespaced(client(api));
    let answer = pods
        .create_subresource("binding", name, &PostParams::default(), &binding)
        .await;
    answer.map_err(|error| match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn a_binding_gives_a_pod_its_node_once() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let mut waiting = unplaced("a");
    waiting["status"] = json!({"nominatedNodeName": "one", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"},
    ]});
    let uid = admin.create(waiting).unwrap()["metadata"]["uid"].clone();
    let bound = bind(&api, "a", binding("a", uid.as_str())).await.unwrap();
    assert_eq!(bound["status"], "Success");
    let pod = admin.get("pods", "a").unwrap();
    assert_eq!(pod["spec"]["nodeName"], "one");
    assert_eq!(pod["metadata"]["annotations"]["by"], "test");
    assert_eq!(pod["status"]["nominatedNodeName"], Value::Null);
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(
        (condition["status"].as_str(), &condition["reason"]),
        (Some("True"), &Value::Null)
    );
    let again = bind(&api, "a", binding("a", None)).await.unwrap_err();
    assert_eq!(
        again,
        "409 Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"one\""
    );
}

#[tokio::test]
async fn a_binding_is_refused_with_the_servers_words() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let mut leaving = unplaced("leaving");
    leaving["metadata"]["finalizers"] = json!(["test/hold"]);
    let mut gated = unplaced("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "test/gate"}]);
    for pod in [leaving, gated, unplaced("free")] {
        admin.create(pod).unwrap();
    }
    admin.delete("pods", "leaving", Value::Null).unwrap();
    let mut nowhere = binding("free", None);
    nowhere["target"]["name"] = json!("");
    let uid = admin.get("pods", "free").unwrap()["metadata"]["uid"].clone();
    let table = [
        ("leaving", binding("leaving", None), "409 Operation cannot be fulfilled on pods/binding \"leaving\": pod leaving is being deleted, cannot be assigned to a host".to_owned()),
        ("gated", binding("gated", None), "409 Operation cannot be fulfilled on pods/binding \"gated\": pod gated has non-empty .spec.schedulingGates".to_owned()),
        ("gone", binding("gone", None), "404 pods \"gone\" not found".to_owned()),
        ("free", binding("other", None), "400 name in URL does not match name in Binding object".to_owned()),
        ("free", nowhere, "500 target.name: Required value".to_owned()),
        ("free", binding("free", Some("old")), format!("409 Operation cannot be fulfilled on pods \"free\": Precondition failed: UID in precondition: old, UID in object meta: {}", uid.as_str().unwrap())),
    ];
    for (name, binding, expected) in table {
        assert_eq!(bind(&api, name, binding).await, Err(expected));
    }
    assert_eq!(
        admin.get("pods", "free").unwrap()["spec"]["nodeName"],
        Value::Null
    );
}

#[tokio::test]
async fn a_binding_takes_the_pod_name_from_its_body_and_is_not_stored() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    admin.create(unplaced("a")).unwrap();
    let bindings: Api<Binding> = Api::default_namespaced(client(&api));
    let asked = client(&api);
    let request = hyper::Request::post("/api/v1/namespaces/default/bindings")
        .body(binding("a", None).to_string().into_bytes());
    asked.request::<Value>(request.unwrap()).await.unwrap();
    assert_eq!(admin.get("pods", "a").unwrap()["spec"]["nodeName"], "one");
    assert_eq!(code(bindings.list(&ListParams::default()).await).0, 405);
}

#[tokio::test]
async fn a_lease_update_needs_the_current_version() {
    let api = ApiServer::start().unwrap();
    let leases: Api<Lease> = Api::namespaced(client(&api), "kube-system");
    let held = |holder: &str, version: Option<&str>| -> Lease {
        typed(json!({
            "metadata": {"name": "kube-scheduler", "resourceVersion": version},
            "spec": {"holderIdentity": holder},
        }))
    };
    let by = PostParams::default();
    let first = leases.create(&by, &held("a", None)).await.unwrap();
    let version = first.metadata.resource_version.unwrap();
    let replace = async |lease: Lease| leases.replace("kube-scheduler", &by, &lease).await;
    replace(held("b", Some(&version))).await.unwrap();
    let late = replace(held("c", Some(&version))).await;
    assert_eq!(code(late), (409, "Conflict".to_owned()));
    let blind = replace(held("c", None)).await;
    assert_eq!(code(blind), (422, "Invalid".to_owned()));
    let second = leases.create(&by, &held("c", None)).await;
    assert_eq!(code(second), (409, "AlreadyExists".to_owned()));
}

#[tokio::test]
async fn tokens_and_access_are_reviewed() {
    let api = ApiServer::start().unwrap();
    let rules = json!([
        {"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]);
    let account = "system:serviceaccount:monitoring:scraper";
    api.grant("t", account, Some(rules));
    let tokens: Api<TokenReview> = Api::all(client(&api));
    let review = async |token: &str| {
        let review = typed(json!({"metadata": {}, "spec": {"token": token}}));
        let made = tokens.create(&PostParams::default(), &review).await;
        made.unwrap().status.unwrap()
    };
    let known = review("t").await;
    assert_eq!(known.authenticated, Some(true));
    let user = known.user.unwrap();
    assert_eq!(user.username.as_deref(), Some(account));
    assert!(
        user.groups
            .unwrap()
            .contains(&"system:serviceaccounts:monitoring".to_owned())
    );
    assert_ne!(review("other").await.authenticated, Some(true));

    let subjects: Api<SubjectAccessReview> = Api::all(client(&api));
    let may = async |user: &str, what: Value| {
        let mut spec = what;
        spec["user"] = user.into();
        let review = typed(json!({"metadata": {}, "spec": spec}));
        let made = subjects.create(&PostParams::default(), &review).await;
        made.unwrap().status.unwrap().allowed
    };
    let path =
        |path: &str, verb: &str| json!({"nonResourceAttributes": {"path": path, "verb": verb}});
    let list =
        |what: &str| json!({"resourceAttributes": {"resource": what, "group": "", "verb": "list"}});
    assert!(may(account, path("/metrics", "get")).await);
    assert!(may(account, path("/debug/x", "get")).await);
    assert!(!may(account, path("/metrics", "post")).await);
    assert!(!may("somebody", path("/metrics", "get")).await);
    assert!(may(account, list("pods")).await);
    assert!(!may(account, list("nodes")).await);
    api.expire("t");
    assert_ne!(review("t").await.authenticated, Some(true));
}

/// S5-001: pods that have ended are left out by the server already.
#[tokio::test]
async fn s5_001_pods_that_have_ended_are_not_listed() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    for (name, phase) in [
        ("a", "Pending"),
        ("b", "Succeeded"),
        ("c", "Failed"),
        ("d", "Running"),
    ] {
        let mut pod = unplaced(name);
        pod["status"] = json!({"phase": phase});
        admin.create(pod).unwrap();
    }
    let pods: Api<Pod> = Api::all(client(&api));
    let alive = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let list = pods.list(&alive).await.unwrap();
    let names: Vec<_> = list
        .into_iter()
        .map(|pod| pod.metadata.name.unwrap())
        .collect();
    assert_eq!(names, ["a", "d"]);
}

#[tokio::test]
async fn an_event_of_events_k8s_io_needs_all_its_fields() {
    let api = ApiServer::start().unwrap();
    let events: Api<Event> = Api::default_namespaced(client(&api));
    let event = json!({
        "metadata": {"name": "a.1", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal", "reason": "Scheduled", "action": "Binding", "note": "it",
        "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-here",
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
    });
    let by = PostParams::default();
    events.create(&by, &typed(event.clone())).await.unwrap();
    for (field, value) in [
        ("action", json!("")),
        ("type", json!("Bad")),
        ("note", json!("x".repeat(1025))),
    ] {
        let mut wrong = event.clone();
        wrong["metadata"]["name"] = json!("a.2");
        wrong[field] = value;
        let refused = events.create(&by, &typed(wrong)).await;
        assert_eq!(code(refused), (422, "Invalid".to_owned()), "{field}");
    }
}
