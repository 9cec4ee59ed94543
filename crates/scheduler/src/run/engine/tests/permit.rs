//! Permit plugins and gangs.

use super::{Running, node_of, pod};
use evictd_placement::{Chosen, Permit, Plugin};
use evictd_testkit::testing::wait_until;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

fn member(name: &str, group: &str, cpu: &str, priority: i32) -> Value {
    let mut pod = pod(name, cpu, priority);
    pod["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
    pod
}

fn group(name: &str, min_count: i32, priority: i32) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } }, "priority": priority } })
}

/// Delays pods in Permit until some node has the label `feeder=on`.
struct FeederOn(SignedDuration);

impl Plugin for FeederOn {
    fn name(&self) -> &'static str {
        "FeederOn"
    }

    fn permit(&self, chosen: Chosen<'_>) -> Permit {
        let symbols = chosen.cluster.symbols();
        let on = symbols.get("feeder").zip(symbols.get("on"));
        let is_on = |(key, value)| {
            let mut nodes = chosen.cluster.nodes().iter();
            nodes.any(|node| node.labels.get(key) == Some(value))
        };
        // Only the second pod of the gang waits.
        if chosen.pod.metadata.name == "train-0" || on.is_some_and(is_on) {
            return Permit::Allow;
        }
        Permit::Wait(self.0)
    }
}

async fn gang_that_waits(timeout: SignedDuration) -> Running {
    let plugin: Arc<dyn Plugin> = Arc::new(FeederOn(timeout));
    let nodes = [("one", "4")];
    let running = Running::with(&nodes, |framework| {
        framework.permits.push(Arc::clone(&plugin));
    })
    .await;
    running.admin.create(group("train", 2, 0)).unwrap();
    for index in 0..2 {
        let name = format!("train-{index}");
        running
            .admin
            .create(member(&name, "train", "1", 0))
            .unwrap();
    }
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_059_a_gang_waits_in_permit_while_one_of_its_pods_does() {
    let running = gang_that_waits(SignedDuration::from_mins(10)).await;
    wait_until("both pods have a nominated node", || {
        let pods = ["train-0", "train-1"];
        pods.iter().all(|pod| {
            let pod = running
                .admin
                .get("pods", &format!("default/{pod}"))
                .unwrap();
            pod["status"]["nominatedNodeName"] == "one"
        })
    });
    assert!(node_of(&running.admin, "train-0").is_null());
    let on = json!({ "metadata": { "labels": { "feeder": "on" } } });
    running.admin.merge("nodes", "one", on).unwrap();
    for pod in ["train-0", "train-1"] {
        running.until_bound(pod);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_060_the_timeout_of_permit_rejects_the_whole_gang() {
    let running = gang_that_waits(SignedDuration::from_secs(1)).await;
    for pod in ["train-0", "train-1"] {
        wait_until("the rejection is reported", || {
            let pod = running
                .admin
                .get("pods", &format!("default/{pod}"))
                .unwrap();
            let conditions = pod["status"]["conditions"].as_array().cloned();
            let mut conditions = conditions.unwrap_or_default().into_iter();
            let is_reported = conditions.any(|condition| {
                let message = condition["message"].as_str().unwrap_or_default();
                message.contains("rejected due to timeout after waiting 1s at plugin FeederOn")
            });
            assert!(pod["spec"]["nodeName"].is_null());
            is_reported
        });
    }
}
