//! Each way over the boundary that an agent's token could try, under the rights and the policies as they are packaged.

use crate::packaged::{ACCOUNT, policies, rules};
use evictd_testkit::{Actor, ApiServer};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Two nodes with a pod each, and agents that come with tokens.
struct Fenced {
    api: ApiServer,
    admin: Actor,
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": {"zone": "a"}, "annotations": {"theirs": "x", "evictd.dev/ours": "x"},
            "finalizers": ["example.com/theirs"],
        },
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": {"cpu": "4"},
            "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "False"},
                {"type": "EvictdPIDPressure", "status": "False"},
            ],
        },
    })
}

fn pod(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("on-{node}"), "labels": {"app": "x"}, "annotations": {"theirs": "x"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1"}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn event(node: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-11-20T22:10:00.000000Z", "type": "Normal", "reason": "r", "action": "a", "note": "n",
        "reportingController": "evictd", "reportingInstance": node,
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
    })
}

fn merged(mut object: Value, path: &str, value: Value) -> Value {
    *object.pointer_mut(path).unwrap() = value;
    object
}

impl Fenced {
    fn new() -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        for name in ["here", "there"] {
            for object in [node(name), pod(name)] {
                admin.create(object).unwrap();
            }
        }
        for policy in policies() {
            admin.create(policy).unwrap();
        }
        api.require_tokens();
        let packaged = ["base/rights.yaml", "components/eviction-api/rights.yaml"];
        let packaged = Value::from(rules(&packaged));
        api.grant_on("here", "bound", ACCOUNT, Some(packaged.clone()));
        api.grant("unbound", ACCOUNT, Some(packaged));
        // Whoever may do everything, so that it is the policies alone that refuse.
        api.grant_on("here", "almighty", ACCOUNT, None);
        api.grant_on("here", "stranger", "system:node:here", None);
        Self { api, admin }
    }

    /// Code and message of the answer to a request with this token.
    async fn ask(&self, token: &str, request: &Asked) -> (u16, String) {
        let mut kubeconfig: Value = serde_json::from_str(&self.api.kubeconfig()).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": token});
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let (method, path, kind, body) = request;
        let request = http::Request::builder()
            .method(*method)
            .uri(*path)
            .header("content-type", *kind)
            .body(body.to_string().into_bytes())
            .unwrap();
        match client.request_text(request).await {
            Ok(_) => (200, String::new()),
            Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
            Err(other) => panic!("{path}: {other}"),
        }
    }

    async fn passes(&self, token: &str, request: Asked) {
        let answer = self.ask(token, &request).await;
        assert_eq!(answer.0, 200, "{request:?}: {}", answer.1);
    }

    /// A policy refuses it, in these words, and nothing is changed.
    async fn is_refused(&self, token: &str, words: &str, request: Asked) {
        let all = || ["nodes", "pods", "events"].map(|kind| self.admin.list(kind));
        let before = all();
        let (code, message) = self.ask(token, &request).await;
        assert_eq!(code, 403, "{request:?}: {message}");
        assert!(
            message.contains("ValidatingAdmissionPolicy 'evictd-"),
            "{message}"
        );
        assert!(message.contains(words), "{request:?}: {message}");
        assert_eq!(all(), before, "{request:?}");
    }
}

/// Method, path, content type, body.
type Asked = (&'static str, &'static str, &'static str, Value);

const HERE: &str = "/api/v1/nodes/here";
const HERE_STATUS: &str = "/api/v1/nodes/here/status?fieldManager=evictd&force=true";
const POD: &str = "/api/v1/namespaces/default/pods/on-here";
const POD_STATUS: &str = "/api/v1/namespaces/default/pods/on-here/status";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn patch(path: &'static str, body: Value) -> Asked {
    ("PATCH", path, STRATEGIC, body)
}

fn merge(path: &'static str, body: Value) -> Asked {
    ("PATCH", path, MERGE, body)
}

fn conditions(conditions: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}, "status": {"conditions": conditions}})
}

fn taints(more: &Value) -> Value {
    let theirs = json!({"key": "team", "value": "x", "effect": "NoSchedule"});
    json!({"spec": {"taints": [theirs, more]}})
}

fn failed() -> Value {
    json!({
        "metadata": {"annotations": {"evictd.dev/evicted": "{}"}},
        "status": {
            "phase": "Failed", "reason": "Evicted", "message": "low on memory",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
        },
    })
}

