//! The rows about one decision: filters in their order, the words, and the scores, each in a small cluster.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::{Cluster, Pod};
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use evictd_scheduling::{Filtered, Framework, PostFilterResult, PreemptionInput, Scores, Verdict};
use evictd_test_objects::{self as objects, Object};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A cluster, the profile that decides, and what it is asked about.
struct Scene {
    cluster: Cluster,
    framework: Framework,
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A node with 4 cpus and 8 GiB.
fn node(name: &str, more: Value) -> Value {
    let node = objects::node(name).label("kubernetes.io/hostname", name);
    let node = node.cpu("4").memory("8Gi").resource("pods", "10");
    node.merge(json!({ "spec": {} })).merge(more).json()
}

/// A pod of the application `web` that asks for nothing.
fn pod(name: &str, more: Value) -> Value {
    objects::pod(name).label("app", "web").merge(more).json()
}

fn merge(into: &mut Value, from: Value) {
    *into = Object::from(into.take()).merge(from).json();
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": memory } } }] } })
}

impl Scene {
    fn new(nodes: impl IntoIterator<Item = Value>, pods: impl IntoIterator<Item = Value>) -> Self {
        Self::with(&json!({}), nodes, pods)
    }

    /// With a profile that differs from the default one.
    fn with(
        profile: &Value,
        nodes: impl IntoIterator<Item = Value>,
        pods: impl IntoIterator<Item = Value>,
    ) -> Self {
        let wire: KubeSchedulerConfiguration = object(json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile] }));
        let config = Configuration::new(&wire, &[]).unwrap();
        let mut cluster = Cluster::new();
        let framework = Framework::new(&mut cluster, &config.profiles[0], &[]).unwrap();
        for node in nodes {
            assert!(cluster.add_node(&object(node)));
        }
        for pod in pods {
            cluster.add_pod(object(pod)).unwrap();
        }
        Self { cluster, framework }
    }

    fn pod(&mut self, pod: Value) -> Pod {
        self.cluster.pod(object(pod)).unwrap()
    }

    fn filter(&mut self, incoming: Value) -> (Pod, Filtered) {
        let pod = self.pod(incoming);
        let filtered = self.framework.filter(&self.cluster, &pod);
        (pod, filtered)
    }

    fn scores(&mut self, incoming: Value) -> Scores {
        let (pod, filtered) = self.filter(incoming);
        self.framework
            .score(&self.cluster, &pod, &filtered.feasible)
            .unwrap()
    }

    /// Raw and normalized scores of a plugin, by node in order.
    fn of(&mut self, plugin: &str, incoming: Value) -> Vec<(i64, i64)> {
        let scores = self.scores(incoming);
        let plugin_scores = scores
            .plugins
            .into_iter()
            .find(|plugin_scores| plugin_scores.name == plugin);
        let plugin_scores =
            plugin_scores.unwrap_or_else(|| panic!("{plugin} left the choice to others"));
        plugin_scores
            .raw
            .into_iter()
            .zip(plugin_scores.normalized)
            .collect()
    }

    /// The words of every node that will not do, and the plugin that says them.
    fn rejected(&mut self, incoming: Value) -> BTreeMap<String, (String, String)> {
        let (pod, filtered) = self.filter(incoming);
        let verdicts = self.cluster.node_ids().zip(filtered.verdicts.clone());
        let rejected = verdicts.filter(|(_, verdict)| *verdict != Verdict::Feasible);
        let words = rejected.map(|(id, verdict)| {
            let plugin = match verdict {
                Verdict::Rejected(index, _) => self.framework.filters[index].name(),
                _ => "",
            };
            let words = filtered.reasons_on(&self.framework, &self.cluster, &pod, id);
            let words = words.join(", ");
            (
                self.cluster.node_name(id).to_owned(),
                (plugin.to_owned(), words),
            )
        });
        words.collect()
    }

    fn failure(&mut self, incoming: Value) -> PostFilterResult {
        let (pod, filtered) = self.filter(incoming);
        let input = PreemptionInput::default();
        self.framework
            .post_filter(&self.cluster, &pod, &filtered, input)
            .unwrap()
    }
}

