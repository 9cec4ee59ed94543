//! Which changes wake a pod, by the plugin that rejected it (S5-035, S5-103, S5-104).

use super::{check, node, placed, pod, requests, with};
use evictd_scheduling::PluginName;
use serde_json::{Value, json};

fn taint(node: &Value, effect: &str) -> Value {
    let taints = json!([{ "key": "t", "value": "v", "effect": effect }]);
    with(node, "spec.taints", taints)
}

#[test]
fn s5_035_any_taint_wakes_for_plugins_that_registered_new_nodes_only() {
    let (waiting_pod, plain) = (pod("p", requests("9")), node("one"));
    let tainted = taint(&plain, "NoSchedule");
    let others = [
        "SchedulingGates",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeVolumeLimits",
        "DefaultPreemption",
        "Extender",
        "GangScheduling",
        "PodTopologySpread",
    ];
    let ours = PluginName::ALL
        .iter()
        .filter(|plugin| **plugin != PluginName::Other);
    for plugin in ours.map(|plugin| plugin.as_str()) {
        let is_woken = !others[..7].contains(&plugin);
        check(
            plugin,
            &waiting_pod,
            &[(plain.clone(), tainted.clone(), is_woken)],
        );
    }
    // Uncordoning counts as a taint that went.
    let cordoned = with(&plain, "spec.unschedulable", json!(true));
    check("NodeName", &waiting_pod, &[(cordoned, plain, true)]);
}

#[test]
fn s5_103_node_resources_fit() {
    let (waiting_pod, one) = (pod("p", requests("2")), node("one"));
    let cpu = |cpu: &str| with(&one, "status.allocatable.cpu", json!(cpu));
    let memory = with(&one, "status.allocatable.memory", json!("4Gi"));
    let pods = with(&one, "status.allocatable.pods", json!("11"));
    let nominated = with(
        &pod("x", json!({})),
        "status",
        json!({ "nominatedNodeName": "one" }),
    );
    let changes = [
        (Value::Null, one.clone(), true),
        (Value::Null, cpu("1"), false),
        (
            Value::Null,
            with(&one, "status.allocatable.pods", json!("0")),
            false,
        ),
        (cpu("1"), cpu("2"), true),
        (cpu("1"), cpu("1500m"), false),
        (cpu("4"), cpu("3"), false),
        (one.clone(), memory, false),
        (one.clone(), pods, true),
        (placed("x", requests("1")), Value::Null, true),
        (nominated, Value::Null, true),
        (placed("x", requests("2")), placed("x", requests("1")), true),
        (
            placed("x", requests("1")),
            placed("x", requests("2")),
            false,
        ),
    ];
    check("NodeResourcesFit", &waiting_pod, &changes);
    // Another resource of another pod frees nothing that this one asks for.
    let memory = |size: &str| {
        let requests = json!({ "requests": { "memory": size } });
        placed(
            "x",
            json!({ "containers": [{ "name": "c", "resources": requests }] }),
        )
    };
    check(
        "NodeResourcesFit",
        &waiting_pod,
        &[(memory("2Gi"), memory("1Gi"), false)],
    );
    let smaller = pod("p", requests("1"));
    assert!(super::wakes(
        "NodeResourcesFit",
        &waiting_pod,
        &waiting_pod,
        &smaller
    ));
}

#[test]
fn s5_103_node_affinity() {
    let waiting_pod = pod("p", json!({ "nodeSelector": { "zone": "a" } }));
    let zone = |zone: &str| with(&node("one"), "metadata.labels.zone", json!(zone));
    let labelled = with(&zone("a"), "metadata.labels.more", json!("x"));
    let changes = [
        (Value::Null, zone("a"), true),
        (Value::Null, zone("b"), false),
        (zone("b"), zone("a"), true),
        (zone("a"), zone("b"), false),
        (zone("a"), labelled, false),
    ];
    check("NodeAffinity", &waiting_pod, &changes);
    let term =
        json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["b"] }] });
    let required = json!({ "nodeSelectorTerms": [term] });
    let affinity = json!({ "requiredDuringSchedulingIgnoredDuringExecution": required });
    let waiting_pod = pod("p", json!({ "affinity": { "nodeAffinity": affinity } }));
    let changes = [(zone("a"), zone("b"), true), (zone("b"), zone("a"), false)];
    check("NodeAffinity", &waiting_pod, &changes);
}

