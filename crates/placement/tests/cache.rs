//! The state of a cluster depends only on the remaining objects, whatever was added, changed and removed before. That
//! holds for results, sums and the number of interned texts and templates.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_placement::{Checks, Cluster, Group, NodeId, Pod, Sizes, Statement};
use evictd_pod::wire;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Node,
    Pod,
    Namespace,
    Claim,
    Volume,
    Class,
    CsiNode,
    Attachment,
}

/// An object by its kind and number, in one of its forms.
type Object = (Kind, u8);

fn node(number: u8, form: u8) -> Value {
    let taints = match form {
        1 => json!([{"key": format!("only-for-{number}"), "effect": "NoSchedule"}]),
        _ => json!([]),
    };
    json!({
        "metadata": {"name": format!("node-{number}"),
            "labels": {"zone": format!("zone-{}", (number + form) % 3), "form": form.to_string()}},
        "spec": {"taints": taints, "unschedulable": form == 2},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": (3 + form).to_string(),
            "example.com/gpu": (form + 1).to_string()}},
    })
}

fn pod(number: u8, form: u8) -> Value {
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": format!("app-{}", form % 3)}}});
    let anti_affinity = if form.is_multiple_of(2) {
        json!([term])
    } else {
        json!([])
    };
    let mut pod = json!({
        "metadata": {"name": format!("pod-{number}"), "namespace": format!("space-{}", number % 3),
            "labels": {"app": format!("app-{}", (number + form) % 3), "own": format!("{number}-{form}")}},
        "spec": {
            "nodeName": format!("node-{}", (number + form) % 5),
            "priority": form,
            "schedulerName": format!("scheduler-{}", form % 2),
            "containers": [{"name": "c",
                "ports": [{"containerPort": 80, "hostPort": 8000 + u16::from(form)}],
                "resources": {"requests": {"cpu": format!("{}m", 300 + 100 * u16::from(form)),
                    "example.com/gpu": (form % 2).to_string()}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti_affinity}},
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{}", number % 4)}}],
        },
        "status": {"phase": "Running"},
    });
    // Some have no UID and are found by name.
    if !number.is_multiple_of(3) {
        pod["metadata"]["uid"] = json!(format!("uid-{number}"));
    }
    match form {
        4 => {
            pod["spec"]["nodeName"] = json!("");
            pod["status"] = json!({"phase": "Pending", "nominatedNodeName": "node-1",
                "conditions": [{"type": "PodScheduled", "status": "False"}]});
        }
        5 => pod["spec"]["nodeName"] = json!(""),
        6 => pod["status"]["phase"] = json!("Succeeded"),
        _ => {}
    }
    pod
}

fn storage(kind: Kind, number: u8, form: u8) -> Value {
    let (class, space) = (format!("class-{}", form % 2), number % 3);
    match kind {
        Kind::Claim => json!({
            "metadata": {"name": format!("claim-{number}"), "namespace": format!("space-{space}")},
            "spec": {"volumeName": if form > 2 { format!("volume-{number}") } else { String::new() },
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": if form > 2 { "Bound" } else { "Pending" }},
        }),
        Kind::Volume => json!({
            "metadata": {"name": format!("volume-{number}"),
                "labels": {"topology.kubernetes.io/zone": format!("zone-{form}")}},
            "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "csi": {"driver": "driver", "volumeHandle": format!("{number}-{form}")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": [format!("zone-{}", form % 3)]}]}]}}},
        }),
        Kind::Class => json!({
            "metadata": {"name": format!("class-{number}")},
            "provisioner": if form > 3 { "kubernetes.io/no-provisioner" } else { "driver" },
            "volumeBindingMode": if form > 1 { "WaitForFirstConsumer" } else { "Immediate" },
        }),
        Kind::Attachment => json!({
            "metadata": {"name": format!("attachment-{number}")},
            "spec": {"attacher": "driver", "nodeName": format!("node-{}", (number + form) % 5),
                "source": {"persistentVolumeName": format!("volume-{}", form % 4)}},
        }),
        _ => json!({
            "metadata": {"name": format!("node-{number}")},
            "spec": {"drivers": [{"name": "driver", "nodeID": "n", "allocatable": {"count": form}}]},
        }),
    }
}