#[test]
fn s5_043_pre_filter_node_names_are_intersected_and_an_empty_set_ends_the_cycle() {
    let field = |name: &str| json!({ "key": "metadata.name", "operator": "In", "values": [name] });
    let affinity = |fields: Value| {
        json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": fields }] } } } } })
    };
    let mut scene = Scene::new([node("one", json!({})), node("two", json!({}))], []);
    let narrowed = scene.rejected(pod("in", affinity(json!([field("one")]))));
    assert_eq!(
        narrowed["two"],
        (
            String::new(),
            "node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned()
        )
    );
    let failed = scene.failure(pod("in", affinity(json!([field("one"), field("two")]))));
    assert_eq!(
        failed.fit_error,
        "0/2 nodes are available: pod affinity terms conflict."
    );
}

#[test]
fn s5_052_a_pre_filter_that_named_nodes_has_rejected_the_pod_even_if_it_excluded_none() {
    let names = json!([{ "key": "metadata.name", "operator": "In", "values": ["one"] }]);
    let mut large = pod("in", requests("64", "1Gi"));
    merge(
        &mut large,
        json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": names }] } } } } }),
    );
    for nodes in [&["one"][..], &["one", "two"]] {
        let mut scene = Scene::new(nodes.iter().map(|name| node(name, json!({}))), []);
        let failed = scene.failure(large.clone());
        let plugins: Vec<&str> = failed.plugins.iter().map(String::as_str).collect();
        assert_eq!(plugins, ["NodeAffinity", "NodeResourcesFit"], "{nodes:?}");
    }
}

#[test]
fn s5_044_a_feasible_nominated_node_is_the_only_one_that_is_tried() {
    let mut scene = Scene::new([node("one", json!({})), node("two", json!({}))], []);
    let nominated = |node: &str| pod("in", json!({ "status": { "nominatedNodeName": node } }));
    let (_, filtered) = scene.filter(nominated("two"));
    assert_eq!(filtered.verdicts, [Verdict::NotTried, Verdict::Feasible]);
    let (_, filtered) = scene.filter(nominated("gone"));
    assert_eq!(filtered.feasible.len(), 2);
}

#[test]
fn s5_045_the_first_filter_that_rejects_is_reported() {
    let tainted = json!({ "spec": { "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] } });
    let mut scene = Scene::new([node("one", tainted)], []);
    let told = scene.rejected(pod("in", requests("64", "1Gi")));
    assert_eq!(
        told["one"],
        (
            "NodeUnschedulable".to_owned(),
            "node(s) were unschedulable".to_owned()
        )
    );
}

#[test]
fn s5_049_a_nominated_pod_counts_as_placed() {
    let mut coming = pod("coming", requests("3", "1Gi"));
    merge(
        &mut coming,
        json!({ "spec": { "priority": 10 }, "status": { "nominatedNodeName": "one" } }),
    );
    let mut scene = Scene::new([node("one", json!({}))], [coming]);
    let told = scene.rejected(pod("in", requests("2", "1Gi")));
    assert_eq!(told["one"].1, "Insufficient cpu");
    let mut higher = pod("in", requests("2", "1Gi"));
    merge(&mut higher, json!({ "spec": { "priority": 11 } }));
    assert!(scene.rejected(higher).is_empty());
}

#[test]
fn s5_051_s5_102_reasons_are_counted_and_sorted_as_text() {
    let nodes = (0..11).map(|index| node(&format!("node-{index}"), json!({})));
    let tainted = node(
        "tainted",
        json!({ "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] } }),
    );
    let mut scene = Scene::new(nodes.chain([tainted]), []);
    let failed = scene.failure(pod("in", requests("5", "1Gi")));
    let words =
        "0/12 nodes are available: 1 node(s) had untolerated taint(s), 11 Insufficient cpu.";
    assert_eq!(failed.fit_error, words);
    let more = "no new claims to deallocate, preemption: 0/12 nodes are available: \
                12 Preemption is not helpful for scheduling.";
    assert_eq!(failed.message.unwrap(), format!("{words} {more}"));
    let plugins: Vec<&str> = failed.plugins.iter().map(String::as_str).collect();
    assert_eq!(plugins, ["NodeResourcesFit", "TaintToleration"]);
}

#[test]
fn s5_052_a_missing_claim_is_reported_by_the_first_plugin_that_needs_it() {
    let claims = json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "nope" } }] } });
    let mut scene = Scene::new([node("one", json!({}))], []);
    let failed = scene.failure(pod("in", claims));
    assert_eq!(
        failed.message.unwrap(),
        "0/1 nodes are available: persistentvolumeclaim \"nope\" not found. not found"
    );
    assert!(failed.plugins.contains("VolumeRestrictions"));
    assert!(failed.plan.is_none(), "preemption is not tried");
}

