//! The plugins that go by what evictd's agents say.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use evictd_placement::Cluster;
use evictd_pod::wire;
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use evictd_scheduling::{Framework, PluginName, waking_events};
use evictd_test_objects as objects;
use serde_json::{Value, from_value, json};

fn framework(cluster: &mut Cluster) -> Framework {
    let enabled = json!([{ "name": "EvictdPressure" }, { "name": "EvictdHeadroom", "weight": 2 }, { "name": "EvictdReturn" }]);
    let wire: KubeSchedulerConfiguration = from_value(json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "plugins": { "multiPoint": { "enabled": enabled } } }],
    }))
    .unwrap();
    let config = Configuration::new(&wire, &[]).unwrap();
    Framework::new(cluster, &config.profiles[0], &[]).unwrap()
}

fn node(name: &str, condition: &str, close_to: &str) -> Value {
    let node = objects::node(name).cpu("4").memory("8Gi");
    let node = node.annotation("evictd.dev/close-to", close_to);
    node.condition(condition, "True")
        .condition("EvictdPIDPressure", "False")
        .json()
}

fn pod(name: &str, spec: Value) -> Value {
    let owner = json!({ "kind": "ReplicaSet", "name": "web", "controller": true });
    let pod = objects::pod(name).namespace("shop").spec(spec);
    pod.set("/metadata/ownerReferences", json!([owner])).json()
}

struct Scene {
    cluster: Cluster,
    framework: Framework,
}

impl Scene {
    fn new(nodes: &[Value]) -> Self {
        let mut cluster = Cluster::new();
        let framework = framework(&mut cluster);
        for node in nodes {
            cluster.update_node(&from_value(node.clone()).unwrap());
        }
        Self { cluster, framework }
    }

    /// The nodes on which the pod fits, and their scores for headroom.
    fn fits(&mut self, pod: Value) -> (Vec<String>, Vec<i64>) {
        let pod = self.cluster.pod(from_value(pod).unwrap()).unwrap();
        let filtered = self.framework.filter(&self.cluster, &pod);
        let scores = self
            .framework
            .score(&self.cluster, &pod, &filtered.feasible);
        let plugin_scores = scores.unwrap_or_default().plugins.into_iter();
        let plugin_scores =
            plugin_scores.filter(|plugin_scores| plugin_scores.name == "EvictdHeadroom");
        let headroom = plugin_scores
            .flat_map(|plugin_scores| plugin_scores.normalized)
            .collect();
        let names = filtered.feasible.iter();
        let names = names.map(|id| self.cluster.node_name(*id).to_owned());
        let names = names.collect();
        self.cluster.release(pod);
        (names, headroom)
    }
}

#[test]
fn pods_stay_away_from_pressure_unless_they_tolerate_it() {
    let mut tainted = node("tainted", "Ready", "");
    tainted["spec"] =
        json!({ "taints": [{ "key": "evictd.dev/disk-pressure", "effect": "NoSchedule" }] });
    let mut scene = Scene::new(&[
        node("calm", "Ready", ""),
        node("memory", "EvictdMemoryPressure", ""),
        // That of the kubelet is the business of its taint.
        node("kubelets", "MemoryPressure", ""),
        tainted,
    ]);
    assert_eq!(scene.fits(pod("new", json!({}))).0, ["calm", "kubelets"]);
    let tolerant =
        json!({ "tolerations": [{ "key": "evictd.dev/memory-pressure", "operator": "Exists" }] });
    assert_eq!(
        scene.fits(pod("new", tolerant)).0,
        ["calm", "memory", "kubelets"]
    );
    // It is over.
    let calm = node("memory", "Ready", "");
    scene.cluster.update_node(&from_value(calm).unwrap());
    assert_eq!(
        scene.fits(pod("new", json!({}))).0,
        ["calm", "memory", "kubelets"]
    );
}

#[test]
fn a_node_close_to_a_threshold_scores_less() {
    let mut scene = Scene::new(&[
        node("far", "Ready", ""),
        node("close", "Ready", "MemoryPressure"),
        node("closer", "Ready", "DiskPressure,MemoryPressure"),
        node("beyond", "MemoryPressure", "DiskPressure"),
    ]);
    let (names, headroom) = scene.fits(pod("new", json!({})));
    assert_eq!(names, ["far", "close", "closer", "beyond"]);
    assert_eq!(headroom, [100, 50, 0, 0]);
}

#[test]
fn a_replacement_is_not_placed_on_the_old_node_under_pressure() {
    let pressed = [
        node("one", "MemoryPressure", ""),
        node("two", "MemoryPressure", ""),
    ];
    let mut scene = Scene::new(&pressed);
    let mut evicted = pod("old", json!({ "nodeName": "one" }));
    evicted["status"] = json!({ "phase": "Failed", "reason": "Evicted" });
    let evicted: wire::Pod = from_value(evicted).unwrap();
    scene.cluster.add_pod(evicted.clone()).unwrap();
    assert_eq!(scene.fits(pod("new", json!({}))).0, ["two"]);
    let mut stranger = pod("stranger", json!({}));
    stranger["metadata"]["ownerReferences"][0]["name"] = json!("other");
    assert_eq!(scene.fits(stranger).0, ["one", "two"]);
    // The pressure ends, or the evicted pod is removed.
    let calm = node("one", "Ready", "");
    scene.cluster.update_node(&from_value(calm).unwrap());
    assert_eq!(scene.fits(pod("new", json!({}))).0, ["one", "two"]);
    scene
        .cluster
        .update_node(&from_value(pressed[0].clone()).unwrap());
    assert_eq!(scene.fits(pod("new", json!({}))).0, ["two"]);
    scene.cluster.remove_evicted(&evicted.metadata);
    assert_eq!(scene.fits(pod("new", json!({}))).0, ["one", "two"]);
}

#[test]
fn a_repeated_node_report_changes_nothing() {
    let mut scene = Scene::new(&[node("one", "Ready", "DiskPressure")]);
    let before = scene.cluster.changes().now();
    let (sizes, told) = (scene.cluster.sizes(), node("one", "Ready", "DiskPressure"));
    scene.cluster.update_node(&from_value(told).unwrap());
    assert_eq!(scene.cluster.changes().now(), before);
    assert_eq!(scene.cluster.sizes(), sizes);
    let other = node("one", "Ready", "");
    scene.cluster.update_node(&from_value(other).unwrap());
    assert!(scene.cluster.changes().of_all() > before);
}

#[test]
fn every_event_wakes_a_pod_that_a_custom_plugin_rejected() {
    let events = waking_events([PluginName::Other].into_iter().collect());
    let of_all = waking_events(PluginName::ALL.iter().copied().collect());
    assert_eq!(events.len(), of_all.len());
    assert!(events.len() > 20, "{events:?}");
}
