//! Server-side apply: who owns what, and who is refused.

use super::client;
use evictd_testkit::{Actor, ApiServer};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

fn node(conditions: &[(&str, &str)]) -> Value {
    let conditions = conditions
        .iter()
        .map(|(kind, status)| json!({"type": kind, "status": status}));
    let conditions: Vec<Value> = conditions.collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}, "status": {"conditions": conditions},
    })
}

fn conditions(admin: &Actor) -> Vec<(String, String)> {
    let node = admin.get("nodes", "one").unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = node["status"]["conditions"].as_array().unwrap().iter();
    all.map(|one| (text(&one["type"]), text(&one["status"])))
        .collect()
}

fn held(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(kind, status)| ((*kind).to_owned(), (*status).to_owned()))
        .collect()
}

#[tokio::test]
async fn each_condition_has_its_own_field_manager() {
    let api = ApiServer::start().unwrap();
    let kubelet = api.actor("kubelet");
    kubelet.create(node(&[])).unwrap();
    let own = node(&[("Ready", "True"), ("MemoryPressure", "False")]);
    kubelet.strategic("nodes/status", "one", own).unwrap();
    let nodes: Api<Node> = Api::all(client(&api));
    let apply = async |conditions: &[(&str, &str)], parameters: PatchParams| {
        nodes
            .patch_status("one", &parameters, &Patch::Apply(node(conditions)))
            .await
    };
    let mine = || PatchParams::apply("evictd");

    apply(&[("EvictdMemoryPressure", "True")], mine())
        .await
        .unwrap();
    let all = [
        ("Ready", "True"),
        ("MemoryPressure", "False"),
        ("EvictdMemoryPressure", "True"),
    ];
    assert_eq!(conditions(&kubelet), held(&all));
    let version =
        |admin: &Actor| admin.get("nodes", "one").unwrap()["metadata"]["resourceVersion"].clone();
    let before = version(&kubelet);
    // What changes nothing is not even noted as of a later time.
    api.set(|settings| settings.clock_skew = jiff::SignedDuration::from_secs(5));
    apply(&[("EvictdMemoryPressure", "True")], mine())
        .await
        .unwrap();
    assert_eq!(version(&kubelet), before);

    let answer = apply(&[("MemoryPressure", "True")], mine()).await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"kubelet\" with subresource \"status\" using v1: \
         .status.conditions[type=\"MemoryPressure\"].status"
    );
    // What it applied before and does not any more is taken away.
    apply(&[("MemoryPressure", "True")], mine().force())
        .await
        .unwrap();
    assert_eq!(
        conditions(&kubelet),
        held(&[("Ready", "True"), ("MemoryPressure", "True")])
    );
    let mine = kubelet.get("nodes", "one").unwrap()["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["manager"] == "evictd")
        .unwrap()
        .clone();
    assert_eq!(
        (&mine["operation"], &mine["subresource"]),
        (&json!("Apply"), &json!("status"))
    );
    let element =
        json!({"k:{\"type\":\"MemoryPressure\"}": {".": {}, "f:type": {}, "f:status": {}}});
    assert_eq!(
        mine["fieldsV1"],
        json!({"f:status": {"f:conditions": element}})
    );

    // And who writes over it owns it again.
    kubelet
        .strategic(
            "nodes/status",
            "one",
            json!({"status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]}}),
        )
        .unwrap();
    let answer = apply(&[("MemoryPressure", "True")], PatchParams::apply("evictd")).await;
    assert_eq!(super::code(answer).0, 409);
}

#[tokio::test]
async fn applying_a_missing_object_creates_it() {
    let api = ApiServer::start().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&api));
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let parameters = PatchParams::apply("evictd");
    maps.patch(
        "a",
        &parameters,
        &Patch::Apply(map(json!({"x": "1", "y": "2"}))),
    )
    .await
    .unwrap();
    let nobody = PatchParams::default();
    let answer = maps
        .patch("a", &nobody, &Patch::Apply(map(json!({}))))
        .await;
    assert_eq!(super::code(answer), (422, "Invalid".to_owned()));
    let made = maps
        .patch("a", &parameters, &Patch::Apply(map(json!({"x": "1"}))))
        .await
        .unwrap();
    assert_eq!(made.data.unwrap().into_keys().collect::<Vec<_>>(), ["x"]);
}
