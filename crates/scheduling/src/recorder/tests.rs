//! Which durations one attempt has, by plugin and by extension point.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use super::Recorder;
use crate::config::Point;
use crate::framework::Framework;
use crate::scheduling_algorithm::SchedulingAlgorithm;
use evictd_placement::{Chosen, Cluster};
use evictd_test_objects::{Object, node, pod};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps a line for each call. All durations are zero.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Lines {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Recorder for Lines {
    fn samples_plugins(&self) -> bool {
        true
    }

    fn on_point(&self, _: &str, point: Point, status: &'static str, _: Duration) {
        self.add(format!("{point:?} {status}"));
    }

    fn on_plugin(&self, plugin: &str, point: Point, status: &'static str, _: Duration) {
        self.add(format!("{plugin} {point:?} {status}"));
    }

    fn on_normalized(&self, plugin: &str, _: Duration) {
        self.add(format!("{plugin} normalized"));
    }

    fn on_evaluated(&self, _: &str, plugin: &str, point: Point, count: u64) {
        self.add(format!("{plugin} {point:?} evaluated {count}"));
    }
}

/// The lines of an attempt with two nodes, and of Reserve on the chosen one.
fn attempt(incoming: &Object) -> Vec<String> {
    let mut cluster = Cluster::new();
    let mut framework = Framework::of_default(&mut cluster);
    let lines = Arc::new(Lines::default());
    framework.recorder = Arc::clone(&lines) as Arc<dyn Recorder>;
    for name in ["one", "two"] {
        let node = node(name)
            .label("zone", name)
            .cpu("4")
            .resource("pods", "9");
        assert!(cluster.add_node(&node.parse()));
    }
    let wire: evictd_pod::wire::Pod = incoming.parse();
    let pod = cluster.pod(wire.clone()).unwrap();
    let decided = SchedulingAlgorithm::default().schedule(&framework, &cluster, &pod);
    if let Ok(result) = decided {
        let chosen = Chosen {
            cluster: &cluster,
            pod: &wire,
            node: cluster.node_name(result.chosen),
        };
        let on_node = (&pod, result.chosen);
        assert!(framework.reserve_and_permit(chosen, on_node).is_ok());
    }
    lines.0.lock().unwrap().clone()
}

fn count(lines: &[String], line: &str) -> usize {
    lines.iter().filter(|known| *known == line).count()
}

#[test]
fn a_filter_without_work_is_skipped_in_pre_filter_and_not_evaluated() {
    let lines = attempt(&pod("web").cpu("1"));
    for line in [
        "NodeResourcesFit PreFilter Success",
        "NodeResourcesFit PreFilter evaluated 1",
        "NodeResourcesFit Filter evaluated 2",
        "NodeAffinity PreFilter Skip",
        "InterPodAffinity PreFilter Skip",
        "PreFilter Success",
    ] {
        assert_eq!(count(&lines, line), 1, "{line} in {lines:#?}");
    }
    assert_eq!(count(&lines, "NodeAffinity PreFilter evaluated 1"), 0);
}

#[test]
fn reserve_and_the_normalization_of_scores_are_measured_by_plugin() {
    let preferred = json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": {
            "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["two"] }] } }] } } } });
    let lines = attempt(&pod("web").cpu("1").merge(preferred));
    for line in [
        "NodeAffinity normalized",
        "Score Success",
        "VolumeBinding Reserve Success",
        "DynamicResources Reserve Success",
        "Reserve Success",
        "Permit Success",
    ] {
        assert_eq!(count(&lines, line), 1, "{line} in {lines:#?}");
    }
    // It has no normalization.
    assert_eq!(count(&lines, "NodeResourcesFit normalized"), 0);
}

/// The results of such a pod depend on other pods and are not kept for the next one.
#[test]
fn each_attempt_runs_pre_filter_once() {
    let spread = json!({ "spec": { "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "web" } } }] } });
    let lines = attempt(&pod("web").label("app", "web").cpu("1").merge(spread));
    assert_eq!(count(&lines, "PreFilter Success"), 1, "{lines:#?}");
    assert_eq!(
        count(&lines, "PodTopologySpread PreFilter Success"),
        1,
        "{lines:#?}"
    );
}

#[test]
fn a_rejection_has_its_own_status() {
    let claim = json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "none" } }] } });
    let lines = attempt(&pod("web").merge(claim));
    let status = "UnschedulableAndUnresolvable";
    assert_eq!(
        count(&lines, &format!("PreFilter {status}")),
        1,
        "{lines:#?}"
    );
    assert_eq!(
        count(&lines, &format!("VolumeRestrictions PreFilter {status}")),
        1,
        "{lines:#?}"
    );
    let lines = attempt(&pod("web").cpu("9"));
    assert_eq!(
        count(&lines, &format!("NodeResourcesFit Filter {status}")),
        2,
        "{lines:#?}"
    );
}
