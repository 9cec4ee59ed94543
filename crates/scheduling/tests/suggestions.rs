//! What would let a pod fit: the words for each filter, and that what is told is enough, necessary, and changes nothing.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use evictd_placement::Cluster;
use evictd_pod::{Node, wire};
use evictd_scheduling::{Framework, NodeSuggestions, suggestions};
use evictd_test_objects as objects;
use evictd_what_if::{SpreadChange, Suggestion};
use proptest::prelude::*;
use serde_json::{Value, from_value, json};

/// Nodes and the pods on them, and a pod that is to be placed.
#[derive(Debug, Clone)]
struct Scene {
    nodes: Vec<Value>,
    pods: Vec<Value>,
    incoming: Value,
}

fn node(name: &str, cpu: u32, labels: Value, spec: Value) -> Value {
    let node = objects::node(name).set("/metadata/labels", labels);
    let node = node.label("kubernetes.io/hostname", name).spec(spec);
    let node = node.cpu(&cpu.to_string()).memory("8Gi");
    let node = node.resource("pods", "4").resource("example.com/gpu", "1");
    node.json()
}

fn pod(name: &str, on: &str, cpu: u32, spec: Value) -> Value {
    let pod = objects::pod(name).label("app", "web").on(on).spec(spec);
    let pod = pod.set("/spec/containers/0/name", "c");
    pod.cpu(&cpu.to_string()).json()
}

/// All that can be seen of a cluster, by names.
fn shown(cluster: &Cluster) -> String {
    let nodes = cluster.node_ids().map(|id| {
        let node = cluster.node(id);
        let pods = node.pods.iter().map(|pod| cluster.full_name(pod));
        let pods: Vec<String> = pods.collect();
        let told = cluster.node_to_wire(id);
        format!("{told:?} {pods:?} {:?}", node.requested)
    });
    format!("{:?} {:?}", nodes.collect::<Vec<_>>(), cluster.sizes())
}

impl Scene {
    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::new();
        for node in &self.nodes {
            let node: Node = from_value(node.clone()).unwrap();
            assert!(cluster.add_node(&node));
        }
        for pod in &self.pods {
            cluster.add_pod(from_value(pod.clone()).unwrap()).unwrap();
        }
        cluster
    }

    fn suggestions(&self) -> Vec<NodeSuggestions> {
        let mut cluster = self.cluster();
        let framework = Framework::of_default(&mut cluster);
        let wire: wire::Pod = from_value(self.incoming.clone()).unwrap();
        let pod = cluster.pod(wire.clone()).unwrap();
        let filtered = framework.filter(&cluster, &pod);
        cluster.release(pod);
        let before = shown(&cluster);
        let found = suggestions(&mut cluster, &framework, &wire, &filtered, 5);
        assert_eq!(before, shown(&cluster), "the cluster is as it was");
        found
    }

    fn words(&self) -> Vec<String> {
        let suggestions = self.suggestions();
        let lines = suggestions.iter().map(|suggested| {
            let ways = suggested.alternatives.iter().map(|way| {
                let words = way.iter().map(ToString::to_string);
                words.collect::<Vec<_>>().join(" and ")
            });
            format!(
                "{}: {}",
                suggested.node,
                ways.collect::<Vec<_>>().join("; or ")
            )
        });
        lines.collect()
    }

    /// Whether the pod fits on a node after these changes to the objects.
    fn fits_with(&self, node: &str, suggestions: &[Suggestion]) -> bool {
        let mut changed = self.clone();
        let place = changed.nodes.iter();
        let place = place.map(|index| &index["metadata"]["name"]);
        let index = place.into_iter().position(|name| name == node).unwrap();
        for suggestion in suggestions {
            changed.apply(index, suggestion);
        }
        let mut cluster = changed.cluster();
        let framework = Framework::of_default(&mut cluster);
        let pod = cluster.pod(from_value(changed.incoming).unwrap()).unwrap();
        let filtered = framework.filter(&cluster, &pod);
        let id = cluster.find_node(node).unwrap();
        filtered.feasible.contains(&id)
    }

    fn apply(&mut self, node: usize, suggestion: &Suggestion) {
        let node = &mut self.nodes[node];
        let spec = &mut self.incoming["spec"];
        match suggestion {
            Suggestion::Uncordon => node["spec"]["unschedulable"] = json!(false),
            Suggestion::AddToleration(taint) => {
                let toleration =
                    json!({ "key": taint.key, "value": taint.value, "effect": taint.effect });
                match spec["tolerations"].as_array_mut() {
                    Some(list) => list.push(toleration),
                    None => spec["tolerations"] = json!([toleration]),
                }
            }
            Suggestion::Recover(taint) => {
                let taints = node["spec"]["taints"].as_array_mut().unwrap();
                taints.retain(|known| known["key"] != taint.key);
            }
            Suggestion::AddLabel { key, value } => node["metadata"]["labels"][key] = json!(value),
            Suggestion::RemoveLabel(key) => {
                let labels = node["metadata"]["labels"].as_object_mut();
                labels.unwrap().remove(key).unwrap();
            }
            Suggestion::RemoveNodeSelector(key) => {
                let selector = spec["nodeSelector"].as_object_mut();
                selector.unwrap().remove(key).unwrap();
            }
            Suggestion::RemoveNodeAffinity => spec["affinity"]["nodeAffinity"] = json!({}),
            Suggestion::AddCapacity { resource, amount } => {
                let amount_field = &mut node["status"]["allocatable"][resource];
                let there: i64 = amount_field
                    .as_str()
                    .map_or(0, |text| text.parse().unwrap());
                *amount_field = json!((there + amount.value()).to_string());
            }
            Suggestion::Spread { key, change } => {
                let constraints = spec["topologySpreadConstraints"].as_array_mut().unwrap();
                for constraint in constraints
                    .iter_mut()
                    .filter(|of| of["topologyKey"] == *key)
                {
                    match change {
                        SpreadChange::HonorTaints => {
                            constraint["nodeTaintsPolicy"] = json!("Honor");
                        }
                        SpreadChange::MaxSkew(skew) => constraint["maxSkew"] = json!(skew),
                        SpreadChange::NoMinDomains => constraint["minDomains"] = Value::Null,
                        SpreadChange::ScheduleAnyway => {
                            constraint["whenUnsatisfiable"] = json!("ScheduleAnyway");
                        }
                    }
                }
            }
            Suggestion::RemovePods(names) | Suggestion::AwaitPods(names) => {
                self.pods.retain(|pod| {
                    let name = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
                    !names.contains(&name)
                });
            }
        }
    }
}

