//! The packaged policies that guard status, Commands and the webhook's configurations, in force.

use evictd_testkit::{Actor, ApiServer};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const CONTROLLERS: &str = "system:serviceaccount:volcano-system:evictd-batch-controllers";
const SCHEDULER: &str = "system:serviceaccount:kube-system:evictd-scheduler";
const WEBHOOK: &str = "system:serviceaccount:volcano-system:evictd-batch-webhook";

/// A cluster in which the packaged policies are in force.
struct Guarded {
    api: ApiServer,
    admin: Actor,
}

fn packaged(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/batch");
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let documents = text.split("\n---\n");
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

impl Guarded {
    fn start() -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("admin");
        for name in ["volcano-system", "tenant"] {
            let space =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            admin.create(space).unwrap();
        }
        for object in packaged("guards.yaml")
            .into_iter()
            .chain(packaged("configurations.yaml"))
        {
            admin.create(object).unwrap();
        }
        Self { api, admin }
    }

    /// A client of somebody with these rights.
    async fn client(&self, user: &str, rules: Option<Value>) -> Client {
        self.api.grant(user, user, rules);
        let text = self.api.kubeconfig_of(user);
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Client::try_from(config.unwrap()).unwrap()
    }
}

fn kind(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn job() -> ApiResource {
    kind("batch.volcano.sh", "v1alpha1", "Job")
}

fn group() -> ApiResource {
    kind("scheduling.volcano.sh", "v1beta1", "PodGroup")
}

fn queue() -> ApiResource {
    kind("scheduling.volcano.sh", "v1beta1", "Queue")
}

/// Whether it is let through; whatever else is wrong with it is a mistake of the test.
fn passed<T: std::fmt::Debug>(result: kube::Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => {
            assert!(matches!(status.code, 403 | 422), "{status:?}");
            assert!(
                status
                    .message
                    .contains("ValidatingAdmissionPolicy 'evictd-batch-"),
                "{status:?}"
            );
            false
        }
        Err(other) => panic!("{other}"),
    }
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// Which of these somebody may do to `status`: a job's, a queue's, a pod group's, and that of a pod group that is made.
async fn may(cluster: &Guarded, user: &str, value: &str) -> [bool; 4] {
    let client = cluster.client(user, None).await;
    let jobs: Api<DynamicObject> = Api::namespaced_with(client.clone(), "tenant", &job());
    let groups: Api<DynamicObject> = Api::namespaced_with(client.clone(), "tenant", &group());
    let queues: Api<DynamicObject> = Api::all_with(client, &queue());
    let parameters = PatchParams::default();
    let of_job = Patch::Merge(json!({"status": {"state": {"phase": value}}}));
    let of_queue = Patch::Merge(json!({"status": {"state": value}}));
    let of_group = Patch::Merge(json!({"status": {"phase": value}}));
    let made = object(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"generateName": "made-"}, "spec": {"minMember": 1}, "status": {"phase": value},
    }));
    [
        passed(jobs.patch_status("a", &parameters, &of_job).await),
        passed(queues.patch_status("a", &parameters, &of_queue).await),
        passed(groups.patch("a", &parameters, &of_group).await),
        passed(groups.create(&PostParams::default(), &made).await),
    ]
}

#[tokio::test]
async fn only_the_configured_accounts_may_write_status() {
    let cluster = Guarded::start();
    for (kind, version) in [
        ("Job", "batch.volcano.sh/v1alpha1"),
        ("PodGroup", "scheduling.volcano.sh/v1beta1"),
        ("Queue", "scheduling.volcano.sh/v1beta1"),
    ] {
        let mut object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}});
        if kind != "Queue" {
            object["metadata"]["namespace"] = json!("tenant");
        }
        cluster.admin.create(object).unwrap();
    }
    assert_eq!(may(&cluster, "mallory", "Inqueue").await, [false; 4]);
    assert_eq!(may(&cluster, CONTROLLERS, "Pending").await, [true; 4]);
    assert_eq!(may(&cluster, SCHEDULER, "Inqueue").await, [true; 4]);
    // What they have written does not keep others from the rest of the object.
    let client = cluster.client("mallory", None).await;
    let groups: Api<DynamicObject> = Api::namespaced_with(client, "tenant", &group());
    let patch = |change: Value| {
        let groups = groups.clone();
        async move {
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(change));
            passed(groups.patch("a", &parameters, &patch).await)
        }
    };
    assert!(patch(json!({"spec": {"minMember": 3}})).await);
    assert!(patch(json!({"spec": {"minMember": 4}, "status": {"phase": "Inqueue"}})).await);
    assert!(!patch(json!({"status": null})).await);
    assert!(!patch(json!({"status": {"conditions": [{"type": "Reserved"}]}})).await);
    let plain = object(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "plain"}, "spec": {"minMember": 1}, "status": {},
    }));
    assert!(passed(groups.create(&PostParams::default(), &plain).await));

    // An administrator adds an account. Without the list no account may write.
    let names = json!({"data": {"status": "somebody\nmallory"}});
    let accounts = "volcano-system/evictd-batch-accounts";
    cluster.admin.merge("configmaps", accounts, names).unwrap();
    assert_eq!(may(&cluster, "mallory", "Running").await, [true; 4]);
    assert_eq!(may(&cluster, CONTROLLERS, "Pending").await, [false; 4]);
    assert_eq!(may(&cluster, "mal", "Pending").await, [false; 4]);
    cluster
        .admin
        .delete("configmaps", accounts, json!({}))
        .unwrap();
    assert_eq!(may(&cluster, "mallory", "Pending").await, [false; 4]);
}

