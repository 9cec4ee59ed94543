//! The scheduler in a cluster. The suite runs against the testkit, and unchanged against a real cluster; see
//! [`evictd_testkit::SuiteCluster`]. It schedules only the pods that name it, in a namespace of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test a panic is the report"
)]

#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "../../testkit/tests/support/suite.rs"]
mod support;

use evictd_testkit::{FakeRuntime, SuiteCluster};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::process::{Child, Command};
use support::{AT_MOST, Suite, create, has_condition};
use tokio::time::{Instant, sleep};

/// A running scheduler with the name of the suite's namespace.
struct Scheduled {
    suite: Suite,
    program: Child,
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Scheduled {
    async fn start(test: &str) -> Self {
        let suite = Suite::start(test, FakeRuntime::deaf()).await;
        let name = &suite.namespace;
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": { "leaderElect": true, "resourceName": name, "resourceNamespace": name,
                "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s" },
            "profiles": [{ "schedulerName": name }],
        });
        fs::write(suite.home.path().join("config.json"), config.to_string()).unwrap();
        let program = Self::run(&suite);
        let scheduled = Self { suite, program };
        if !SuiteCluster::is_real() {
            // The testkit's kubelet reports no amounts.
            scheduled.offer("pods", "110").await;
        }
        scheduled
    }

    fn run(suite: &Suite) -> Child {
        let log = File::create(suite.home.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_evictd-scheduler"));
        command.args(["run", "--secure-port=0", "--config"]);
        command.arg(suite.home.path().join("config.json"));
        command.arg("--kubeconfig").arg(suite.ground.kubeconfig());
        command.stderr(log).spawn().unwrap()
    }

    /// Kills it, so that it does not release its lease.
    fn stop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }

    /// A pod of this scheduler with the suite's node as its only choice.
    async fn pod(&self, name: &str, more: Value) {
        let mut spec = self.suite.worker("--hold 1Mi");
        spec["schedulerName"] = self.suite.namespace.as_str().into();
        spec["tolerations"] = json!([{ "operator": "Exists" }]);
        spec["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": [
                { "key": "metadata.name", "operator": "In", "values": [self.suite.ground.node()] }] }] } } });
        for (key, value) in more.as_object().unwrap() {
            match key.as_str() {
                "requests" => {
                    let resources = &mut spec["containers"][0]["resources"];
                    resources["requests"] = value.clone();
                    resources["limits"] = value.clone();
                }
                _ => spec[key] = value.clone(),
            }
        }
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        // The service account of a namespace is created a moment later.
        let deadline = Instant::now() + AT_MOST;
        while let Err(refused) = create(&self.suite.pods, pod.clone()).await {
            let of_account = refused.to_string().contains("serviceaccount");
            assert!(of_account && Instant::now() < deadline, "{refused}");
            sleep(self.suite.ground.seconds(1)).await;
        }
    }

    async fn is_bound(&self, name: &str) {
        let node = self.suite.ground.node();
        let bound = |pod: &Value| pod["spec"]["nodeName"] == node;
        self.suite.sees(name, bound).await;
    }

    /// The note of an event about this pod.
    async fn event(&self, name: &str, reason: &str) -> String {
        let events: Api<Event> = self.suite.api();
        let deadline = Instant::now() + AT_MOST;
        loop {
            let list = events.list(&ListParams::default()).await.unwrap();
            let found = list.items.into_iter().find(|event| {
                let regarding = event.regarding.as_ref();
                event.reason.as_deref() == Some(reason)
                    && regarding.and_then(|of| of.name.as_deref()) == Some(name)
            });
            if let Some(event) = found {
                let by = event.reporting_controller.unwrap_or_default();
                assert_eq!(by, self.suite.namespace);
                return event.note.unwrap_or_default();
            }
            assert!(Instant::now() < deadline, "no event {reason} about {name}");
            sleep(self.suite.ground.seconds(1)).await;
        }
    }

    /// Gives the node an amount of a resource that only this test uses.
    async fn offer(&self, resource: &str, amount: &str) {
        let status = json!({ "status": {
            "capacity": { resource: amount }, "allocatable": { resource: amount } } });
        let nodes = &self.suite.nodes;
        let (node, parameters) = (self.suite.ground.node(), PatchParams::default());
        let patch = Patch::Strategic(status);
        nodes.patch_status(node, &parameters, &patch).await.unwrap();
    }
}

