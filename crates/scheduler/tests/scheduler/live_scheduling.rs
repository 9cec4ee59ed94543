//! `evictd-scheduler run` against an API server: pods are bound, or get a condition.

use crate::scheduler;
use evictd_testkit::program;
use evictd_testkit::testing::wait_until;
use evictd_testkit::{Actor, ApiServer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::time::Instant;

/// A cluster with a scheduler.
pub(crate) struct Live {
    pub(crate) api: ApiServer,
    pub(crate) admin: Actor,
    program: Child,
    pub(crate) kubeconfig: NamedTempFile,
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
    command.args(["run", "--kubeconfig"]).arg(kubeconfig.path());
    command.args(arguments);
    if !arguments
        .iter()
        .any(|argument| argument.starts_with("--secure-port"))
    {
        command.arg("--secure-port=0");
    }
    command.stderr(Stdio::null()).spawn().unwrap()
}

impl Live {
    /// With nodes of this many cpus.
    pub(crate) fn new(nodes: &[(&str, &str)]) -> Self {
        Self::at(ApiServer::start().unwrap(), nodes)
    }

    fn at(api: ApiServer, nodes: &[(&str, &str)]) -> Self {
        Self::with(api, nodes, &[])
    }

    pub(crate) fn with(api: ApiServer, nodes: &[(&str, &str)], arguments: &[&str]) -> Self {
        let kubeconfig = api.kubeconfig();
        Self::by(&kubeconfig, api, nodes, arguments)
    }

    /// With a scheduler that has this kubeconfig.
    pub(crate) fn by(
        credentials: &str,
        api: ApiServer,
        nodes: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let admin = api.actor("test");
        for (name, cpu) in nodes {
            node(&admin, name, cpu);
        }
        let mut kubeconfig = NamedTempFile::new().unwrap();
        write!(kubeconfig, "{credentials}").unwrap();
        let program = start(&kubeconfig, arguments);
        Self {
            api,
            admin,
            program,
            kubeconfig,
        }
    }

    /// One more scheduler of this cluster.
    pub(crate) fn another(&self, arguments: &[&str]) -> Child {
        start(&self.kubeconfig, arguments)
    }

    /// The kubeconfig of the scheduler.
    pub(crate) fn kubeconfig_path(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let program = Pid::from_raw(i32::try_from(self.program.id()).unwrap());
        kill(program, Signal::SIGTERM).unwrap();
    }

    /// Waits until the program has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the scheduler ends", || {
            status = self.program.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Waits until a pod meets a condition.
    pub(crate) fn until(&self, pod: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(&format!("{pod} is {what}"), || {
            found = self.admin.get("pods", pod).filter(|found| is(found));
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn bound(&self, pod: &str) -> String {
        let found = self.until(pod, "bound", |pod| pod["spec"]["nodeName"].is_string());
        found["spec"]["nodeName"].as_str().unwrap().to_owned()
    }

    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
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

pub(crate) fn node(admin: &Actor, name: &str, cpu: &str) {
    let amounts = json!({ "cpu": cpu, "memory": "8Gi", "pods": "110" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": amounts, "capacity": amounts },
    });
    admin.create(node).unwrap();
}

pub(crate) fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "priority": priority, "schedulerName": "default-scheduler", "containers": [{ "name": "main", "image": "none",
            "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } } }] },
    })
}

/// The condition `PodScheduled` of a pod.
pub(crate) fn condition(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    let found = conditions.find(|condition| condition["type"] == "PodScheduled");
    found.unwrap_or_default()
}

#[test]
fn pending_lists_the_waiting_pods_and_the_suggestions_for_one() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let secure = format!("--secure-port={port}");
    let allowed = "--authorization-always-allow-paths=/v1/pending";
    let arguments = [secure.as_str(), "--bind-address=127.0.0.1", allowed];
    let live = Live::with(ApiServer::start().unwrap(), &[("one", "2")], &arguments);
    live.admin.create(pod("large", "5", 0)).unwrap();
    live.until("default/large", "reported", |pod| {
        condition(pod)["reason"] == "Unschedulable"
    });
    let server = format!("https://127.0.0.1:{port}");
    let pending = |arguments: &[&str]| {
        let mut command = scheduler();
        command.args(["pending", "--insecure-skip-tls-verify", "--server", &server]);
        command.arg("--kubeconfig").arg(live.kubeconfig.path());
        command.args(arguments).env("COLUMNS", "80");
        String::from_utf8(program::run(&mut command, "").stdout).unwrap()
    };
    // The queue may change between two requests.
    wait_until("the pod is listed as tried", || {
        pending(&["--pod", "large"]).contains("unschedulable")
    });
    let page = pending(&["--pod", "large"]);
    assert!(page.contains("\n  one: 3 more cpu\n"), "{page}");
    assert!(page.contains("NodeUpdateNodeAllocatable"), "{page}");
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    assert_eq!(
        pending(&["--pod", "shop/none"]),
        "shop/none is not pending here: it has a node, was deleted, or no profile of this\nscheduler has its schedulerName.\n"
    );
    let large: Value = serde_json::from_str(&pending(&["--pod", "large", "-o", "json"])).unwrap();
    assert_eq!(
        large["help"],
        json!({ "feasible": 0, "remedies": { "one": [["3 more cpu"]] },
            "obstacles": { "one": "insufficient cpu by 3" },
            "blockers": ["no node is large enough: the pod asks for 5 of cpu, and the largest node has 2"] })
    );
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
fn s5_069_an_unschedulable_pod_gets_a_condition_and_is_bound_when_a_node_is_added() {
    let live = Live::new(&[("one", "1")]);
    live.admin.create(pod("large", "3", 0)).unwrap();
    let large = live.until("default/large", "reported", |pod| {
        condition(pod)["status"] == "False"
    });
    assert_eq!(condition(&large)["reason"], "Unschedulable");
    assert_eq!(condition(&large)["observedGeneration"], 1);
    let message = condition(&large)["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("0/1 nodes are available: 1 Insufficient cpu."),
        "{message}"
    );
    node(&live.admin, "two", "4");
    assert_eq!(live.bound("default/large"), "two");
}

#[test]
fn s4_028_a_pod_of_higher_priority_preempts_another() {
    let live = Live::new(&[("one", "2")]);
    live.admin.create(pod("low", "1500m", 0)).unwrap();
    assert_eq!(live.bound("default/low"), "one");
    live.admin.create(pod("high", "1500m", 1000)).unwrap();
    live.until("default/high", "nominated", |pod| {
        pod["status"]["nominatedNodeName"] == "one" || pod["spec"]["nodeName"] == "one"
    });
    wait_until("the victim terminates", || {
        let low = live.admin.get("pods", "default/low");
        low.is_none_or(|pod| {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let is_marked = conditions.any(|condition| {
                condition["type"] == "DisruptionTarget" && condition["observedGeneration"].is_u64()
            });
            is_marked && !pod["metadata"]["deletionTimestamp"].is_null()
        })
    });
    // As a kubelet ends a terminating pod. The server may have removed it already.
    let now = json!({ "gracePeriodSeconds": 0 });
    let _ = live.admin.delete("pods", "default/low", now);
    assert_eq!(live.bound("default/high"), "one");
    wait_until("the victim's event is there", || {
        !live.events("Preempted").is_empty()
    });
}

#[test]
fn s5_061_decisions_before_a_crash_are_not_made_again() {
    let mut live = Live::new(&[("one", "8"), ("two", "8")]);
    for round in 0..10 {
        let names: Vec<String> = (0..4).map(|index| format!("pod-{round}-{index}")).collect();
        for name in &names {
            live.admin.create(pod(name, "100m", 0)).unwrap();
        }
        // At any moment of the bindings.
        live.bound(&format!("default/{}", names[round % 4]));
        live.program.kill().unwrap();
        live.program.wait().unwrap();
        let before: Vec<Value> = names.iter().map(|name| node_of(&live, name)).collect();
        live.program = start(&live.kubeconfig, &["--leader-elect=false"]);
        for (name, before) in names.iter().zip(before) {
            let after = live.bound(&format!("default/{name}"));
            assert!(
                before.is_null() || before == after,
                "{name}: {before}, then {after}"
            );
        }
    }
    let log = live.api.log().into_iter();
    let bound = log.filter(|entry| entry.path.ends_with("/binding") && entry.status == 201);
    // The answer to a program that was killed meanwhile may be missing.
    let mut paths = BTreeSet::new();
    for entry in bound {
        assert!(paths.insert(entry.path.clone()), "{} twice", entry.path);
    }
}

pub(crate) fn node_of(live: &Live, name: &str) -> Value {
    node_of_pod(&live.admin, name)
}

pub(crate) fn node_of_pod(admin: &Actor, name: &str) -> Value {
    let pod = admin.get("pods", &format!("default/{name}"));
    pod.map_or(Value::Null, |pod| pod["spec"]["nodeName"].clone())
}

#[test]
fn another_scheduler_takes_over_when_the_lease_is_given_back() {
    let mut live = Live::new(&[("one", "8")]);
    live.admin.create(pod("first", "100m", 0)).unwrap();
    live.bound("default/first");
    let mut second = start(&live.kubeconfig, &["--leader-elect-retry-period=100ms"]);
    let holder = |live: &Live| {
        let lease = live.admin.get("leases", "kube-system/kube-scheduler");
        lease.map_or(Value::Null, |lease| lease["spec"]["holderIdentity"].clone())
    };
    let old = holder(&live);
    assert!(old.as_str().is_some_and(|old| !old.is_empty()));
    live.terminate();
    assert!(live.program.wait().unwrap().success());
    wait_until("another one leads", || {
        let now = holder(&live);
        now.as_str().is_some_and(|now| !now.is_empty()) && now != old
    });
    live.admin.create(pod("second", "100m", 0)).unwrap();
    live.bound("default/second");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// Creates the pod `wants`, and waits until its binding waits for a volume on node `one`.
pub(crate) fn create_waiting_for_volume(live: &Live) {
    let create = |object: Value| live.admin.create(object).unwrap();
    create(
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "late" },
        "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer" }),
    );
    create(json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data", "namespace": "default" },
        "spec": { "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } } }));
    let mut wants = pod("wants", "1", 0);
    wants["spec"]["volumes"] =
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    create(wants);
    let claim = || {
        live.admin
            .get("persistentvolumeclaims", "default/data")
            .unwrap()
    };
    let selected = "volume.kubernetes.io/selected-node";
    wait_until("the node is in the claim", || {
        claim()["metadata"]["annotations"][selected] == "one"
    });
}

/// Makes the volume for which the pod `wants` waits.
pub(crate) fn provide_volume(live: &Live) {
    let bound = json!({ "spec": { "volumeName": "made" }, "status": { "phase": "Bound" } });
    live.admin
        .merge("persistentvolumeclaims", "default/data", bound)
        .unwrap();
    let status = json!({ "status": { "phase": "Bound" } });
    // The first write does not set the status, which is a subresource.
    let _ = live
        .admin
        .merge("persistentvolumeclaims/status", "default/data", status);
    // A volume that is not there yet is awaited.
    let volume = json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "made" },
        "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "hostPath": { "path": "/made" } } });
    live.admin.create(volume).unwrap();
}

#[test]
fn s5_063_s5_094_claims_are_bound_and_the_node_is_nominated_before_the_pod_is_bound() {
    let live = Live::new(&[("one", "8")]);
    create_waiting_for_volume(&live);
    assert!(
        node_of(&live, "wants").is_null(),
        "bound before its volume is there"
    );
    live.until("default/wants", "nominated", |pod| {
        pod["status"]["nominatedNodeName"] == "one"
    });
    // It counts once on the node: a second pod of this size fits, and no third.
    live.admin.create(pod("beside", "7", 0)).unwrap();
    live.bound("default/beside");
    live.admin.create(pod("third", "1", 0)).unwrap();
    live.until("default/third", "reported", |pod| {
        condition(pod)["reason"] == "Unschedulable"
    });
    provide_volume(&live);
    assert_eq!(live.bound("default/wants"), "one");
}

#[test]
fn a_replacement_does_not_return_to_the_node_that_evicted_the_pod() {
    let mut config = NamedTempFile::new().unwrap();
    let profile =
        json!({ "plugins": { "multiPoint": { "enabled": [{ "name": "EvictdReturn" }] } } });
    let text = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false }, "profiles": [profile] });
    write!(config, "{text}").unwrap();
    let config = format!("--config={}", config.path().display());
    let nodes = [("large", "64"), ("small", "8")];
    let live = Live::with(ApiServer::start().unwrap(), &nodes, &[&config]);
    let pressure = |status: &str| {
        let conditions = json!([{ "type": "MemoryPressure", "status": status }]);
        let status = json!({ "status": { "conditions": conditions } });
        live.admin.merge("nodes/status", "large", status).unwrap();
    };
    pressure("True");
    let of_web = |name: &str| {
        let mut pod = pod(name, "10m", 0);
        pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": "web", "controller": true }]);
        pod
    };
    let mut evicted = of_web("evicted");
    evicted["spec"]["nodeName"] = json!("large");
    evicted["status"] = json!({ "phase": "Failed", "reason": "Evicted" });
    live.admin.create(evicted).unwrap();
    let mut count = 0;
    let mut next_is_on = |node: &str| {
        wait_until(&format!("a replacement goes to {node}"), || {
            count += 1;
            let name = format!("web-{count}");
            live.admin.create(of_web(&name)).unwrap();
            live.bound(&format!("default/{name}")) == node
        });
    };
    next_is_on("small");
    pressure("False");
    next_is_on("large");
    pressure("True");
    next_is_on("small");
    let now = json!({ "gracePeriodSeconds": 0 });
    live.admin.delete("pods", "default/evicted", now).unwrap();
    next_is_on("large");
}