#[tokio::test]
async fn what_evictd_does_on_its_own_node_passes() {
    let fenced = Fenced::new();
    let raised = json!([{"type": "EvictdMemoryPressure", "status": "True"}]);
    let ours = json!({"key": "evictd.dev/memory-pressure", "effect": "NoSchedule"});
    let gone = json!([{"type": "EvictdMemoryPressure", "$patch": "delete"}]);
    let mut series = event("here");
    series["metadata"]["name"] = "other".into();
    for request in [
        ("PATCH", HERE_STATUS, APPLY, conditions(&raised)),
        merge(HERE, taints(&ours)),
        merge(
            HERE,
            json!({"metadata": {"annotations": {"evictd.dev/ours": null}}}),
        ),
        merge(
            HERE,
            json!({"spec": {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}}),
        ),
        patch("/api/v1/nodes/here/status", conditions(&gone)),
        ("POST", EVENTS, "application/json", event("here")),
        merge(
            "/apis/events.k8s.io/v1/namespaces/default/events/e",
            json!({"series": {"count": 2, "lastObservedTime": "2026-11-20T22:10:00.000000Z"}}),
        ),
        patch(POD_STATUS, failed()),
        ("DELETE", POD, "application/json", json!({})),
    ] {
        fenced.passes("bound", request).await;
    }
}

#[tokio::test]
async fn a_nodes_metadata_is_written_in_nothing_but_our_annotations() {
    let fenced = Fenced::new();
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "there", "uid": "1"}]);
    for (words, metadata) in [
        ("labels", json!({"labels": {"zone": "b"}})),
        ("labels", json!({"labels": {"more": "b"}})),
        ("labels", json!({"labels": null})),
        ("finalizers", json!({"finalizers": []})),
        ("owners", json!({"ownerReferences": owner})),
        ("annotations", json!({"annotations": {"theirs": "y"}})),
        ("annotations", json!({"annotations": {"theirs": null}})),
        ("annotations", json!({"annotations": {"new": "y"}})),
    ] {
        let body = json!({"metadata": metadata});
        // Labels and annotations can be written along with the status.
        for path in [HERE, HERE_STATUS] {
            let request = merge(path, body.clone());
            fenced.is_refused("bound", words, request).await;
        }
    }
}

#[tokio::test]
async fn a_nodes_spec_is_written_in_nothing_but_our_taints() {
    let fenced = Fenced::new();
    let foreign = json!({"key": "evictd.dev/other", "effect": "NoSchedule"});
    let builtin = json!({"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"});
    let noexecute = json!({"key": "evictd.dev/pid-pressure", "effect": "NoExecute"});
    let changed = json!([{"key": "team", "value": "x", "effect": "NoExecute"}]);
    let own = "its own taints";
    for (words, body) in [
        ("spec", json!({"spec": {"unschedulable": true}})),
        ("spec", json!({"spec": {"podCIDR": null}})),
        (own, json!({"spec": {"taints": []}})),
        (own, json!({"spec": {"taints": changed}})),
        (own, taints(&foreign)),
        (own, taints(&builtin)),
        ("NoSchedule", taints(&noexecute)),
    ] {
        fenced.is_refused("bound", words, merge(HERE, body)).await;
    }
}

#[tokio::test]
async fn a_nodes_status_is_written_in_nothing_but_our_conditions() {
    let fenced = Fenced::new();
    let own = "its own conditions";
    for (words, body) in [
        ("status", json!({"status": {"capacity": {"cpu": "1"}}})),
        ("status", json!({"status": {"phase": "Terminated"}})),
        (
            own,
            conditions(&json!([{"type": "Ready", "status": "False"}])),
        ),
        (
            own,
            conditions(&json!([{"type": "Theirs", "status": "True"}])),
        ),
        (
            own,
            conditions(&json!([{"type": "MemoryPressure", "$patch": "delete"}])),
        ),
    ] {
        let request = patch(HERE_STATUS, body);
        fenced.is_refused("bound", words, request).await;
    }
    let standard = conditions(&json!([{"type": "MemoryPressure", "status": "True"}]));
    let apply = ("PATCH", HERE_STATUS, APPLY, standard);
    fenced.is_refused("bound", own, apply).await;
}

#[tokio::test]
async fn other_nodes_are_not_written_and_none_is_made_or_deleted() {
    let fenced = Fenced::new();
    let raised = json!([{"type": "EvictdPIDPressure", "status": "True"}]);
    let ours = json!({"key": "evictd.dev/pid-pressure", "effect": "NoSchedule"});
    for request in [
        merge("/api/v1/nodes/there", taints(&ours)),
        patch(
            "/api/v1/nodes/there/status",
            json!({"status": {"conditions": raised}}),
        ),
    ] {
        fenced
            .is_refused("bound", "which is \"here\"", request)
            .await;
    }
    // Even where a role is given that allows more.
    let made = merged(node("new"), "/metadata/name", "new".into());
    for request in [
        ("POST", "/api/v1/nodes", "application/json", made),
        ("DELETE", HERE, "application/json", json!({})),
    ] {
        let words = "makes and deletes no Nodes";
        fenced.is_refused("almighty", words, request).await;
    }
}