fn one(node: Value, pods: Vec<Value>, incoming: Value) -> Vec<String> {
    let scene = Scene {
        nodes: vec![node],
        pods,
        incoming,
    };
    scene.words()
}

#[test]
fn each_filter_has_its_suggestion() {
    let plain = || node("n", 4, json!({ "disk": "hdd" }), json!({}));
    let new = |spec: Value| pod("new", "", 1, spec);
    let affinity = |key: &str, operator: &str, values: Value| {
        new(
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }] } } } }),
        )
    };
    let port = || json!({ "containers": [{ "ports": [{ "containerPort": 80, "hostPort": 80 }] }] });
    let apart = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] } } });
    let taints = json!({ "taints": [{ "key": "for", "value": "gpu", "effect": "NoSchedule" }] });
    let cordoned = json!({ "unschedulable": true,
        "taints": [{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }] });
    let there = |count: u32| {
        let pods = (0..count).map(|number| pod(&format!("p{number}"), "n", 1, json!({})));
        pods.collect::<Vec<_>>()
    };
    let table = [
        (
            node("n", 4, json!({}), cordoned),
            vec![],
            new(json!({})),
            "n: the node uncordoned",
        ),
        (
            node("n", 4, json!({}), taints),
            vec![],
            new(json!({})),
            "n: a toleration of for=gpu:NoSchedule",
        ),
        (
            plain(),
            vec![],
            new(json!({ "nodeSelector": { "disk": "ssd" } })),
            "n: the label disk=ssd on the node",
        ),
        (
            plain(),
            vec![],
            new(json!({ "nodeSelector": { "kubernetes.io/hostname": "m" } })),
            "n: no kubernetes.io/hostname in the pod's nodeSelector",
        ),
        (
            plain(),
            vec![],
            affinity("disk", "NotIn", json!(["hdd"])),
            "n: no label disk on the node",
        ),
        (
            plain(),
            vec![],
            affinity("cores", "Gt", json!(["7"])),
            "n: the label cores=8 on the node",
        ),
        (
            plain(),
            vec![],
            affinity("kubernetes.io/hostname", "In", json!(["m"])),
            "n: no required node affinity of the pod",
        ),
        (
            plain(),
            there(2),
            pod("new", "", 3, json!({})),
            "n: 1 more cpu; or default/p1 gone from the node",
        ),
        (
            node("n", 8, json!({}), json!({})),
            there(4),
            new(json!({})),
            "n: room for 1 more of the pods; or default/p3 gone from the node",
        ),
        (
            plain(),
            vec![pod("p", "n", 1, port())],
            new(port()),
            "n: default/p gone from the node",
        ),
        (
            plain(),
            there(2),
            new(apart),
            "n: default/p0, default/p1 gone from the node",
        ),
        (
            plain(),
            vec![],
            new(
                json!({ "containers": [{ "resources": { "requests": { "example.com/gpu": "3" } } }] }),
            ),
            "n: 2 more example.com/gpu",
        ),
    ];
    for (node, pods, incoming, expected) in table {
        assert_eq!(one(node, pods, incoming), [expected]);
    }
}