#[tokio::test]
async fn s5_064_a_pod_is_bound_and_runs() {
    let scheduled = Scheduled::start("bound").await;
    scheduled.pod("first", json!({})).await;
    scheduled.is_bound("first").await;
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    scheduled.suite.sees("first", runs).await;
    let note = scheduled.event("first", "Scheduled").await;
    let suite = &scheduled.suite;
    let (namespace, target) = (&suite.namespace, suite.ground.node());
    assert_eq!(
        note,
        format!("Successfully assigned {namespace}/first to {target}")
    );
}

#[tokio::test]
async fn s5_069_an_unschedulable_pod_gets_a_condition_and_is_bound_once_it_fits() {
    let scheduled = Scheduled::start("told").await;
    let resource = format!("example.com/{}", scheduled.suite.namespace);
    let requests = json!({ "requests": { resource.as_str(): "2" } });
    scheduled.pod("waits", requests).await;
    let is_unschedulable = |pod: &Value| has_condition(pod, "PodScheduled", "False");
    let pod = scheduled.suite.sees("waits", is_unschedulable).await;
    let conditions = pod["status"]["conditions"].as_array().unwrap().iter();
    let mut found = conditions.filter(|condition| condition["type"] == "PodScheduled");
    let condition = found.next().unwrap();
    assert_eq!(condition["reason"], "Unschedulable");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("0/"), "{message}");
    assert!(
        message.contains(&format!("Insufficient {resource}")),
        "{message}"
    );
    assert_eq!(scheduled.event("waits", "FailedScheduling").await, message);
    scheduled.offer(&resource, "2").await;
    scheduled.is_bound("waits").await;
}

#[tokio::test]
async fn s4_024_a_pod_of_lower_priority_is_preempted() {
    let scheduled = Scheduled::start("preempts").await;
    let name = scheduled.suite.namespace.clone();
    let classes: Api<PriorityClass> = Api::all(scheduled.suite.client.clone());
    let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": name }, "value": 1000 });
    create(&classes, class).await.unwrap();
    let resource = format!("example.com/{name}");
    scheduled.offer(&resource, "2").await;
    let requests = json!({ resource.as_str(): "2" });
    scheduled.pod("low", json!({ "requests": requests })).await;
    scheduled.is_bound("low").await;
    let high = json!({ "requests": requests, "priorityClassName": name, "priority": 1000 });
    scheduled.pod("high", high).await;
    scheduled.is_bound("high").await;
    let gone = |pod: &Value| pod.is_null() || !pod["metadata"]["deletionTimestamp"].is_null();
    scheduled.suite.sees("low", gone).await;
    let note = scheduled.event("low", "Preempted").await;
    assert!(note.starts_with("Preempted by pod "), "{note}");
    let deleted = classes.delete(&name, &DeleteParams::default()).await;
    deleted.unwrap();
}

#[tokio::test]
async fn s5_002_a_gated_pod_waits_until_its_gates_are_removed_even_after_a_crash() {
    let mut scheduled = Scheduled::start("gated").await;
    let gates = json!({ "schedulingGates": [{ "name": "example.com/later" }] });
    scheduled.pod("gated", gates).await;
    scheduled.pod("other", json!({})).await;
    scheduled.is_bound("other").await;
    let waits = |pod: &Value| pod["spec"]["nodeName"].is_null();
    scheduled.suite.stays("gated", 5, waits).await;
    scheduled.stop();
    let open = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    let pods = &scheduled.suite.pods;
    pods.patch("gated", &PatchParams::default(), &open)
        .await
        .unwrap();
    // The lease of the killed process must expire.
    scheduled.program = Scheduled::run(&scheduled.suite);
    scheduled.is_bound("gated").await;
}