#[tokio::test]
async fn a_user_without_the_right_to_update_a_queue_cannot_close_it() {
    let cluster = Guarded::start();
    let rule = |groups: &str, resources: &str, verbs: Value, names: Value| json!({"apiGroups": [groups], "resources": [resources], "verbs": verbs, "resourceNames": names});
    let commands = rule("bus.volcano.sh", "commands", json!(["create"]), json!([]));
    let of_queue = |verb: &str| {
        let names = json!(["own"]);
        rule("scheduling.volcano.sh", "queues", json!([verb]), names)
    };
    let table = [
        (json!([commands]), "own", false),
        (json!([commands, of_queue("get")]), "own", false),
        (json!([commands, of_queue("update")]), "default", false),
        (json!([commands, of_queue("update")]), "", false),
        (json!([commands, of_queue("update")]), "own", true),
    ];
    for (index, (rules, name, expected)) in table.into_iter().enumerate() {
        let client = cluster.client(&format!("user{index}"), Some(rules)).await;
        let place: Api<DynamicObject> = Api::namespaced_with(
            client,
            "tenant",
            &kind("bus.volcano.sh", "v1alpha1", "Command"),
        );
        let command = |target: Value| {
            object(json!({
                "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
                "metadata": {"generateName": "c-"}, "action": "CloseQueue", "target": target,
            }))
        };
        let parameters = PostParams::default();
        let close = command(json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": name, "uid": "u",
        }));
        let made = passed(place.create(&parameters, &close).await);
        assert_eq!(made, expected, "{index}");
        // A job's Command is for its namespace to allow.
        let abort = command(json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "a", "uid": "u",
        }));
        assert!(passed(place.create(&parameters, &abort).await));
    }
}

#[tokio::test]
async fn the_webhook_changes_only_the_ca_bundle_of_its_configurations() {
    let cluster = Guarded::start();
    let client = cluster.client(WEBHOOK, None).await;
    for name in [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ] {
        let kind = kind("admissionregistration.k8s.io", "v1", name);
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let passes = |operations: Value| {
            let request = http::Request::patch(format!("{}/evictd-batch", all.resource_url()))
                .header(http::header::CONTENT_TYPE, "application/json-patch+json")
                .body(operations.to_string().into_bytes());
            let client = client.clone();
            async move { passed(client.request::<Value>(request.unwrap()).await) }
        };
        let at = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
        for place in [0, 2] {
            let path = format!("/webhooks/{place}/clientConfig/caBundle");
            assert!(passes(at(&path, json!("eA=="))).await);
            assert!(passes(at(&path, json!("eQ=="))).await);
        }
        let elsewhere = json!({"url": "https://mallory.example", "caBundle": "eA=="});
        let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]);
        for wrong in [
            at("/webhooks/0/clientConfig", elsewhere),
            at("/webhooks/0/clientConfig/service/path", json!("/x")),
            at("/webhooks/0/rules", everything),
            at("/webhooks/0/failurePolicy", json!("Ignore")),
            at("/webhooks/0/namespaceSelector", json!({})),
            at("/metadata/labels/a", json!("b")),
            at("/metadata/annotations", json!({"a": "b"})),
            at("/metadata/finalizers", json!(["a/b"])),
            json!([{"op": "remove", "path": "/webhooks/1"}]),
            json!([{"op": "copy", "from": "/webhooks/0", "path": "/webhooks/-"}]),
            json!([{"op": "move", "from": "/webhooks/0", "path": "/webhooks/1"}]),
            json!([{"op": "remove", "path": "/webhooks"}]),
        ] {
            assert!(!passes(wrong.clone()).await, "{name}: {wrong}");
        }
        let parameters = DeleteParams::default();
        assert!(!passed(all.delete("evictd-batch", &parameters).await));
        let other = object(
            json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "other"}}),
        );
        assert!(!passed(all.create(&PostParams::default(), &other).await));
        // It binds no one else.
        let admin = cluster.client("administrator", None).await;
        let all: Api<DynamicObject> = Api::all_with(admin, &kind);
        assert!(passed(all.delete("evictd-batch", &parameters).await));
    }
}