#[test]
fn s5_053_without_the_preemption_plugin_no_pod_is_evicted() {
    let full = pod("low", requests("4", "1Gi"));
    let mut full = full;
    merge(&mut full, json!({ "spec": { "nodeName": "one" } }));
    let mut high = pod("in", requests("1", "1Gi"));
    merge(&mut high, json!({ "spec": { "priority": 10 } }));
    let mut scene = Scene::new([node("one", json!({}))], [full.clone()]);
    assert!(scene.failure(high.clone()).plan.unwrap().choice().is_some());
    let profile =
        json!({ "plugins": { "multiPoint": { "disabled": [{ "name": "DefaultPreemption" }] } } });
    let mut scene = Scene::with(&profile, [node("one", json!({}))], [full]);
    let failed = scene.failure(high);
    assert!(failed.plan.is_none());
    assert_eq!(
        failed.message.unwrap(),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
    );
}

#[test]
fn s5_054_one_feasible_node_is_not_scored() {
    let mut scene = Scene::new([node("one", json!({}))], []);
    let (pod, filtered) = scene.filter(pod("in", json!({})));
    assert_eq!(
        scene
            .framework
            .score(&scene.cluster, &pod, &filtered.feasible),
        None
    );
}

#[test]
fn s5_055_totals_are_sums_of_weighted_normalized_scores() {
    let mut scene = Scene::new([node("one", json!({})), node("two", json!({}))], []);
    let scores = scene.scores(pod("in", requests("1", "1Gi")));
    let sum = |index: usize| {
        scores
            .plugins
            .iter()
            .map(|plugin_scores| plugin_scores.normalized[index] * plugin_scores.weight)
            .sum::<i64>()
    };
    assert_eq!(scores.totals, [sum(0), sum(1)]);
    assert!(scores.skipped.contains(&"NodeAffinity".to_owned()));
}

#[test]
fn s5_079_a_request_above_allocatable_is_unresolvable() {
    let mut scene = Scene::new([node("one", json!({}))], []);
    let (_, filtered) = scene.filter(pod("in", requests("5", "1Gi")));
    let code = filtered.code(filtered.verdicts[0]).unwrap();
    assert_eq!(code.as_str(), "UnschedulableAndUnresolvable");
}

#[test]
fn s5_080_s5_081_s5_082_cordons_node_names_and_taints() {
    let nodes = [
        node("cordoned", json!({ "spec": { "unschedulable": true } })),
        node(
            "tainted",
            json!({ "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] } }),
        ),
        node("other", json!({})),
    ];
    let mut scene = Scene::new(nodes, []);
    let told = scene.rejected(pod("in", json!({ "spec": { "nodeName": "" } })));
    assert_eq!(told["cordoned"].1, "node(s) were unschedulable");
    assert_eq!(told["tainted"].1, "node(s) had untolerated taint(s)");
    let tolerates = json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } });
    assert!(scene.rejected(pod("in", tolerates)).is_empty());
    let named = scene.rejected(pod("in", json!({ "spec": { "nodeName": "other" } })));
    assert_eq!(named.len(), 2);
}

