//! What evictd relies on of a cluster. It runs against this crate, and unchanged against a real one; see [`SuiteCluster`].
//! What evictd itself does there is in the program's own suite of this name.
//!
//! [`SuiteCluster`]: evictd_testkit::SuiteCluster
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "support/suite.rs"]
mod support;

use evictd_testkit::FakeRuntime;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Suite, create, found, has_condition, has_taint, patch_status, was_evicted};

const NAME: &str = "sleeper";

impl Suite {
    async fn of_sleeper(test: &str) -> Self {
        let suite = Self::start(test, FakeRuntime::deaf()).await;
        suite.pod(NAME, "--hold 1Mi").await;
        suite
    }

    async fn fail(&self, annotated: bool) {
        let mut patch = json!({"status": {
            "phase": "Failed", "reason": "Evicted", "message": "low on memory",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
        }});
        if annotated {
            patch["metadata"]["annotations"] = json!({"evictd.dev/evicted": "yes"});
        }
        patch_status(&self.pods, NAME, patch).await;
    }
}

#[tokio::test]
async fn a_patch_of_status_alone_is_undone_by_the_kubelet() {
    let suite = Suite::of_sleeper("status").await;
    suite.fail(false).await;
    let undone = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = suite.sees(NAME, undone).await;
    assert!(has_condition(&pod, "DisruptionTarget", "True"));
    assert_eq!(pod["status"]["reason"], Value::Null);
}

#[tokio::test]
async fn a_patch_of_status_with_an_annotation_ends_the_pod() {
    let suite = Suite::of_sleeper("annotation").await;
    suite.fail(true).await;
    let pod = suite.sees(NAME, was_evicted).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(pod["metadata"]["annotations"]["evictd.dev/evicted"], "yes");
    assert!(has_condition(&pod, "DisruptionTarget", "True"));
    suite.stays(NAME, 15, was_evicted).await;
}

#[tokio::test]
async fn a_custom_node_condition_stays_and_a_kubelets_condition_is_overwritten() {
    const BUILT_IN: &str = "node.kubernetes.io/memory-pressure";
    let suite = Suite::start("conditions", FakeRuntime::deaf()).await;
    let name = suite.ground.node().to_owned();
    let apply = async |conditions: Value| {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions},
        });
        let parameters = PatchParams::apply("evictd-suite").force();
        let patch = Patch::Apply(node);
        suite
            .nodes
            .patch_status(&name, &parameters, &patch)
            .await
            .unwrap();
    };
    let calm = |node: &Value| has_condition(node, "MemoryPressure", "False");
    suite.node(calm).await;
    let held = |kind: &str| json!({"type": kind, "status": "True", "reason": "Suite", "message": "of a test"});
    apply(json!([held("EvictdSuitePressure"), held("MemoryPressure")])).await;
    let back = |node: &Value| calm(node) && !has_taint(node, BUILT_IN);
    let node = suite.node(back).await;
    assert!(has_condition(&node, "EvictdSuitePressure", "True"));
    apply(json!([])).await;
    let gone =
        |node: &Value| !node.is_null() && !has_condition(node, "EvictdSuitePressure", "True");
    suite.node(gone).await;
}

#[tokio::test]
async fn a_budget_refuses_an_eviction_until_the_pod_has_failed() {
    let suite = Suite::of_sleeper("budget").await;
    let budgets: Api<PodDisruptionBudget> = suite.api();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": NAME},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"suite": NAME}}},
    });
    create(&budgets, budget).await.unwrap();
    found(&budgets, NAME, |budget| {
        budget["status"]["currentHealthy"] == 1
    })
    .await;
    let evict = async || {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": NAME}});
        suite
            .pods
            .create_subresource::<_, Value>("eviction", NAME, &PostParams::default(), &eviction)
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
        format!("The disruption budget {NAME} needs 1 healthy pods and has 1 currently")
    );
    suite.fail(true).await;
    // Until its processes are gone its kubelet may still write over the phase.
    suite.sees(NAME, was_evicted).await;
    evict().await.unwrap();
}
