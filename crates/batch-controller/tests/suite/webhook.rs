//! What the API server does by the webhook's word.

use crate::ground::{Batch, STAYS};
use crate::support::{AT_MOST, create};
use evictd_testkit::SuiteCluster;
use evictd_testkit::testing::left_out;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The API server asks at this address about the jobs of the suite's namespace, and about nothing else.
async fn configure(batch: &mut Batch, address: &str) {
    let name = batch.suite.namespace.clone();
    for (kind, path) in [
        ("MutatingWebhookConfiguration", "/jobs/mutate"),
        ("ValidatingWebhookConfiguration", "/jobs/validate"),
    ] {
        let of_kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let resource = ApiResource::from_gvk(&of_kind);
        let here =
            json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": [name] });
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name },
            "webhooks": [{
                "name": "jobs.suite.evictd.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "timeoutSeconds": 5, "failurePolicy": "Fail", "namespaceSelector": { "matchExpressions": [here] },
                "clientConfig": { "url": format!("https://{address}{path}") },
                "rules": [{ "apiGroups": ["batch.volcano.sh"], "apiVersions": ["v1alpha1"], "resources": ["jobs"],
                    "operations": ["CREATE"] }],
            }],
        });
        batch.made.push((resource.clone(), name.clone()));
        let configurations: Api<DynamicObject> =
            Api::all_with(batch.suite.client.clone(), &resource);
        create(&configurations, configuration).await.unwrap();
    }
}

/// What the API server would make of the job.
async fn asked(batch: &Batch, job: &Value) -> Result<Value, String> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let job = serde_json::from_value(job.clone()).unwrap();
    match batch.kinds.jobs.create(&dry, &job).await {
        Ok(job) => Ok(json!(job)),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn jobs_get_defaults_and_are_refused_with_volcanos_words() {
    let Some(mut batch) = Batch::start("webhook", 2).await else {
        return;
    };
    let address = batch.run_webhook().await;
    configure(&mut batch, &address).await;
    let mut job = batch.job("train", 2, STAYS);
    for left_to_it in ["schedulerName", "maxRetry", "minAvailable"] {
        job["spec"].as_object_mut().unwrap().remove(left_to_it);
    }
    job["spec"]["tasks"][0]
        .as_object_mut()
        .unwrap()
        .remove("name");
    // Until it has a certificate, and the API server knows whose.
    let deadline = Instant::now() + AT_MOST / 4;
    let completed = loop {
        match asked(&batch, &job).await {
            Ok(completed) => break completed,
            Err(error) if Instant::now() < deadline => {
                assert!(error.contains("failed calling webhook"), "{error}");
            }
            Err(error) if SuiteCluster::is_real() => {
                left_out(
                    "webhook",
                    format!("the API server does not reach it: {error}"),
                );
                return;
            }
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(100)).await;
    };
    let spec = &completed["spec"];
    assert_eq!(spec["schedulerName"], batch.scheduler_name());
    assert_eq!(
        (&spec["maxRetry"], &spec["minAvailable"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(spec["tasks"][0]["name"], "default0");

    let mut twice = job.clone();
    let task = twice["spec"]["tasks"][0].clone();
    twice["spec"]["tasks"] = json!([task, task]);
    for task in twice["spec"]["tasks"].as_array_mut().unwrap() {
        task["name"] = "work".into();
    }
    let error = asked(&batch, &twice).await.unwrap_err();
    let denied = "admission webhook \"jobs.suite.evictd.dev\" denied the request: ";
    assert_eq!(error, format!("{denied}duplicated task name work;"));

    let queue = batch.queue("closes", 1).await;
    batch.batch(&["queue", "operate", "-n", &queue, "-a", "close"]);
    batch.queue_is(&queue, "Closed").await;
    let mut late = job.clone();
    late["spec"]["queue"] = queue.as_str().into();
    let expected = format!(
        "{denied}can only submit job to queue with state `Open`, queue `{queue}` status is `Closed`;"
    );
    let deadline = Instant::now() + AT_MOST;
    // Its own watch tells it of the queue.
    while asked(&batch, &late).await.unwrap_err() != expected {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            asked(&batch, &late).await
        );
        sleep(Duration::from_millis(50)).await;
    }

    batch.create(job).await;
    batch.job_is("train", "Running").await;
}