#[test]
fn s5_103_taint_toleration_and_cordons() {
    let (waiting_pod, plain) = (pod("p", json!({})), node("one"));
    let (soft, hard) = (
        taint(&plain, "PreferNoSchedule"),
        taint(&plain, "NoExecute"),
    );
    let tolerant = with(
        &waiting_pod,
        "spec.tolerations",
        json!([{ "operator": "Exists" }]),
    );
    let cordoned = with(&plain, "spec.unschedulable", json!(true));
    let changes = [
        (Value::Null, soft.clone(), true),
        (Value::Null, hard.clone(), false),
        (hard.clone(), soft.clone(), true),
        (soft, plain.clone(), false),
        (plain.clone(), hard, false),
        (waiting_pod.clone(), tolerant.clone(), true),
    ];
    check("TaintToleration", &waiting_pod, &changes);
    let elsewhere = with(
        &waiting_pod,
        "spec.tolerations",
        json!([{ "key": "x", "operator": "Exists" }]),
    );
    let changes = [
        (Value::Null, plain.clone(), true),
        (Value::Null, cordoned.clone(), false),
        (cordoned, plain, true),
        (waiting_pod.clone(), tolerant, true),
        (waiting_pod.clone(), elsewhere, false),
    ];
    check("NodeUnschedulable", &waiting_pod, &changes);
}

#[test]
fn s5_103_node_ports_node_name_and_volume_restrictions() {
    let port = |port: i64| json!({ "containers": [{ "name": "c", "ports": [{ "hostPort": port, "containerPort": 1 }] }] });
    let changes = [
        (placed("x", port(80)), Value::Null, true),
        (placed("x", port(81)), Value::Null, false),
        (Value::Null, node("one"), true),
    ];
    check("NodePorts", &pod("p", port(80)), &changes);
    for plugin in ["NodeName", "VolumeRestrictions"] {
        check(
            plugin,
            &pod("p", json!({})),
            &[(Value::Null, node("one"), true)],
        );
    }
}

fn term(app: &str) -> Value {
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": app } } }] })
}

fn labelled(name: &str, app: &str) -> Value {
    let pod = placed(name, json!({}));
    with(&pod, "metadata.labels", json!({ "app": app }))
}

#[test]
fn s5_104_affinity_to_other_pods() {
    let waiting_pod = pod("p", json!({ "affinity": { "podAffinity": term("web") } }));
    let elsewhere = with(&labelled("x", "web"), "metadata.namespace", json!("other"));
    let zone = |zone: Value| with(&node("one"), "metadata.labels", json!({ "zone": zone }));
    let bare = with(&node("one"), "metadata.labels", json!({}));
    let changes = [
        (Value::Null, labelled("x", "web"), true),
        (Value::Null, labelled("x", "db"), false),
        (Value::Null, elsewhere, false),
        (labelled("x", "db"), labelled("x", "web"), true),
        (labelled("x", "web"), labelled("x", "db"), false),
        (labelled("x", "web"), Value::Null, false),
        (
            waiting_pod.clone(),
            with(&waiting_pod, "metadata.labels", json!({ "a": "b" })),
            true,
        ),
        (Value::Null, node("one"), true),
        (Value::Null, bare.clone(), false),
        (bare.clone(), zone(json!("a")), true),
        (zone(json!("a")), zone(json!("b")), true),
        (zone(json!("a")), bare, false),
    ];
    check("InterPodAffinity", &waiting_pod, &changes);
}

#[test]
fn s5_104_anti_affinity() {
    let waiting_pod = pod(
        "p",
        json!({ "affinity": { "podAntiAffinity": term("web") } }),
    );
    let waiting_pod = with(&waiting_pod, "metadata.labels", json!({ "app": "p" }));
    let zone = |zone: &str| with(&node("one"), "metadata.labels", json!({ "zone": zone }));
    let bare = with(&node("one"), "metadata.labels", json!({}));
    let changes = [
        (labelled("x", "web"), Value::Null, true),
        (labelled("x", "db"), Value::Null, false),
        (labelled("x", "web"), labelled("x", "db"), true),
        (Value::Null, labelled("x", "web"), false),
        (Value::Null, bare.clone(), true),
        (zone("a"), bare.clone(), true),
        (zone("a"), zone("b"), true),
        (bare, zone("a"), false),
    ];
    check("InterPodAffinity", &waiting_pod, &changes);
    // The anti-affinity of the pod that goes, which means this one.
    let against = |app: &str| placed("x", json!({ "affinity": { "podAntiAffinity": term(app) } }));
    let changes = [
        (against("p"), Value::Null, true),
        (against("q"), Value::Null, false),
    ];
    check("InterPodAffinity", &waiting_pod, &changes);
}