#[test]
fn s5_083_untolerated_prefer_no_schedule_taints_lower_the_score() {
    let taint = |key: &str| json!({ "key": key, "effect": "PreferNoSchedule" });
    let nodes = [
        node("none", json!({})),
        node("one", json!({ "spec": { "taints": [taint("a")] } })),
        node(
            "three",
            json!({ "spec": { "taints": [taint("a"), taint("b"), taint("c")] } }),
        ),
    ];
    let mut scene = Scene::new(nodes, []);
    assert_eq!(
        scene.of("TaintToleration", pod("in", json!({}))),
        [(0, 100), (1, 67), (3, 0)]
    );
    let tolerates = |effect: &str| json!({ "spec": { "tolerations": [{ "key": "a", "operator": "Exists", "effect": effect }] } });
    assert_eq!(
        scene.of("TaintToleration", pod("in", tolerates("PreferNoSchedule"))),
        [(0, 100), (0, 100), (2, 0)]
    );
    assert_eq!(
        scene.of("TaintToleration", pod("in", tolerates("NoSchedule")))[1].0,
        1
    );
}

#[test]
fn s5_084_preferred_and_added_node_affinity() {
    let label = |value: &str| json!({ "metadata": { "labels": { "disk": value } } });
    let nodes = || {
        [
            node("ssd", label("ssd")),
            node("hdd", label("hdd")),
            node("none", json!({})),
        ]
    };
    let wants = |weight: i64, value: &str| {
        json!({ "weight": weight, "preference": { "matchExpressions": [
            { "key": "disk", "operator": "In", "values": [value] }] } })
    };
    let prefers = json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [wants(3, "ssd"), wants(1, "hdd"), { "weight": 9, "preference": {} }] } } } });
    let mut scene = Scene::new(nodes(), []);
    assert_eq!(
        scene.of("NodeAffinity", pod("in", prefers)),
        [(3, 100), (1, 33), (0, 0)]
    );
    let added = json!({ "pluginConfig": [{ "name": "NodeAffinity", "args": { "addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "disk", "operator": "Exists" }] }] } } } }] });
    let mut scene = Scene::with(&added, nodes(), []);
    let told = scene.rejected(pod("in", json!({})));
    assert_eq!(
        told["none"].1,
        "node(s) didn't match scheduler-enforced node affinity"
    );
}

#[test]
fn s5_085_s5_086_least_allocated_scores_and_minimum_requests() {
    let mut there = pod("there", requests("2", "2Gi"));
    merge(&mut there, json!({ "spec": { "nodeName": "busy" } }));
    let nodes = || [node("busy", json!({})), node("idle", json!({}))];
    let mut scene = Scene::new(nodes(), [there.clone()]);
    // busy: cpu 4000 - 3000 of 4000, memory 8 - 3 of 8 GiB.
    assert_eq!(
        scene.of("NodeResourcesFit", pod("in", requests("1", "1Gi"))),
        [(43, 43), (81, 81)]
    );
    // A container that says nothing counts 100m and 200 MiB: 97 and 97 on the idle node.
    assert_eq!(scene.of("NodeResourcesFit", pod("in", json!({})))[1].0, 97);
    let strategy = |strategy: Value| json!({ "pluginConfig": [{ "name": "NodeResourcesFit", "args": { "scoringStrategy": strategy } }] });
    let mut scene = Scene::with(
        &strategy(json!({ "type": "MostAllocated" })),
        nodes(),
        [there.clone()],
    );
    assert_eq!(
        scene.of("NodeResourcesFit", pod("in", requests("1", "1Gi"))),
        [(56, 56), (18, 18)]
    );
    let shape = json!({ "type": "RequestedToCapacityRatio", "resources": [{ "name": "cpu", "weight": 1 }],
        "requestedToCapacityRatio": { "shape": [{ "utilization": 0, "score": 0 }, { "utilization": 100, "score": 10 }] } });
    let mut scene = Scene::with(&strategy(shape), nodes(), [there]);
    assert_eq!(
        scene.of("NodeResourcesFit", pod("in", requests("1", "1Gi"))),
        [(75, 75), (25, 25)]
    );
}

#[test]
fn s5_087_a_pod_that_balances_a_node_scores_higher_there() {
    let mut there = pod("there", requests("3", "1Gi"));
    merge(&mut there, json!({ "spec": { "nodeName": "uneven" } }));
    let mut scene = Scene::new(
        [node("uneven", json!({})), node("idle", json!({}))],
        [there],
    );
    // uneven: |3/4 - 1/8| / 2 before, |3/4 - 5/8| / 2 after.
    let scores = scene.of(
        "NodeResourcesBalancedAllocation",
        pod("in", requests("0", "4Gi")),
    );
    assert_eq!(scores, [(87, 87), (62, 62)]);
    let scores = scene.scores(pod("in", json!({})));
    assert!(
        scores
            .skipped
            .contains(&"NodeResourcesBalancedAllocation".to_owned())
    );
}

#[test]
fn s5_089_preferred_affinity_of_the_pod_and_of_existing_pods() {
    let on = |name: &str, node: &str, more: Value| {
        let mut pod = pod(
            name,
            json!({ "metadata": { "labels": { "app": name } }, "spec": { "nodeName": node } }),
        );
        merge(&mut pod, more);
        pod
    };
    let term = |app: &str| json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } });
    let likes_web = json!({ "spec": { "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term("web")] } } } });
    let pods = [
        on("db", "one", json!({})),
        on("cache", "two", json!({})),
        on("fan", "three", likes_web),
    ];
    let nodes = ["one", "two", "three"].map(|name| node(name, json!({})));
    let mut scene = Scene::new(nodes, pods);
    let prefers = json!({ "spec": { "affinity": {
        "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 3, "podAffinityTerm": term("db") }] },
        "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": term("cache") }] } } } });
    assert_eq!(
        scene.of("InterPodAffinity", pod("in", prefers)),
        [(3, 100), (-1, 0), (1, 50)]
    );
}

#[test]
fn s5_090_an_empty_selector_counts_only_the_pod_itself() {
    let zone = |name: &str| json!({ "metadata": { "labels": { "zone": name } } });
    let mut there = pod("there", json!({ "spec": { "nodeName": "a" } }));
    there["metadata"]["labels"]["app"] = json!("web");
    let mut scene = Scene::new([node("a", zone("a")), node("b", zone("b"))], [there]);
    let spread = |selector: Value| {
        json!({ "spec": { "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector }] } })
    };
    assert!(scene.rejected(pod("in", spread(json!({})))).is_empty());
    let told = scene.rejected(pod(
        "in",
        spread(json!({ "matchLabels": { "app": "web" } })),
    ));
    assert_eq!(
        told["a"].1,
        "node(s) didn't match pod topology spread constraints"
    );
}

#[test]
fn s5_091_s5_101_pods_of_a_service_are_spread_by_default_constraints() {
    let zone =
        |name: &str| json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": name } } });
    let there = pod("there", json!({ "spec": { "nodeName": "a" } }));
    let mut scene = Scene::new([node("a", zone("a")), node("b", zone("b"))], [there]);
    let skipped = scene.scores(pod("in", json!({}))).skipped;
    assert!(
        skipped.contains(&"PodTopologySpread".to_owned()),
        "nothing says that they belong together"
    );
    let service = json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": { "selector": { "app": "web" } } });
    scene.cluster.add_service(&object(service));
    // a: one pod on the host and in the zone, each ln(2 + 2), and 2 + 4; b: 2 + 4.
    assert_eq!(
        scene.of("PodTopologySpread", pod("in", json!({}))),
        [(9, 66), (6, 100)]
    );
}

#[test]
fn s5_092_image_locality_scores_nodes_that_have_the_images() {
    let image = json!({ "status": { "images": [{ "names": ["registry/app:1"], "sizeBytes": 600 << 20 }] } });
    let mut scene = Scene::new([node("has", image), node("has-not", json!({}))], []);
    let runs = |image: &str| json!({ "spec": { "containers": [{ "name": "c", "image": image }] } });
    // Half of the nodes have it: 300 of 1000 MiB count, from 23 on.
    assert_eq!(
        scene.of("ImageLocality", pod("in", runs("registry/app:1"))),
        [(28, 28), (0, 0)]
    );
    assert_eq!(
        scene.of("ImageLocality", pod("in", runs("registry/app"))),
        [(0, 0), (0, 0)]
    );
}

#[test]
fn s5_113_the_anti_affinity_of_a_nominated_pod_is_overlooked_on_an_empty_node() {
    let alone = json!({ "spec": { "priority": 10, "affinity": { "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": { "app": "web" } } }] } } } });
    let mut coming = pod("coming", alone);
    merge(
        &mut coming,
        json!({ "status": { "nominatedNodeName": "one" } }),
    );
    let mut scene = Scene::new(
        [node("one", json!({})), node("two", json!({}))],
        [coming.clone()],
    );
    assert!(scene.rejected(pod("in", json!({}))).is_empty());
    // With another such pod in its place the plugin looks, and sees the nominated one, too.
    let mut there = coming.clone();
    merge(
        &mut there,
        json!({ "metadata": { "name": "there", "uid": "there" },
        "spec": { "nodeName": "two" }, "status": { "nominatedNodeName": "" } }),
    );
    let mut scene = Scene::new(
        [node("one", json!({})), node("two", json!({}))],
        [coming, there],
    );
    assert_eq!(scene.rejected(pod("in", json!({}))).len(), 2);
}