fn namespace(number: u8, form: u8) -> Value {
    json!({"metadata": {"name": format!("space-{number}"), "labels": {"team": format!("team-{form}")}}})
}

fn metadata(of: &Value) -> wire::Metadata {
    from_value(of["metadata"].clone()).unwrap()
}

fn put(cluster: &mut Cluster, (kind, number): Object, form: u8) {
    match kind {
        Kind::Node => cluster.update_node(&from_value(node(number, form)).unwrap()),
        Kind::Pod => {
            let mut pod: wire::Pod = from_value(pod(number, form)).unwrap();
            // The requests of such a pod are not known, and its node takes no other.
            if form == 6 {
                pod.spec.unreadable = Some("is too long".into());
            }
            cluster.add_pod(pod).unwrap();
        }
        Kind::Namespace => cluster.add_namespace(&from_value(namespace(number, form)).unwrap()),
        Kind::Claim => cluster
            .add_claim(&from_value(storage(kind, number, form)).unwrap())
            .unwrap(),
        Kind::Volume => cluster
            .add_volume(&from_value(storage(kind, number, form)).unwrap())
            .unwrap(),
        Kind::Class => cluster
            .add_storage_class(&from_value(storage(kind, number, form)).unwrap())
            .unwrap(),
        Kind::CsiNode => cluster.add_csi_node(&from_value(storage(kind, number, form)).unwrap()),
        Kind::Attachment => {
            cluster.add_volume_attachment(&from_value(storage(kind, number, form)).unwrap());
        }
    }
}

fn remove(cluster: &mut Cluster, (kind, number): Object) -> bool {
    match kind {
        Kind::Node => cluster.remove_node(&format!("node-{number}")),
        Kind::Pod => cluster.remove_pod(&metadata(&pod(number, 0))),
        Kind::Namespace => cluster.remove_namespace(&format!("space-{number}")),
        Kind::Claim => cluster.remove_claim(&metadata(&storage(kind, number, 0))),
        Kind::Volume => cluster.remove_volume(&format!("volume-{number}")),
        Kind::Class => cluster.remove_storage_class(&format!("class-{number}")),
        Kind::CsiNode => cluster.remove_csi_node(&format!("node-{number}")),
        Kind::Attachment => cluster.remove_volume_attachment(&format!("attachment-{number}")),
    }
}

/// Pods to filter; each exercises another filter.
fn probes() -> Vec<Value> {
    let with = |more: Value| {
        let mut pod = json!({"metadata": {"name": "probe", "namespace": "space-0", "labels": {"app": "app-1"}},
            "spec": {"priority": 2, "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        pod["spec"]
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        pod
    };
    let app = json!({"matchLabels": {"app": "app-1"}});
    vec![
        with(json!({})),
        with(
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8001}],
            "resources": {"requests": {"example.com/gpu": "1"}}}]}),
        ),
        with(
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app}]}),
        ),
        with(
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": app,
             "namespaceSelector": {"matchLabels": {"team": "team-1"}}}]}}}),
        ),
        with(
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim-0"}}]}),
        ),
    ]
}

/// A pod as text.
fn shown(cluster: &Cluster, pod: &evictd_placement::Pod) -> String {
    format!(
        "{} {} {:?}",
        cluster.full_name(pod),
        pod.uid(),
        pod.amounts.cpu
    )
}