#[test]
fn a_server_with_an_old_etcd_is_listed_without_streaming() {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.old_etcd = true);
    let live = Live::at(api, &[("one", "8")]);
    live.admin.create(pod("first", "1", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "one");
}

#[test]
fn a_crash_during_a_preemption_leads_to_no_second_set_of_victims() {
    for round in 0..100_u64 {
        let mut live = Live::new(&[("one", "2"), ("two", "2"), ("three", "2")]);
        for name in ["a", "b", "c"] {
            live.admin.create(pod(name, "1500m", 0)).unwrap();
        }
        for name in ["a", "b", "c"] {
            live.bound(&format!("default/{name}"));
        }
        live.admin.create(pod("high", "1500m", 1000)).unwrap();
        // From before the decision until after the deletion, in steps of a tenth of a millisecond.
        let seen = |live: &Live| {
            live.api
                .log()
                .iter()
                .any(|entry| entry.path.contains("/high"))
        };
        if round % 2 == 0 {
            wait_until("something is written", || seen(&live));
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(100 * round) {
            std::thread::yield_now();
        }
        live.program.kill().unwrap();
        live.program.wait().unwrap();
        live.program = start(&live.kubeconfig, &["--leader-elect=false"]);
        wait_until("the pod has its node", || {
            // As kubelets end terminating pods.
            for pod in live.admin.list("pods") {
                if !pod["metadata"]["deletionTimestamp"].is_null() {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let now = json!({ "gracePeriodSeconds": 0 });
                    let _ = live.admin.delete("pods", &format!("default/{name}"), now);
                }
            }
            node_of(&live, "high").is_string()
        });
        let left = live.admin.list("pods").into_iter();
        let left = left.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(
            left.count(),
            3,
            "round {round}: one victim and no other goes"
        );
    }
}

#[test]
fn s5_056_the_node_with_the_fewest_pods_is_chosen_among_equal_scores() {
    let mut config = NamedTempFile::new().unwrap();
    let all = json!({ "score": { "disabled": [{ "name": "*" }] } });
    let profile = json!({ "schedulerName": "default-scheduler", "plugins": all });
    let text = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false }, "profiles": [profile] });
    write!(config, "{text}").unwrap();
    let path = config.path().to_str().unwrap().to_owned();
    let nodes = [("one", "4"), ("two", "4"), ("three", "4")];
    let api = ApiServer::start().unwrap();
    let live = Live::with(api, &nodes, &["--config", &path]);
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        live.admin.create(pod(name, "0", 0)).unwrap();
    }
    let mut nodes = names.map(|name| live.bound(&format!("default/{name}")));
    nodes.sort();
    assert_eq!(nodes, ["one", "one", "three", "three", "two", "two"]);
}