#[tokio::test]
async fn a_pod_is_written_in_nothing_but_its_end() {
    let fenced = Fenced::new();
    let there = "/api/v1/namespaces/default/pods/on-there";
    let there_status = "/api/v1/namespaces/default/pods/on-there/status";
    let status = |field: &str, value: Value| merge(POD_STATUS, json!({"status": {field: value}}));
    let metadata =
        |field: &str, value: Value| merge(POD_STATUS, json!({"metadata": {field: value}}));
    for (words, request) in [
        ("labels", metadata("labels", json!({"app": "y"}))),
        (
            "finalizers",
            metadata("finalizers", json!(["example.com/stay"])),
        ),
        (
            "annotation",
            metadata("annotations", json!({"theirs": "y"})),
        ),
        (
            "annotation",
            metadata("annotations", json!({"evictd.dev/eviction": "never"})),
        ),
        (
            "annotation",
            metadata("annotations", json!({"evictd.dev/cgroup": "/other"})),
        ),
        ("status", status("podIP", json!("10.0.0.8"))),
        (
            "status",
            status(
                "containerStatuses",
                json!([{"name": "main", "ready": true}]),
            ),
        ),
        ("phase", status("phase", json!("Succeeded"))),
        (
            "DisruptionTarget",
            patch(
                POD_STATUS,
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            ),
        ),
        ("DisruptionTarget", status("conditions", json!([]))),
        ("which is \"here\"", patch(there_status, failed())),
        (
            "which is \"here\"",
            ("DELETE", there, "application/json", json!({})),
        ),
    ] {
        fenced.is_refused("bound", words, request).await;
    }
    let nothing_else = "deletes pods, nothing else";
    let made = merged(pod("here"), "/metadata/name", "new".into());
    for request in [
        merge(POD, json!({"metadata": {"ownerReferences": []}})),
        merge(POD, json!({"spec": {"activeDeadlineSeconds": 1}})),
        (
            "POST",
            "/api/v1/namespaces/default/pods",
            "application/json",
            made,
        ),
    ] {
        fenced.is_refused("almighty", nothing_else, request).await;
    }
}

#[tokio::test]
async fn events_are_reported_in_ones_own_name() {
    let fenced = Fenced::new();
    let post = |event| ("POST", EVENTS, "application/json", event);
    let own = "in its own name and for the node";
    let other = merged(event("here"), "/reportingController", "kubelet".into());
    let elsewhere = merged(event("here"), "/reportingInstance", "there".into());
    let about = merged(event("here"), "/regarding/name", "there".into());
    let secret = merged(event("here"), "/regarding/kind", "Secret".into());
    for (words, event) in [
        (own, other),
        (own, elsewhere),
        ("its own Node", about),
        ("on pods", secret),
    ] {
        fenced.is_refused("bound", words, post(event)).await;
    }
    let theirs = merged(event("here"), "/reportingController", "kubelet".into());
    fenced.passes("stranger", post(theirs)).await;
    let taken = merge(
        "/apis/events.k8s.io/v1/namespaces/default/events/e",
        json!({"reportingController": "evictd", "note": "forged"}),
    );
    fenced.is_refused("bound", own, taken).await;
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    let gone = ("DELETE", path, "application/json", json!({}));
    let words = "evictd deletes no events";
    fenced.is_refused("almighty", words, gone).await;
}

#[tokio::test]
async fn a_token_that_names_no_node_writes_nothing() {
    let fenced = Fenced::new();
    let ours = json!({"key": "evictd.dev/memory-pressure", "effect": "NoSchedule"});
    let words = "which is \"\"";
    for request in [
        merge(HERE, taints(&ours)),
        patch(POD_STATUS, failed()),
        ("DELETE", POD, "application/json", json!({})),
        // One that names no instance is refused before, as incomplete.
        ("POST", EVENTS, "application/json", event("here")),
        ("POST", EVENTS, "application/json", event("there")),
    ] {
        fenced.is_refused("unbound", words, request).await;
    }
}

#[tokio::test]
async fn evictions_are_beyond_policies_and_others_are_not_touched_by_them() {
    let fenced = Fenced::new();
    // Why this right is given apart: on which node the pod is, nobody can ask here.
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "on-there", "namespace": "default"},
    });
    let path = "/api/v1/namespaces/default/pods/on-there/eviction";
    fenced
        .passes("bound", ("POST", path, "application/json", eviction))
        .await;
    fenced
        .passes(
            "stranger",
            merge(HERE, json!({"metadata": {"labels": {"zone": "b"}}})),
        )
        .await;
}