#[test]
fn several_taints_or_labels_need_several_changes_and_one_state_recovers_once() {
    let taints = |keys: [(&str, &str); 2]| {
        let taints = keys.map(|(key, effect)| json!({ "key": key, "effect": effect }));
        node("n", 4, json!({}), json!({ "taints": taints }))
    };
    let words = |node, spec| one(node, vec![], pod("new", "", 1, spec));
    let dedicated = taints([("db", "NoSchedule"), ("gpu", "NoExecute")]);
    let both = "n: a toleration of db:NoSchedule and a toleration of gpu:NoExecute";
    assert_eq!(words(dedicated, json!({})), [both]);
    let state = "node.kubernetes.io/unreachable";
    let lost = taints([(state, "NoSchedule"), (state, "NoExecute")]);
    let recovers = format!("n: the node recovered from {state}");
    assert_eq!(words(lost, json!({})), [recovers]);
    let bare = node("n", 4, json!({}), json!({}));
    let selector = json!({ "nodeSelector": { "disk": "ssd", "rack": "b" } });
    let labels = "n: the label disk=ssd on the node and the label rack=b on the node";
    assert_eq!(words(bare, selector), [labels]);
}

#[test]
fn a_missing_topology_label_is_suggested_with_a_value_that_helps() {
    let near = json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } } }] } } });
    let scene = Scene {
        nodes: vec![
            node("a", 1, json!({ "zone": "west" }), json!({})),
            node("b", 1, json!({ "zone": "east" }), json!({})),
            node("c", 4, json!({}), json!({})),
        ],
        pods: vec![pod("p", "a", 1, json!({}))],
        incoming: pod("new", "", 3, near),
    };
    let words = scene.words();
    assert!(
        words.contains(&"c: the label zone=west on the node".to_owned()),
        "{words:?}"
    );
}

#[test]
fn the_nodes_with_the_fewest_changes_come_first_and_each_change_is_needed() {
    let mut nodes: Vec<Value> = (1..9)
        .map(|cpu| node(&format!("n{cpu}"), cpu, json!({}), json!({})))
        .collect();
    nodes.push(node("x", 20, json!({}), json!({ "unschedulable": true })));
    let scene = Scene {
        nodes,
        pods: vec![],
        incoming: pod("new", "", 10, json!({})),
    };
    let words = scene.words();
    assert_eq!(words.len(), 5);
    // It lacks nothing.
    assert_eq!(words[0], "x: the node uncordoned");
    assert_eq!(words[1], "n8: 2 more cpu");
    assert_eq!(words[2], "n7: 3 more cpu");
}

/// Three replicas of a `ReplicaSet` on two nodes, and a third node that no replica tolerates.
fn replicas(spec: Value) -> Scene {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true }]);
    let replica = |name: &str, on: &str| {
        let mut replica = pod(name, on, 1, json!({}));
        replica["metadata"]["ownerReferences"] = owner.clone();
        replica
    };
    let taint = json!({ "taints": [{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }] });
    Scene {
        nodes: vec![
            node("a", 8, json!({}), json!({})),
            node("b", 8, json!({}), json!({})),
            node("master", 8, json!({}), taint),
        ],
        pods: vec![replica("web-1", "a"), replica("web-2", "b")],
        incoming: pod("new", "", 1, spec),
    }
}

