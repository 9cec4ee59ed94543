//! `evictd uninstall-node`, by hand and as a DaemonSet's preStop.

use crate::cluster::Cluster;
use evictd_testkit::{ApiServer, Fault, program};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;
use std::time::Duration;

/// Crossed by 100 MiB of the node's 192.
const LOW: &str = "110Mi";

impl Cluster {
    fn make_daemon_set(&self, finalizers: &Value) {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "evictd", "namespace": "shop", "finalizers": finalizers },
            "spec": { "selector": {}, "template": {} },
        });
        self.admin.create(object).unwrap();
    }

    /// What the container's preStop runs.
    fn pre_stop(&self) -> Output {
        let mut command = crate::evictd(&["uninstall-node", "-o", "json"]);
        command.args(["--if-daemonset-deleted", "shop/evictd", "--config"]);
        program::run(command.arg(self.node.path("evictd.yaml")), "")
    }

    /// Our taints and conditions on the Node.
    fn marks(&self) -> Vec<String> {
        let node = self.admin.get("nodes", "test").unwrap();
        let names = |list: &Value, key: &str| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.map(|one| one[key].as_str().unwrap_or_default().to_owned())
                .filter(|name| name.to_lowercase().starts_with("evictd"))
                .collect()
        };
        let taints = names(&node["spec"]["taints"], "key");
        [taints, names(&node["status"]["conditions"], "type")].concat()
    }
}

fn removed(output: &Output) -> Value {
    program::answer(output)
}

#[test]
fn a_pod_that_stops_for_another_reason_than_its_daemon_set_leaves_the_node_as_it_is() {
    let Some(cluster) = Cluster::new("a_pod_that_stops_for_another_reason") else {
        return;
    };
    let _stranger = cluster.run("0000-stranger", "--hold 100Mi");
    let daemon = cluster.daemon(LOW);
    daemon.eventually("the Node shows its pressure", |_| {
        cluster.marks().len() == 4
    });
    let before = cluster.admin.get("nodes", "test").unwrap();
    let stays = |why: &str| {
        let output = cluster.pre_stop();
        assert_eq!(removed(&output), json!([]), "{why}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(why), "{why}: {said}");
        assert!(
            said.contains("nothing was removed from this node"),
            "{said}"
        );
        let node = cluster.admin.get("nodes", "test").unwrap();
        assert_eq!(node["spec"], before["spec"], "{why}");
        assert_eq!(cluster.marks().len(), 4, "{why}");
    };
    // A rollout, a drain, a probe that failed.
    cluster.make_daemon_set(&json!([]));
    stays("DaemonSet shop/evictd is not being deleted");
    for code in [401, 403, 404, 500, 503] {
        cluster
            .api
            .fault(Fault::answer(code).on("get", "daemonsets"));
        stays(&code.to_string());
        cluster.api.clear_faults();
    }
    let hang = Fault::delay(Duration::from_mins(10));
    cluster.api.fault(hang.on("get", "daemonsets"));
    stays("no answer within 5 s");
    cluster.api.clear_faults();
    cluster.api.go_away();
    let output = cluster.pre_stop();
    assert_eq!(removed(&output), json!([]));
    cluster.api.come_back();
    assert_eq!(cluster.marks().len(), 4);
    assert_eq!(daemon.said("are no longer written"), 0);
}

#[test]
fn a_daemon_set_that_is_being_deleted_takes_its_marks_along_and_its_daemon_puts_none_back() {
    let Some(cluster) = Cluster::new("a_daemon_set_that_is_being_deleted") else {
        return;
    };
    let mut stranger = cluster.run("0000-stranger", "--hold 100Mi");
    let lines = format!("{}\nevictionPressureTransitionPeriod: 1s", cluster.lines());
    let hard = [("memory.available", LOW)];
    let daemon = crate::daemon::Daemon::start(&cluster.node, &hard, &lines);
    daemon.eventually("the Node shows its pressure", |_| {
        cluster.marks().len() == 4
    });
    cluster.make_daemon_set(&json!(["foregroundDeletion"]));
    let deleted = cluster.admin.delete("daemonsets", "shop/evictd", json!({}));
    assert!(deleted.unwrap()["metadata"]["deletionTimestamp"].is_string());
    let all = json!([{ "node": "test", "removed": [
        "taint evictd.dev/memory-pressure", "condition EvictdDiskPressure",
        "condition EvictdMemoryPressure", "condition EvictdPIDPressure",
    ] }]);
    assert_eq!(removed(&cluster.pre_stop()), all);
    assert_eq!(cluster.marks(), [""; 0]);
    // What would be told now, were it still told.
    stranger.end();
    daemon.eventually("the pressure is over", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == false
    });
    daemon.seconds_pass(1);
    assert_eq!(cluster.marks(), [""; 0]);
    assert_eq!(daemon.said("are no longer written"), 1);
}

