//! What becomes of jobs.

use crate::ground::{Batch, ENDS, FAILS, STAYS, bound, is_bound};
use crate::support::found;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

#[tokio::test]
async fn a_job_completes_with_its_plugins_and_is_deleted_when_its_ttl_is_over() {
    let Some(batch) = Batch::start("ends", 2).await else {
        return;
    };
    let definitions = async || {
        let all = ListParams::default();
        let all = batch.kinds.definitions.list(&all).await.unwrap();
        let ours = all.items.into_iter().map(|one| one.metadata);
        let ours =
            ours.filter(|definition| definition.name.as_deref().unwrap().ends_with(".volcano.sh"));
        ours.map(|definition| (definition.name, definition.uid, definition.generation))
            .collect::<Vec<_>>()
    };
    let before = definitions().await;
    assert!(before.len() >= 4, "{before:?}");
    let mut job = batch.job("train", 2, ENDS);
    job["spec"]["plugins"] = json!({ "env": [], "svc": [] });
    job["spec"]["ttlSecondsAfterFinished"] = json!(5);
    batch.create(job).await;
    batch
        .pods_are("train", "both pods", |pods| pods.len() == 2)
        .await;
    for pod in batch.pods(Some("train")).await {
        let spec = &pod["spec"];
        let index = pod["metadata"]["name"].as_str().unwrap().rsplit('-').next();
        let env = spec["containers"][0]["env"].as_array().unwrap();
        let variable = |name: &str| {
            let mut variables = env.iter().filter(|one| one["name"] == name);
            variables.next().and_then(|one| one["value"].as_str())
        };
        assert_eq!(variable("VC_TASK_INDEX"), index);
        assert_eq!(variable("VC_WORK_HOSTS"), None, "{env:?}");
        assert_eq!(spec["subdomain"], "train");
        assert_eq!(spec["hostname"], pod["metadata"]["name"]);
    }
    let services: Api<Service> = batch.suite.api();
    found(&services, "train", |service| {
        service["spec"]["clusterIP"] == "None"
    })
    .await;
    let maps: Api<ConfigMap> = batch.suite.api();
    let hosts = "train-work-0.train\ntrain-work-1.train";
    found(&maps, "train-svc", |map| map["data"]["work.host"] == hosts).await;
    let ended = batch.job_is("train", "Completed").await;
    assert_eq!(ended["status"]["succeeded"], 2, "{ended:#}");
    batch.job_looks("train", Value::is_null).await;
    assert_eq!(
        definitions().await,
        before,
        "definitions are never replaced"
    );
}

#[tokio::test]
async fn no_pod_of_a_gang_is_bound_until_the_whole_gang_fits() {
    let Some(batch) = Batch::start("gang", 4).await else {
        return;
    };
    for name in ["one", "two"] {
        batch.plain_pod(name).await;
        batch.suite.sees(name, is_bound).await;
    }
    batch.create(batch.job("gang", 3, STAYS)).await;
    let job = batch.job_is("gang", "Pending").await;
    let group = format!("gang-{}", job["metadata"]["uid"].as_str().unwrap());
    let group = found(&batch.kinds.groups, &group, |group| {
        let conditions = group["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions
            .any(|condition| condition["type"] == "Unschedulable" && condition["status"] == "True")
    })
    .await;
    let group = group["metadata"]["name"].as_str().unwrap();
    let message = "tasks in gang unschedulable";
    batch.has_event(group, "Unschedulable", message).await;
    batch
        .meanwhile("none is bound", async || {
            bound(&batch.pods(Some("gang")).await) == 0
        })
        .await;
    let now = DeleteParams::default().grace_period(0);
    batch.suite.pods.delete("one", &now).await.unwrap();
    batch
        .pods_are("gang", "bound whole", |pods| bound(pods) == 3)
        .await;
    batch.job_is("gang", "Running").await;
}

#[tokio::test]
async fn bare_pods_and_gangs_never_share_the_same_room() {
    let Some(batch) = Batch::start("beside", 8).await else {
        return;
    };
    for index in 0..4 {
        batch
            .create(batch.job(&format!("gang-{index}"), 2, STAYS))
            .await;
        batch.plain_pod(&format!("plain-{index}")).await;
    }
    let is_full = async || {
        let held = bound(&batch.pods(None).await);
        assert!(held <= 8, "{held} pods share 8 pieces");
        for index in 0..4 {
            let gang = bound(&batch.pods(Some(&format!("gang-{index}"))).await);
            assert!(gang <= 2, "gang-{index} has {gang} pods");
        }
        held == 8
    };
    let deadline = tokio::time::Instant::now() + crate::support::AT_MOST;
    while !is_full().await {
        assert!(tokio::time::Instant::now() < deadline, "it is never full");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    batch.meanwhile("all 8 pieces are held", is_full).await;
    for index in 0..4 {
        let gang = bound(&batch.pods(Some(&format!("gang-{index}"))).await);
        assert!(gang != 1, "half of gang-{index} is bound");
    }
}

#[tokio::test]
async fn a_job_restarts_by_its_policy_up_to_max_retry() {
    let Some(batch) = Batch::start("restarts", 2).await else {
        return;
    };
    let mut job = batch.job("fails", 2, FAILS);
    job["spec"]["maxRetry"] = json!(2);
    job["spec"]["policies"] = json!([{ "event": "PodFailed", "action": "RestartJob" }]);
    batch.create(job).await;
    let failed = batch.job_is("fails", "Failed").await;
    assert_eq!(failed["status"]["retryCount"], 2, "{failed:#}");
    batch
        .has_event("fails", "ExecuteAction", "RestartJob")
        .await;
}

#[tokio::test]
async fn a_job_is_aborted_and_resumed_by_commands_that_act_once() {
    let Some(batch) = Batch::start("commands", 2).await else {
        return;
    };
    batch.create(batch.job("train", 2, STAYS)).await;
    batch.job_is("train", "Running").await;
    let namespace = batch.suite.namespace.as_str();
    batch.batch(&["job", "suspend", "-n", namespace, "-N", "train"]);
    batch.job_is("train", "Aborted").await;
    batch.pods_are("train", "gone", <[Value]>::is_empty).await;
    batch.batch(&["job", "resume", "-n", namespace, "-N", "train"]);
    let resumed = batch.job_is("train", "Running").await;
    // A resume uses up no retry.
    assert_eq!(resumed["status"].get("retryCount"), None, "{resumed:#}");
    let left = batch.kinds.commands.list(&ListParams::default()).await;
    assert_eq!(left.unwrap().items.len(), 0);
}