/// S5-046, S5-047: no node is left out, so that it does not matter where a search would begin.
#[test]
fn s5_046_s5_047_every_node_is_filtered_whatever_percentage_is_set() {
    let nodes = || (0..500).map(|index| node(&format!("node-{index:03}"), json!({})));
    let mut all = Scene::new(nodes(), []);
    let profile = json!({ "percentageOfNodesToScore": 5 });
    let mut some = Scene::with(&profile, nodes(), []);
    for scene in [&mut all, &mut some] {
        let (_, filtered) = scene.filter(pod("p", requests("1", "1Gi")));
        assert_eq!(filtered.feasible.len(), 500);
        assert_eq!(
            scene.scores(pod("p", requests("1", "1Gi"))).totals.len(),
            500
        );
    }
    // The last one is found though a search for a tenth of them may end before it.
    let busy = (0..499).map(|index| {
        let more = json!({ "spec": { "nodeName": format!("node-{index:03}") } });
        let mut busy = pod(&format!("busy-{index}"), requests("4", "1Gi"));
        merge(&mut busy, more);
        busy
    });
    let mut scene = Scene::with(&profile, nodes(), busy);
    let (_, filtered) = scene.filter(pod("p", requests("1", "1Gi")));
    assert_eq!(filtered.feasible.len(), 1);
}