/// The observable state of a cluster, by names.
fn seen(cluster: &mut Cluster) -> (Sizes, BTreeMap<String, Vec<String>>) {
    let sizes = cluster.sizes();
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in cluster.nodes() {
        let lines = seen
            .entry(cluster.symbols().text(node.name).to_owned())
            .or_default();
        let gpus = cluster.symbols().get("example.com/gpu");
        let gpus = gpus.map_or(0, |gpu| node.requested_scalars.get(gpu));
        lines.push(format!(
            "{} {gpus} {}",
            node.requested.cpu, node.unknown_pods
        ));
        lines.extend(node.pods.iter().map(|pod| shown(cluster, pod)));
    }
    let lost = cluster
        .orphaned_pods()
        .map(|(node, pod)| format!("{node} {}", shown(cluster, pod)));
    let mut lost: Vec<String> = lost.collect();
    lost.extend(cluster.nominated().iter().map(|pod| shown(cluster, pod)));
    lost.sort();
    seen.insert("none".to_owned(), lost);
    for probe in probes() {
        let pod = cluster.pod(from_value(probe).unwrap()).unwrap();
        let mut checks = Checks::new(cluster, &pod);
        for id in cluster.node_ids() {
            let answer = checks
                .fits(id)
                .map_err(|rejection| checks.messages(rejection));
            let lines = seen.get_mut(cluster.node_name(id)).unwrap();
            lines.push(format!("{answer:?}"));
        }
        drop(checks);
        cluster.release(pod);
    }
    assert_eq!(cluster.sizes(), sizes, "asking leaves nothing behind");
    (sizes, seen)
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        4 => (0..5_u8).prop_map(|number| (Kind::Node, number)),
        8 => (0..12_u8).prop_map(|number| (Kind::Pod, number)),
        1 => (0..3_u8).prop_map(|number| (Kind::Namespace, number)),
        1 => (0..4_u8).prop_map(|number| (Kind::Claim, number)),
        1 => (0..4_u8).prop_map(|number| (Kind::Volume, number)),
        1 => (0..2_u8).prop_map(|number| (Kind::Class, number)),
        1 => (0..5_u8).prop_map(|number| (Kind::CsiNode, number)),
        1 => (0..6_u8).prop_map(|number| (Kind::Attachment, number)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_statement_that_is_undone_leaves_everything_as_it_was(
        objects in prop::collection::btree_map(object(), 0..7_u8, 5..60),
        steps in prop::collection::vec((0..5_u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..40),
    ) {
        let mut cluster = Cluster::new();
        for (object, form) in &objects {
            put(&mut cluster, *object, *form);
        }
        // Pending pods and nominated pods.
        let nominated = objects.iter().filter(|((kind, _), form)| *kind == Kind::Pod && **form == 4);
        let numbers = nominated.map(|((_, number), _)| *number).chain(12..16);
        let incoming = numbers.map(|number| {
            let mut pod = pod(number, number % 5);
            pod["spec"]["nodeName"] = json!("");
            cluster.pod(from_value(pod).unwrap()).unwrap()
        });
        let mut incoming: Vec<Pod> = incoming.collect();
        let exactly = |cluster: &Cluster| format!("{:?} {:?}", cluster.nodes(), cluster.nominated());
        let before = (exactly(&cluster), seen(&mut cluster), incoming.len());

        let mut statement = Statement::default();
        let (mut placed, mut removed) = (Vec::new(), Vec::new());
        for (what, one, other) in steps {
            let nodes: Vec<NodeId> = cluster.node_ids().collect();
            if nodes.is_empty() {
                continue;
            }
            let node = nodes[one.index(nodes.len())];
            match what {
                0 => if let Some(pod) = incoming.pop() {
                    placed.push(statement.place(&mut cluster, pod, node));
                },
                1 => if !placed.is_empty() {
                    let taken = placed.swap_remove(other.index(placed.len()));
                    incoming.extend(statement.take_back(&mut cluster, taken));
                },
                2 => {
                    // A placed pod of a statement does not count.
                    let pods = cluster.node(node).pods.len();
                    if pods > 0 && placed.is_empty() {
                        removed.push(statement.remove(&mut cluster, node, other.index(pods)));
                    }
                }
                3 => if !removed.is_empty() {
                    statement.put_back(&mut cluster, removed[other.index(removed.len())]);
                },
                _ => if !removed.is_empty() {
                    statement.remove_again(&mut cluster, removed[other.index(removed.len())]);
                },
            }
        }
        incoming.extend(statement.undo(&mut cluster));
        prop_assert_eq!((exactly(&cluster), seen(&mut cluster), incoming.len()), before);
        for pod in incoming {
            cluster.release(pod);
        }
        let mut anew = Cluster::new();
        for (object, form) in &objects {
            put(&mut anew, *object, *form);
        }
        prop_assert_eq!(seen(&mut cluster), seen(&mut anew));
        for object in objects.into_keys() {
            remove(&mut cluster, object);
        }
        let left = cluster.groups().iter().filter(|group| **group != Group::default());
        prop_assert_eq!(left.count(), 0, "nobody is left in a group");
    }

    #[test]
    fn a_committed_statement_equals_the_observed_changes(
        objects in prop::collection::btree_map(object(), 0..4_u8, 5..40),
        which in any::<prop::sample::Index>(),
    ) {
        let mut cluster = Cluster::new();
        let mut anew = Cluster::new();
        for (object, form) in &objects {
            put(&mut cluster, *object, *form);
            put(&mut anew, *object, *form);
        }
        let ids: Vec<NodeId> = cluster.node_ids().collect();
        let Some(id) = ids.get(which.index(ids.len().max(1))).copied() else {
            return Ok(());
        };
        let mut coming = pod(20, 1);
        coming["spec"]["nodeName"] = json!("");
        let mut statement = Statement::default();
        if let Some(first) = cluster.node(id).pods.first().cloned() {
            statement.remove(&mut cluster, id, 0);
            let namespace = cluster.full_name(&first);
            let (namespace, name) = namespace.split_once('/').unwrap();
            let metadata = json!({"name": name, "namespace": namespace, "uid": first.uid()});
            anew.remove_pod(&from_value(metadata).unwrap());
        }
        let compiled = cluster.pod(from_value(coming.clone()).unwrap()).unwrap();
        statement.place(&mut cluster, compiled, id);
        statement.commit(&mut cluster);
        let compiled = anew.pod(from_value(coming).unwrap()).unwrap();
        anew.assume(compiled, id);
        prop_assert_eq!(seen(&mut cluster), seen(&mut anew));
    }

    #[test]
    fn updating_a_node_with_its_own_object_changes_nothing(
        objects in prop::collection::btree_map(object(), 0..7_u8, 5..40),
    ) {
        let mut cluster = Cluster::new();
        for (object, form) in &objects {
            put(&mut cluster, *object, *form);
        }
        let before = seen(&mut cluster);
        let ids: Vec<NodeId> = cluster.node_ids().collect();
        for id in ids {
            let told = cluster.node_to_wire(id);
            cluster.update_node(&told);
            prop_assert_eq!(format!("{:?}", cluster.node_to_wire(id)), format!("{:?}", told));
        }
        prop_assert_eq!(seen(&mut cluster), before);
    }

    #[test]
    fn after_any_changes_it_equals_one_built_anew(
        steps in prop::collection::vec((object(), prop::option::weighted(0.7, 0..7_u8)), 0..80),
    ) {
        let mut cluster = Cluster::new();
        let mut left: BTreeMap<Object, u8> = BTreeMap::new();
        for (object, form) in steps {
            if let Some(form) = form {
                put(&mut cluster, object, form);
                left.insert(object, form);
                continue;
            }
            // Pending and finished pods are not kept.
            let kept = left.remove(&object).is_some_and(|form| object.0 != Kind::Pod || form < 5);
            prop_assert_eq!(remove(&mut cluster, object), kept);
        }
        let mut anew = Cluster::new();
        for (object, form) in left.iter().rev() {
            put(&mut anew, *object, *form);
        }
        prop_assert_eq!(seen(&mut cluster), seen(&mut anew));
        for object in left.into_keys() {
            remove(&mut cluster, object);
        }
        prop_assert_eq!(cluster.sizes(), Cluster::new().sizes(), "nothing is left of what was removed");
    }
}

#[test]
fn an_invalid_object_changes_nothing() {
    let mut cluster = Cluster::new();
    put(&mut cluster, (Kind::Node, 1), 0);
    put(&mut cluster, (Kind::Pod, 1), 0);
    let before = seen(&mut cluster);
    let wrong =
        json!({"matchExpressions": [{"key": "new", "operator": "Wrong", "values": ["newer"]}]});
    let mut bad = pod(1, 2);
    bad["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        [0]["labelSelector"] = wrong.clone();
    assert!(cluster.add_pod(from_value(bad).unwrap()).is_err());
    let mut claim = storage(Kind::Claim, 1, 1);
    claim["spec"]["selector"] = wrong.clone();
    assert!(cluster.add_claim(&from_value(claim).unwrap()).is_err());
    let selector = from_value(wrong).unwrap();
    assert!(
        cluster
            .pod_selector(&metadata(&pod(1, 0)), Some(&selector))
            .is_err()
    );
    assert_eq!(seen(&mut cluster), before);
}

#[test]
fn a_selector_counts_until_it_is_released() {
    let mut cluster = Cluster::new();
    let before = cluster.sizes();
    let selector = from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    let selector = cluster
        .pod_selector(&metadata(&pod(1, 0)), Some(&selector))
        .unwrap();
    assert_eq!(cluster.sizes().symbols, before.symbols + 3);
    cluster.release_selector(selector);
    assert_eq!(cluster.sizes(), before);
}

/// Labels that differ between the pods of a `StatefulSet` split no group until a selector names them.
#[test]
fn only_labels_that_a_selector_names_split_groups() {
    let mut cluster = Cluster::new();
    put(&mut cluster, (Kind::Node, 0), 0);
    let replica = |number: u8| {
        let name = format!("replica-{number}");
        json!({"metadata": {"name": name, "uid": name, "labels": {"app": "web", "name": name}},
            "spec": {"nodeName": "node-0", "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": name}}]}})
    };
    for number in 0..8 {
        cluster
            .add_pod(from_value(replica(number)).unwrap())
            .unwrap();
    }
    let groups = |cluster: &Cluster| {
        let pods = cluster.nodes()[0].pods.iter().map(|pod| pod.group.index());
        pods.collect::<BTreeSet<_>>().len()
    };
    assert_eq!((cluster.sizes().templates, groups(&cluster)), (8, 1));
    let selector = from_value(json!({"matchLabels": {"name": "replica-3"}})).unwrap();
    let selector = cluster
        .pod_selector(&metadata(&replica(0)), Some(&selector))
        .unwrap();
    assert_eq!(groups(&cluster), 8);
    cluster.release_selector(selector);
    // Pods that are added now share a group again.
    for number in 0..8 {
        cluster
            .add_pod(from_value(replica(number)).unwrap())
            .unwrap();
    }
    assert_eq!(groups(&cluster), 1);
    assert!(cluster.groups().len() < 20, "what is free is used again");
}

