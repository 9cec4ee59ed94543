//! What evictd relies on of a cluster. It runs against this crate, and unchanged against a real one; see [`Ground`].
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_testkit::Ground;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;

/// What must happen at all; a real cluster may have to start a container for it.
const AT_MOST: Duration = Duration::from_mins(2);

struct Suite {
    ground: Ground,
    client: Client,
    pods: Api<Pod>,
    nodes: Api<Node>,
    _home: tempfile::TempDir,
}

impl Suite {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let ground = Ground::find(home.path()).unwrap();
        let kubeconfig = Kubeconfig::read_from(ground.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        Self {
            ground,
            pods: Api::default_namespaced(client.clone()),
            nodes: Api::all(client.clone()),
            client,
            _home: home,
        }
    }

    /// A running pod of this name, on which SIGTERM has no effect: `sleep` is the first process of its container.
    async fn pod(&self, name: &str) {
        self.remove(name).await;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"suite": name}, "annotations": {"testkit/on-term": "ignore"}},
            "spec": {
                "nodeName": self.ground.node(), "terminationGracePeriodSeconds": 2,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": self.ground.image(), "command": ["sleep", "3600"]}],
            },
        });
        let pod = serde_json::from_value(pod).unwrap();
        self.pods
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
        self.sees(name, AT_MOST, |pod| pod["status"]["phase"] == "Running")
            .await;
    }

    async fn remove(&self, name: &str) {
        let _ = self
            .pods
            .delete(name, &DeleteParams::default().grace_period(0))
            .await;
    }

    /// The pod once it looks so.
    async fn sees(&self, name: &str, at_most: Duration, what: impl Fn(&Value) -> bool) -> Value {
        found(self.pods.clone(), name, at_most, what).await
    }

    async fn fail(&self, name: &str, annotations: Value) {
        let patch = json!({
            "metadata": {"annotations": annotations},
            "status": {
                "phase": "Failed", "reason": "Evicted", "message": "low on memory",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
            },
        });
        let patch = Patch::Strategic(patch);
        self.pods
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

async fn found<K>(
    objects: Api<K>,
    name: &str,
    at_most: Duration,
    what: impl Fn(&Value) -> bool,
) -> Value
where
    K: kube::Resource
        + Clone
        + std::fmt::Debug
        + Send
        + serde::de::DeserializeOwned
        + serde::Serialize
        + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = pin!(
        watcher(objects, config)
            .default_backoff()
            .applied_objects()
            .boxed()
    );
    let find = async {
        while let Some(object) = changes.try_next().await.unwrap() {
            let object = serde_json::to_value(object).unwrap();
            if what(&object) {
                return object;
            }
        }
        panic!("the watch of {name} ended");
    };
    let seen = tokio::time::timeout(at_most, find).await;
    seen.unwrap_or_else(|_| panic!("{name} did not look so within {at_most:?}"))
}

fn has_ended(pod: &Value) -> bool {
    let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    state["exitCode"] == 137 && pod["status"]["reason"] == "Evicted"
}

fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

#[tokio::test]
async fn a_patch_of_status_alone_is_undone_by_the_kubelet() {
    let suite = Suite::start().await;
    let name = "evictd-suite-status";
    suite.pod(name).await;
    suite.fail(name, json!({})).await;
    let soon = suite.ground.seconds(12);
    let pod = suite
        .sees(name, soon, |pod| pod["status"]["phase"] == "Running")
        .await;
    assert!(has_condition(&pod, "DisruptionTarget", "True"));
    assert_eq!(pod["status"]["reason"], Value::Null);
    suite.remove(name).await;
}

#[tokio::test]
async fn a_patch_of_status_with_an_annotation_ends_the_pod() {
    let suite = Suite::start().await;
    let name = "evictd-suite-annotation";
    suite.pod(name).await;
    suite.fail(name, json!({"evictd.dev/evicted": "yes"})).await;

    let pod = suite.sees(name, suite.ground.seconds(15), has_ended).await;
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(pod["metadata"]["annotations"]["evictd.dev/evicted"], "yes");
    assert!(has_condition(&pod, "DisruptionTarget", "True"));
    suite.remove(name).await;
}

#[tokio::test]
async fn a_condition_of_our_own_stays_and_the_kubelets_does_not() {
    let suite = Suite::start().await;
    let name = suite.ground.node().to_owned();
    let apply = async |conditions: Value| {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions},
        });
        let parameters = PatchParams::apply("evictd-suite").force();
        suite
            .nodes
            .patch_status(&name, &parameters, &Patch::Apply(node))
            .await
            .unwrap();
    };
    found(suite.nodes.clone(), &name, AT_MOST, |node| {
        has_condition(node, "MemoryPressure", "False")
    })
    .await;
    let held = |kind: &str| json!({"type": kind, "status": "True", "reason": "Suite", "message": "of a test"});
    apply(json!([held("EvictdSuitePressure"), held("MemoryPressure")])).await;
    let tainted = |node: &Value| {
        let taints = node["spec"]["taints"].as_array();
        taints
            .into_iter()
            .flatten()
            .any(|taint| taint["key"] == "node.kubernetes.io/memory-pressure")
    };
    let soon = suite.ground.seconds(15);
    found(suite.nodes.clone(), &name, soon, |node| {
        tainted(node) || has_condition(node, "MemoryPressure", "False")
    })
    .await;
    let back = |node: &Value| has_condition(node, "MemoryPressure", "False") && !tainted(node);
    let node = found(suite.nodes.clone(), &name, soon, back).await;
    assert!(has_condition(&node, "EvictdSuitePressure", "True"));
    apply(json!([])).await;
    let gone = |node: &Value| !has_condition(node, "EvictdSuitePressure", "True");
    found(suite.nodes.clone(), &name, AT_MOST, gone).await;
}

#[tokio::test]
async fn a_budget_refuses_an_eviction_until_the_pod_has_failed() {
    let suite = Suite::start().await;
    let name = "evictd-suite-budget";
    suite.pod(name).await;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(suite.client.clone());
    let _ = budgets.delete(name, &DeleteParams::default()).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"suite": name}}},
    });
    let budget = serde_json::from_value(budget).unwrap();
    budgets
        .create(&PostParams::default(), &budget)
        .await
        .unwrap();
    let counted = |budget: &Value| budget["status"]["currentHealthy"] == 1;
    found(budgets.clone(), name, AT_MOST, counted).await;
    let evict = async || {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        suite
            .pods
            .create_subresource::<_, Value>("eviction", name, &PostParams::default(), &eviction)
            .await
    };
    let answer = evict().await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}")
    };
    let cause = status.details.clone().unwrap().causes.remove(0);
    assert_eq!(
        (status.code, status.reason.as_str()),
        (429, "TooManyRequests")
    );
    assert_eq!(cause.reason, "DisruptionBudget");
    assert_eq!(
        cause.message,
        format!("The disruption budget {name} needs 1 healthy pods and has 1 currently")
    );
    suite.fail(name, json!({"evictd.dev/evicted": "yes"})).await;
    // Until its processes are gone its kubelet may still write over the phase.
    suite.sees(name, suite.ground.seconds(15), has_ended).await;
    evict().await.unwrap();
    budgets
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    suite.remove(name).await;
}