/// S5-048: where nothing scores all nodes that will do are as good.
#[test]
fn s5_048_without_score_plugins_all_feasible_nodes_are_equal() {
    let profile = json!({ "plugins": { "score": { "disabled": [{ "name": "*" }] } } });
    let mut scene = Scene::with(&profile, [node("b", json!({})), node("a", json!({}))], []);
    let scores = scene.scores(pod("p", requests("1", "1Gi")));
    assert_eq!((scores.totals, scores.plugins.len()), (vec![0, 0], 0));
}

/// S4-001: one after the other, and what each says stands in the message in that order.
#[test]
fn s4_001_post_filter_plugins_run_in_order() {
    let nodes = [node("one", json!({}))];
    let incoming = || pod("p", requests("9", "1Gi"));
    let words = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for \
                 scheduling.";
    let failure = Scene::new(nodes.clone(), []).failure(incoming());
    assert!(failure.message.unwrap().ends_with(words));
    let profile = json!({ "plugins": { "postFilter": { "disabled": [{ "name": "*" }],
        "enabled": [{ "name": "DefaultPreemption" }, { "name": "DynamicResources" }] } } });
    let failure = Scene::with(&profile, nodes, []).failure(incoming());
    let message = failure.message.unwrap();
    assert!(
        message.ends_with("for scheduling., no new claims to deallocate"),
        "{message}"
    );
}