#[test]
fn pods_that_differ_by_labels_share_a_template() {
    let mut cluster = Cluster::new();
    put(&mut cluster, (Kind::Node, 0), 0);
    let before = cluster.sizes().templates;
    for number in 0..8 {
        let name = format!("replica-{number}");
        let pod = json!({"metadata": {"name": name, "uid": name, "labels": {"app": "web", "name": name}},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c"}]}});
        cluster.add_pod(from_value(pod).unwrap()).unwrap();
    }
    assert_eq!(cluster.sizes().templates, before + 1);
}

/// Cached results of a node stay valid when an assumed pod is bound to it.
#[test]
fn observing_an_assumed_pod_on_its_node_changes_nothing() {
    let waits = json!({
        "metadata": {"name": "web", "uid": "web", "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "image": "registry/web:1", "resources": {"requests": {"cpu": "1"}}}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
                "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let changed = |field: &str, value: Value| {
        let mut told = waits.clone();
        told["spec"]["nodeName"] = json!("node-0");
        *told.pointer_mut(field).unwrap() = value;
        told
    };
    let tolerates = json!([{"key": "one"}]);
    for (told, changes) in [
        (changed("/spec/nodeName", json!("node-0")), false),
        (changed("/spec/nodeName", json!("node-1")), true),
        (changed("/metadata/labels", json!({"app": "db"})), true),
        (
            changed("/spec/containers/0/resources/requests/cpu", json!("2")),
            true,
        ),
        (
            changed(
                "/spec",
                json!({"nodeName": "node-0", "tolerations": tolerates}),
            ),
            true,
        ),
    ] {
        let mut cluster = Cluster::new();
        put(&mut cluster, (Kind::Node, 0), 0);
        put(&mut cluster, (Kind::Node, 1), 0);
        let pod = cluster.pod(from_value(waits.clone()).unwrap()).unwrap();
        let node = cluster.find_node("node-0").unwrap();
        cluster.assume(pod, node);
        let before = cluster.changes().now();
        let wire: wire::Pod = from_value(told.clone()).unwrap();
        cluster.add_pod(wire.clone()).unwrap();
        assert_eq!(cluster.changes().now() > before, changes, "{told}");
        let mut anew = Cluster::new();
        put(&mut anew, (Kind::Node, 0), 0);
        put(&mut anew, (Kind::Node, 1), 0);
        anew.add_pod(wire).unwrap();
        assert_eq!(seen(&mut cluster), seen(&mut anew), "{told}");
    }
}

/// A pod whose two containers request this many resources and one GPU.
fn of_many_names(count: usize, node: &str) -> wire::Pod {
    let names = |range: std::ops::Range<usize>| -> Value {
        let requests = range.map(|number| (format!("example.com/r{number}"), json!("1")));
        let requests = requests.chain([("example.com/gpu".to_owned(), json!("1"))]);
        json!({"requests": requests.collect::<serde_json::Map<_, _>>()})
    };
    from_value(json!({
        "metadata": {"name": format!("many-{count}"), "uid": format!("many-{count}")},
        "spec": {"nodeName": node, "containers": [
            {"name": "a", "resources": names(0..count / 2)},
            {"name": "b", "resources": names(count / 2..count - 1)},
        ]},
    }))
    .unwrap()
}

#[test]
fn too_many_resources_are_rejected_for_pending_pods_and_counted_for_running_ones() {
    let mut cluster = Cluster::new();
    assert!(cluster.add_node(&from_value(node(1, 1)).unwrap()));
    let before = cluster.sizes();
    for (count, refused) in [(256, false), (257, true), (60_000, true)] {
        match cluster.pod(of_many_names(count, "")) {
            Ok(pod) => {
                assert!(!refused, "{count}");
                cluster.release(pod);
            }
            Err(mistake) => {
                let told = format!(
                    "spec.containers: names {count} different resources; more than 256 are not looked at"
                );
                assert!(refused && mistake.to_string() == told, "{mistake}");
            }
        }
        assert_eq!(cluster.sizes(), before, "{count}");
    }
    // The kubelet already runs this pod, so its requests count.
    let bound = of_many_names(60_000, "node-1");
    cluster.add_pod(bound.clone()).unwrap();
    let node = &cluster.nodes()[0];
    let of = |name: &str| {
        let symbol = cluster.symbols().get(name);
        symbol.map_or(0, |symbol| node.requested_scalars.get(symbol))
    };
    assert_eq!(node.requested_scalars.iter().count(), 60_000);
    assert_eq!((of("example.com/gpu"), of("example.com/r59998")), (2, 1));
    assert!(cluster.remove_pod(&bound.metadata));
    assert_eq!(cluster.sizes(), before);
}
