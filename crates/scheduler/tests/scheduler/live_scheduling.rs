//! `evictd-scheduler run` against an API server: pods come, are bound, and are told why not.

use crate::scheduler;
use evictd_testkit::{Actor, ApiServer};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// What happens at all happens sooner.
const AT_MOST: Duration = Duration::from_secs(30);

/// A cluster with a scheduler.
struct Live {
    api: ApiServer,
    admin: Actor,
    program: Child,
    _kubeconfig: NamedTempFile,
}

impl Drop for Live {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn start(kubeconfig: &NamedTempFile, arguments: &[&str]) -> Child {
    let mut command = scheduler();
    command
        .args(["run", "--secure-port=0", "--kubeconfig"])
        .arg(kubeconfig.path())
        .args(arguments);
    command.stderr(Stdio::inherit()).spawn().unwrap()
}

impl Live {
    /// With nodes of this many cpus.
    fn new(nodes: &[(&str, &str)]) -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        for (name, cpu) in nodes {
            node(&admin, name, cpu);
        }
        let mut kubeconfig = NamedTempFile::new().unwrap();
        write!(kubeconfig, "{}", api.kubeconfig()).unwrap();
        let program = start(&kubeconfig, &[]);
        Self {
            api,
            admin,
            program,
            _kubeconfig: kubeconfig,
        }
    }

    /// Waits until this is so of a pod.
    fn until(&self, pod: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + AT_MOST;
        loop {
            let found = self.admin.get("pods", pod);
            if let Some(found) = found.filter(|found| is(found)) {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "{pod}: not {what}: {:#?}",
                self.admin.get("pods", pod)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn bound(&self, pod: &str) -> String {
        let found = self.until(pod, "bound", |pod| pod["spec"]["nodeName"].is_string());
        found["spec"]["nodeName"].as_str().unwrap().to_owned()
    }

    fn events(&self, reason: &str) -> Vec<String> {
        let events = self.admin.list("events").into_iter();
        let events = events.filter(|event| event["reason"] == reason);
        events
            .map(|event| {
                event["note"]
                    .as_str()
                    .or(event["message"].as_str())
                    .unwrap_or("")
                    .to_owned()
            })
            .collect()
    }
}

fn node(admin: &Actor, name: &str, cpu: &str) {
    let amounts = json!({ "cpu": cpu, "memory": "8Gi", "pods": "110" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": amounts, "capacity": amounts },
    });
    admin.create(node).unwrap();
}

fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "priority": priority, "schedulerName": "default-scheduler", "containers": [{ "name": "main", "image": "none",
            "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } } }] },
    })
}

#[test]
fn s5_064_pods_are_bound_to_the_best_node() {
    let live = Live::new(&[("one", "2"), ("two", "4")]);
    live.admin.create(pod("first", "1", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "two");
    live.admin.create(pod("second", "1500m", 0)).unwrap();
    assert_eq!(live.bound("default/second"), "two");
    live.admin.create(pod("third", "1500m", 0)).unwrap();
    assert_eq!(live.bound("default/third"), "one");
}

#[test]
fn s5_069_a_pod_that_fits_nowhere_is_told_why_and_placed_when_a_node_comes() {
    let live = Live::new(&[("one", "1")]);
    live.admin.create(pod("large", "3", 0)).unwrap();
    let condition = |pod: &Value| -> Value {
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .into_iter()
            .find(|own| own["type"] == "PodScheduled")
            .unwrap_or_default()
    };
    let told = live.until("default/large", "told", |pod| {
        condition(pod)["status"] == "False"
    });
    assert_eq!(condition(&told)["reason"], "Unschedulable");
    let message = condition(&told)["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("0/1 nodes are available: 1 Insufficient cpu."),
        "{message}"
    );
    node(&live.admin, "two", "4");
    assert_eq!(live.bound("default/large"), "two");
}

#[test]
fn s4_028_a_pod_of_higher_priority_takes_the_place_of_another() {
    let live = Live::new(&[("one", "2")]);
    live.admin.create(pod("low", "1500m", 0)).unwrap();
    assert_eq!(live.bound("default/low"), "one");
    live.admin.create(pod("high", "1500m", 1000)).unwrap();
    let nominated = live.until("default/high", "nominated", |pod| {
        pod["status"]["nominatedNodeName"] == "one" || pod["spec"]["nodeName"] == "one"
    });
    drop(nominated);
    // Nothing ends the victim here as a kubelet would, unless the server removes it at once.
    let deadline = Instant::now() + AT_MOST;
    while live
        .admin
        .get("pods", "default/low")
        .is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    {
        assert!(Instant::now() < deadline, "the victim stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = live
        .admin
        .delete("pods", "default/low", json!({ "gracePeriodSeconds": 0 }));
    assert_eq!(live.bound("default/high"), "one");
    assert!(!live.events("Preempted").is_empty());
    let _ = live.api.url();
}