#[test]
fn a_hard_spread_is_relaxed_and_no_replica_is_deleted() {
    let spread = |more: Value| {
        let mut constraint = json!({ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "web" } } });
        constraint
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        replicas(json!({ "topologySpreadConstraints": [constraint] })).words()
    };
    let key = "kubernetes.io/hostname";
    let relaxed = format!(
        "nodeTaintsPolicy: Honor for {key}; or maxSkew: 2 for {key}; or whenUnsatisfiable: ScheduleAnyway for {key}"
    );
    let words = spread(json!({}));
    assert_eq!(
        words[..2],
        [format!("a: {relaxed}"), format!("b: {relaxed}")]
    );
    let toleration = "master: a toleration of node-role.kubernetes.io/control-plane:NoSchedule";
    assert_eq!(words[2..], [toleration]);
    let words = spread(json!({ "nodeTaintsPolicy": "Honor", "minDomains": 3 }));
    let relaxed = format!(
        "no minDomains for {key}; or maxSkew: 2 for {key}; or whenUnsatisfiable: ScheduleAnyway for {key}"
    );
    assert!(words.contains(&format!("a: {relaxed}")), "{words:?}");
}

/// Removing `there` is needed only beside the label, which relaxing the spread makes unnecessary.
#[test]
fn a_change_that_was_needed_beside_an_unnecessary_one_is_left_out_with_it() {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let apart = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": selector }] } } });
    let spread = json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector }] });
    let scene = Scene {
        nodes: vec![
            node("a", 1, json!({ "zone": "b" }), json!({})),
            node("b", 2, json!({}), json!({})),
            node("c", 1, json!({ "zone": "a" }), json!({})),
        ],
        pods: vec![pod("far", "a", 0, json!({})), pod("there", "b", 0, apart)],
        incoming: pod("new", "", 1, spread),
    };
    let words = scene.words();
    let relaxed = "whenUnsatisfiable: ScheduleAnyway for zone";
    let of_b = words.iter().find(|line| line.starts_with("b: ")).unwrap();
    assert!(!of_b.contains(&format!("{relaxed} and")), "{words:?}");
    assert!(of_b.ends_with(&format!("; or {relaxed}")), "{words:?}");
}

#[test]
fn no_pod_is_removed_that_its_controller_creates_again() {
    let apart = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] } } });
    let words = replicas(apart).words();
    assert_eq!(
        words,
        ["master: a toleration of node-role.kubernetes.io/control-plane:NoSchedule"]
    );
}

#[test]
fn a_terminating_peer_is_named_and_its_end_is_suggested() {
    let near = json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] } } });
    let mut old = pod("old", "a", 1, json!({}));
    old["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let scene = Scene {
        nodes: vec![
            node("a", 4, json!({}), json!({ "unschedulable": true })),
            node("b", 4, json!({}), json!({})),
        ],
        pods: vec![old],
        incoming: pod("new", "", 1, near),
    };
    let words = scene.words();
    assert!(
        words.contains(&"b: the end of default/old".to_owned()),
        "{words:?}"
    );
    let mut cluster = scene.cluster();
    let framework = Framework::of_default(&mut cluster);
    let pod = cluster
        .pod(from_value(scene.incoming.clone()).unwrap())
        .unwrap();
    let b = cluster.find_node("b").unwrap();
    let obstacle = framework.obstacle(&cluster, &pod, b).unwrap();
    let named =
        "no pod that it must be near in b; there is default/old on a (cordoned), which terminates";
    assert_eq!(obstacle, named);
}

#[test]
fn claims_classes_volumes_and_holders_of_devices_are_named() {
    let mut cluster = Cluster::new();
    let framework = Framework::of_default(&mut cluster);
    let claim = |name: &str, class: Value| {
        json!({ "metadata": { "name": name, "namespace": "default", "uid": name },
            "spec": { "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "10Gi" } } }, "status": { "phase": "Pending" } })
    };
    for wire in [
        claim("lost", json!("missing")),
        claim("none", Value::Null),
        claim("late", json!("late")),
    ] {
        cluster.add_claim(&from_value(wire).unwrap()).unwrap();
    }
    let class = json!({ "metadata": { "name": "late" }, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer" });
    cluster
        .add_storage_class(&from_value(class).unwrap())
        .unwrap();
    let volume = json!({ "metadata": { "name": "small" }, "status": { "phase": "Available" },
        "spec": { "storageClassName": "late", "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce"] } });
    cluster.add_volume(&from_value(volume).unwrap()).unwrap();
    let devices = |name: &str, class: &str, status: Value| {
        json!({ "metadata": { "name": name, "namespace": "default", "uid": name }, "status": status,
            "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": class } }] } } })
    };
    let result =
        json!({ "request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0" });
    let held = json!({ "allocation": { "devices": { "results": [result] } },
        "reservedFor": [{ "resource": "pods", "name": "train", "uid": "t" }] });
    for wire in [
        devices("wants", "none", json!({})),
        devices("held", "gpu", held),
    ] {
        cluster.devices_mut().put_claim(from_value(wire).unwrap());
    }
    let volumes: Vec<Value> = ["lost", "none", "late"]
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }))
        .into();
    let incoming = pod(
        "new",
        "",
        1,
        json!({ "volumes": volumes,
        "resourceClaims": [{ "name": "c", "resourceClaimName": "wants" }] }),
    );
    let pod = cluster.pod(from_value(incoming).unwrap()).unwrap();
    assert_eq!(
        framework.blockers(&cluster, &pod),
        [
            "claim default/lost names StorageClass missing, which does not exist",
            "claim default/none names no StorageClass, and no class is the default",
            "volume small is too small: 5Gi of 10Gi (claim default/late)",
            "claim default/wants names DeviceClass none, which does not exist",
            "device gpu-0 of pool n belongs to claim default/held; reserved for pod train",
        ]
    );
}