#[test]
fn a_daemon_set_that_is_gone_takes_its_marks_along_though_no_daemon_answers() {
    let Some(cluster) = Cluster::new("a_daemon_set_that_is_gone") else {
        return;
    };
    let _stranger = cluster.run("0000-stranger", "--hold 100Mi");
    let daemon = cluster.daemon(LOW);
    daemon.eventually("the Node shows its pressure", |_| {
        cluster.marks().len() == 4
    });
    drop(daemon);
    let output = cluster.pre_stop();
    assert_eq!(removed(&output)[0]["node"], "test");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cleaned anyway"), "{said}");
    assert_eq!(cluster.marks(), [""; 0]);
}

#[test]
fn uninstalling_removes_everything_of_evictd_and_nothing_else() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let place = tempfile::tempdir().unwrap();
    let (kubeconfig, config) = (place.path().join("k"), place.path().join("c.yaml"));
    fs::write(&kubeconfig, api.kubeconfig()).unwrap();
    let text = format!(
        "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\nnodeName: a\nkubernetes: {{kubeconfig: {}}}\n",
        kubeconfig.display()
    );
    fs::write(&config, text).unwrap();
    for name in ["a", "b", "c"] {
        let conditions = json!([{ "type": "EvictdPIDPressure", "status": "True" }, { "type": "Ready", "status": "True" }]);
        let ours = json!({ "key": "evictd.dev/pid-pressure", "effect": "NoSchedule" });
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "annotations": { "evictd.dev/note": "x", "theirs": "y" } },
            "spec": { "taints": [{ "key": "team", "effect": "NoSchedule" }, ours] },
            "status": { "conditions": conditions },
        });
        admin.create(node).unwrap();
        let annotations = json!({
            "evictd.dev/evicted": "{}", "evictd.dev/eviction": "never", "theirs": "y",
        });
        for (pod, annotations) in [("evicted", annotations), ("other", Value::Null)] {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": format!("{pod}-{name}"), "namespace": "default", "annotations": annotations },
                "spec": { "nodeName": name, "containers": [{ "name": "main", "image": "none" }] },
                "status": { "phase": "Failed", "reason": "Evicted" },
            });
            admin.create(pod).unwrap();
        }
    }
    let uninstall = |more: &[&str]| -> Value {
        let mut command = crate::evictd(&["uninstall-node", "-o", "json", "--config"]);
        program::answer(&program::run(command.arg(&config).args(more), ""))
    };
    let ours = |node: &str| {
        let of_pod = format!("annotation evictd.dev/evicted of pod default/evicted-{node}");
        let of_node = [
            "taint evictd.dev/pid-pressure",
            "annotation evictd.dev/note",
            "condition EvictdPIDPressure",
        ];
        json!({ "node": node, "removed": [of_node[0], of_node[1], of_node[2], &of_pod] })
    };
    assert_eq!(uninstall(&[]), json!([ours("a")]));
    let untouched = admin.get("pods", "default/evicted-b").unwrap();
    assert_eq!(
        untouched["metadata"]["annotations"]["evictd.dev/evicted"],
        "{}"
    );
    let nothing = json!({ "node": "a", "removed": [] });
    assert_eq!(
        uninstall(&["--all"]),
        json!([nothing, ours("b"), ours("c")])
    );
    for name in ["a", "b", "c"] {
        let node = admin.get("nodes", name).unwrap();
        let taints = json!([{ "key": "team", "effect": "NoSchedule" }]);
        assert_eq!(node["spec"]["taints"], taints);
        assert_eq!(node["metadata"]["annotations"], json!({ "theirs": "y" }));
        assert_eq!(
            node["status"]["conditions"],
            json!([{ "type": "Ready", "status": "True" }])
        );
        let pod = admin
            .get("pods", &format!("default/evicted-{name}"))
            .unwrap();
        let theirs = json!({ "evictd.dev/eviction": "never", "theirs": "y" });
        assert_eq!(pod["metadata"]["annotations"], theirs);
        assert_eq!(pod["status"]["reason"], "Evicted");
    }
}