#[test]
fn s5_104_selectors_of_namespaces() {
    let affinity = |selector: Value| {
        let required = term("web")["requiredDuringSchedulingIgnoredDuringExecution"][0].clone();
        let required = with(&required, "namespaceSelector", selector);
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [required] });
        pod("p", json!({ "affinity": { "podAffinity": required } }))
    };
    let new = with(&labelled("x", "web"), "metadata.namespace", json!("other"));
    let changes = |wakes: bool| [(Value::Null, new.clone(), wakes)];
    check("InterPodAffinity", &affinity(json!({})), &changes(true));
    let selector = json!({ "matchLabels": { "team": "a" } });
    check("InterPodAffinity", &affinity(selector), &changes(false));
}

fn spread(more: Value) -> Value {
    let mut constraint = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } } });
    for (key, value) in more.as_object().unwrap() {
        constraint[key] = value.clone();
    }
    pod("p", json!({ "topologySpreadConstraints": [constraint] }))
}

#[test]
fn s5_104_topology_spread() {
    let waiting_pod = spread(json!({}));
    let elsewhere = with(&labelled("x", "web"), "metadata.namespace", json!("other"));
    let zone = |zone: &str| with(&node("one"), "metadata.labels", json!({ "zone": zone }));
    let bare = with(&node("one"), "metadata.labels", json!({}));
    let tolerant = with(
        &waiting_pod,
        "spec.tolerations",
        json!([{ "operator": "Exists" }]),
    );
    let changes = [
        (Value::Null, labelled("x", "web"), true),
        (labelled("x", "web"), Value::Null, true),
        (Value::Null, labelled("x", "db"), false),
        (Value::Null, elsewhere, false),
        (labelled("x", "web"), labelled("x", "db"), true),
        (
            waiting_pod.clone(),
            with(&waiting_pod, "metadata.labels", json!({ "app": "web" })),
            true,
        ),
        (
            waiting_pod.clone(),
            with(&waiting_pod, "metadata.labels", json!({ "app": "db" })),
            false,
        ),
        (waiting_pod.clone(), tolerant.clone(), false),
        (Value::Null, node("one"), true),
        (Value::Null, bare.clone(), false),
        (node("one"), Value::Null, true),
        (bare.clone(), zone("a"), true),
        (zone("a"), bare.clone(), true),
        (zone("a"), zone("b"), true),
        (
            zone("a"),
            with(&zone("a"), "metadata.labels.more", json!("x")),
            false,
        ),
        (zone("a"), taint(&zone("a"), "NoSchedule"), true),
        (bare.clone(), taint(&bare, "NoSchedule"), false),
    ];
    check("PodTopologySpread", &waiting_pod, &changes);
    let honours = spread(json!({ "nodeTaintsPolicy": "Honor" }));
    let tolerant = with(
        &honours,
        "spec.tolerations",
        tolerant["spec"]["tolerations"].clone(),
    );
    check(
        "PodTopologySpread",
        &honours,
        &[(honours.clone(), tolerant, true)],
    );
    let soft = spread(json!({ "whenUnsatisfiable": "ScheduleAnyway" }));
    check(
        "PodTopologySpread",
        &soft,
        &[(Value::Null, labelled("x", "web"), false)],
    );
    let alike = spread(json!({ "matchLabelKeys": ["version"] }));
    let alike = with(&alike, "metadata.labels", json!({ "version": "2" }));
    let second = with(&labelled("x", "web"), "metadata.labels.version", json!("2"));
    let changes = [
        (Value::Null, labelled("x", "web"), false),
        (Value::Null, second, true),
    ];
    check("PodTopologySpread", &alike, &changes);
}

#[test]
fn a_pod_that_needs_features_is_woken_by_nodes_that_declare_and_by_its_own_change() {
    let waiting_pod = pod("p", json!({}));
    let restarts =
        json!([{ "name": "c", "restartPolicyRules": [{ "action": "RestartAllContainers" }] }]);
    let changes = [
        (
            waiting_pod.clone(),
            with(&waiting_pod, "metadata.labels", json!({ "a": "b" })),
            false,
        ),
        (
            waiting_pod.clone(),
            with(
                &with(&waiting_pod, "metadata.labels", json!({ "a": "b" })),
                "spec.containers",
                restarts.clone(),
            ),
            true,
        ),
        (
            placed("x", json!({})),
            with(
                &with(
                    &placed("x", json!({})),
                    "metadata.labels",
                    json!({ "a": "b" }),
                ),
                "spec.containers",
                restarts,
            ),
            false,
        ),
    ];
    check("NodeDeclaredFeatures", &waiting_pod, &changes);
    let declared = with(&node("one"), "status.declaredFeatures", json!(["a"]));
    check(
        "NodeDeclaredFeatures",
        &waiting_pod,
        &[(node("one"), declared, true)],
    );
}