/// A node whose rejection says it all does not take the place of one with more to say.
#[test]
fn the_nearest_obstacles_are_those_of_nodes_that_have_one() {
    let taints = json!({ "taints": [{ "key": "for", "value": "gpu", "effect": "NoSchedule" }] });
    let scene = Scene {
        nodes: vec![
            node("a", 4, json!({}), json!({})),
            node("b", 4, json!({ "disk": "ssd" }), taints),
        ],
        pods: Vec::new(),
        incoming: pod("new", "", 1, json!({ "nodeSelector": { "disk": "ssd" } })),
    };
    let mut cluster = scene.cluster();
    let framework = Framework::of_default(&mut cluster);
    let pod = cluster
        .pod(from_value(scene.incoming.clone()).unwrap())
        .unwrap();
    let filtered = framework.filter(&cluster, &pod);
    assert_eq!(
        framework.obstacles(&cluster, &pod, &filtered, 1),
        [("b".to_owned(), "taint for=gpu:NoSchedule".to_owned())]
    );
}

fn scene() -> impl Strategy<Value = Scene> {
    let labels = prop_oneof![
        Just(json!({})),
        Just(json!({ "zone": "a" })),
        Just(json!({ "zone": "b", "disk": "ssd" }))
    ];
    let spec = prop_oneof![
        2 => Just(json!({})),
        1 => Just(json!({ "unschedulable": true })),
        1 => Just(json!({ "taints": [{ "key": "for", "value": "gpu", "effect": "NoSchedule" }] })),
    ];
    let nodes = prop::collection::vec((1..5_u32, labels, spec), 1..5);
    let form = prop_oneof![
        2 => Just(json!({})),
        1 => Just(json!({ "nodeSelector": { "disk": "ssd" } })),
        1 => Just(json!({ "containers": [{ "ports": [{ "containerPort": 80, "hostPort": 80 }] }] })),
        1 => Just(json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "web" } } }] })),
        1 => Just(json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } } }] } } })),
    ];
    let pods = prop::collection::vec((any::<prop::sample::Index>(), 0..3_u32, form.clone()), 0..9);
    (nodes, pods, 1..6_u32, form).prop_map(|(nodes, pods, cpu, spec)| {
        let count = nodes.len();
        let name = |number: usize| format!("n{number}");
        let nodes = nodes.into_iter().enumerate();
        let nodes =
            nodes.map(|(number, (cpu, labels, spec))| node(&name(number), cpu, labels, spec));
        let pods = pods.into_iter().enumerate();
        let pods = pods.map(|(number, (on, cpu, spec))| {
            pod(&format!("p{number}"), &name(on.index(count)), cpu, spec)
        });
        Scene {
            nodes: nodes.collect(),
            pods: pods.collect(),
            incoming: pod("new", "", cpu, spec),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_suggestion_is_sufficient_and_minimal(scene in scene()) {
        for suggested in scene.suggestions() {
            for way in &suggested.alternatives {
                prop_assert!(!way.is_empty());
                prop_assert!(scene.fits_with(&suggested.node, way), "{}: {way:?}", suggested.node);
                for left_out in 0..way.len() {
                    let mut fewer = way.clone();
                    fewer.remove(left_out);
                    prop_assert!(!scene.fits_with(&suggested.node, &fewer), "{}: {way:?}", suggested.node);
                }
            }
        }
    }
}
