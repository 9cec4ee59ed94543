//! Changes that kube-scheduler overlooks: each wakes the pod, unless the queue is to do as kube-scheduler does.

use super::{node, placed, pod, with};
use evictd_pod::{Node, wire};
use evictd_scheduling::{Change, Delta, Failure, PluginName, Pool, SchedulingQueue, Settings};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

fn delta<T: DeserializeOwned>(old: Value, new: Value) -> Delta<T> {
    let read = |value: Value| {
        serde_json::from_value::<Option<T>>(value)
            .unwrap()
            .map(Arc::new)
    };
    Delta {
        old: read(old),
        new: read(new),
    }
}

fn of_pods(old: Value, new: Value) -> Change {
    Change::Pod(delta::<wire::Pod>(old, new))
}

fn of_nodes(old: Value, new: Value) -> Change {
    Change::Node(delta::<Node>(old, new))
}

/// A queue in which this plugin has rejected the pod.
fn rejected(as_kube_scheduler: bool, plugin: PluginName, waiting_pod: &Value) -> SchedulingQueue {
    let settings = Settings {
        as_kube_scheduler,
        ..Settings::default()
    };
    let names = ["default-scheduler".to_owned()];
    let mut queue = SchedulingQueue::new(settings, names, false);
    let now = Timestamp::UNIX_EPOCH;
    queue.on(now, &of_pods(Value::Null, waiting_pod.clone()));
    queue.pop().unwrap();
    let failure = Failure {
        rejectors: [plugin].into_iter().collect(),
        ..Failure::default()
    };
    queue.failed(now, "p", &failure).unwrap();
    queue
}

#[track_caller]
fn overlooked(plugin: PluginName, waiting_pod: &Value, change: &Change) {
    for (as_kube_scheduler, pool) in [(false, Pool::Backoff), (true, Pool::Unschedulable)] {
        let mut queue = rejected(as_kube_scheduler, plugin, waiting_pod);
        queue.on(Timestamp::UNIX_EPOCH, change);
        let found = queue.queued_pod("p").unwrap().pool;
        assert_eq!(
            found, pool,
            "as kube-scheduler: {as_kube_scheduler}, {change:?}"
        );
    }
}

fn labelled(name: &str, spec: Value, labels: Value) -> Value {
    with(&placed(name, spec), "metadata.labels", labels)
}

fn terms(of: &str, apps: &[&str]) -> Value {
    let term = |app: &&str| json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": app } } });
    let terms: Vec<_> = apps.iter().map(term).collect();
    json!({ "affinity": { of: { "requiredDuringSchedulingIgnoredDuringExecution": terms } } })
}

#[test]
fn kube_scheduler_overlooks_events_for_inter_pod_affinity() {
    let web = json!({ "app": "web" });
    let waiting_pod = with(&pod("p", json!({})), "metadata.labels", web.clone());
    let plugin = PluginName::InterPodAffinity;
    // Others do not want it near: a node without them will do.
    overlooked(plugin, &waiting_pod, &of_nodes(Value::Null, node("two")));
    // One of the terms of a pod that goes was enough to keep it away.
    let gone = placed("x", terms("podAntiAffinity", &["web", "db"]));
    overlooked(plugin, &waiting_pod, &of_pods(gone, Value::Null));
    let shy = pod("p", terms("podAntiAffinity", &["web", "db"]));
    let gone = labelled("x", json!({}), web.clone());
    overlooked(plugin, &shy, &of_pods(gone.clone(), Value::Null));
    // The last pod that it must be near is gone: it may be the first of its group.
    let first = with(
        &pod("p", terms("podAffinity", &["web"])),
        "metadata.labels",
        web,
    );
    overlooked(plugin, &first, &of_pods(gone, Value::Null));
}

#[test]
fn topology_spread() {
    let constraint = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } } });
    let spec =
        json!({ "topologySpreadConstraints": [constraint], "nodeSelector": { "disk": "ssd" } });
    let plugin = PluginName::PodTopologySpread;
    // A node that the pod's selector excludes no longer counts as a domain.
    let excluded = with(&node("one"), "metadata.labels.disk", json!("hdd"));
    overlooked(plugin, &pod("p", spec), &of_nodes(node("one"), excluded));
    // Its constraints are those of the profile.
    let gone = placed("x", json!({}));
    overlooked(plugin, &pod("p", json!({})), &of_pods(gone, Value::Null));
}

#[test]
fn kube_scheduler_overlooks_events_for_added_node_affinity() {
    let more = with(&node("one"), "metadata.labels.team", json!("a"));
    overlooked(
        PluginName::NodeAffinity,
        &pod("p", json!({})),
        &of_nodes(node("one"), more),
    );
}

#[test]
fn volumes() {
    let disk = json!({ "volumes": [{ "name": "data", "gcePersistentDisk": { "pdName": "a" } }] });
    let waiting_pod = pod("p", disk.clone());
    let elsewhere = with(
        &placed("x", disk.clone()),
        "metadata.namespace",
        json!("other"),
    );
    overlooked(
        PluginName::VolumeRestrictions,
        &waiting_pod,
        &of_pods(elsewhere, Value::Null),
    );
    let limits = PluginName::NodeVolumeLimits;
    overlooked(
        limits,
        &waiting_pod,
        &of_pods(placed("x", disk), Value::Null),
    );
    let detached = Change::VolumeAttachment(delta(json!({}), Value::Null));
    overlooked(limits, &waiting_pod, &detached);
    let driver =
        |limit: Value| json!({ "spec": { "drivers": [{ "name": "d", "allocatable": limit }] } });
    let (limited, unlimited) = (driver(json!({ "count": 1 })), driver(json!({})));
    let unlimited = Change::CsiNode(delta(limited, unlimited));
    overlooked(limits, &waiting_pod, &unlimited);
    let binding = PluginName::VolumeBinding;
    let driver =
        |asks: bool| json!({ "metadata": { "name": "d" }, "spec": { "storageCapacity": asks } });
    let no_longer = Change::CsiDriver(delta(driver(true), driver(false)));
    overlooked(binding, &waiting_pod, &no_longer);
    let room = |zone: &str| json!({ "nodeTopology": { "matchLabels": { "zone": zone } }, "capacity": "1Gi" });
    let moved = Change::CsiStorageCapacity(delta(room("a"), room("b")));
    overlooked(binding, &waiting_pod, &moved);
}

#[test]
fn kube_scheduler_overlooks_events_for_device_claims() {
    let claims = json!([{ "name": "card", "resourceClaimTemplateName": "t" }]);
    let statuses = json!([{ "name": "card", "resourceClaimName": "own-card" }]);
    let waiting_pod = with(
        &pod("p", json!({ "resourceClaims": claims })),
        "status",
        json!({ "resourceClaimStatuses": statuses }),
    );
    let owner =
        json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true }]);
    let of = |uid: &str, owners: &Value| {
        json!({ "metadata": { "name": "own-card", "namespace": "default", "uid": uid,
            "ownerReferences": owners } })
    };
    let unowned = of("1", &json!([]));
    let leaving = with(
        &of("1", &owner),
        "metadata.deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    // A claim gets its owner, and another claim has the name of one that was being deleted.
    for (old, new) in [(unowned, of("1", &owner)), (leaving, of("2", &owner))] {
        for (as_kube_scheduler, pool) in [(false, Pool::Active), (true, Pool::Gated)] {
            let settings = Settings {
                as_kube_scheduler,
                ..Settings::default()
            };
            let names = ["default-scheduler".to_owned()];
            let mut queue = SchedulingQueue::new(settings, names, false);
            let now = Timestamp::UNIX_EPOCH;
            queue.on(now, &Change::ResourceClaim(delta(Value::Null, old.clone())));
            queue.on(now, &of_pods(Value::Null, waiting_pod.clone()));
            assert_eq!(queue.queued_pod("p").unwrap().pool, Pool::Gated);
            queue.on(now, &Change::ResourceClaim(delta(old.clone(), new.clone())));
            assert_eq!(queue.queued_pod("p").unwrap().pool, pool, "{new}");
        }
    }
}

#[test]
fn a_pod_bound_by_another_client_frees_its_assumed_or_nominated_node() {
    for (as_kube_scheduler, pool) in [(false, Pool::Backoff), (true, Pool::Unschedulable)] {
        let mut queue = rejected(
            as_kube_scheduler,
            PluginName::NodeResourcesFit,
            &pod("p", json!({})),
        );
        let nominee = with(
            &pod("x", json!({})),
            "status",
            json!({ "nominatedNodeName": "two" }),
        );
        let now = Timestamp::UNIX_EPOCH;
        queue.on(now, &of_pods(Value::Null, nominee.clone()));
        queue.on(now, &of_pods(nominee, placed("x", json!({}))));
        assert_eq!(queue.queued_pod("p").unwrap().pool, pool);
    }
}

#[test]
fn s5_104_labels_of_a_namespace_wake_the_pods_whose_terms_they_change() {
    let of = |labels: Value| json!({ "metadata": { "name": "other", "labels": labels } });
    let (red, blue) = (of(json!({ "team": "red" })), of(json!({ "team": "blue" })));
    let label = |old: &Value, new: &Value| Change::Namespace(delta(old.clone(), new.clone()));
    let term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "a" } },
        "namespaceSelector": { "matchLabels": { "team": "red" } } });
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        let waiting_pod = pod("p", json!({ "affinity": { kind: terms } }));
        for (old, new) in [(&blue, &red), (&red, &blue), (&red, &Value::Null)] {
            overlooked(PluginName::InterPodAffinity, &waiting_pod, &label(old, new));
        }
        let green = of(json!({ "team": "green" }));
        let mut queue = rejected(false, PluginName::InterPodAffinity, &waiting_pod);
        queue.on(Timestamp::UNIX_EPOCH, &label(&blue, &green));
        let waits = queue.queued_pod("p").unwrap().pool;
        assert_eq!(waits, Pool::Unschedulable, "{kind}: no term selects either");
    }
    // The anti-affinity of another pod selects the namespace of this one no more.
    let own = |team: &str| json!({ "metadata": { "name": "default", "labels": { "team": team } } });
    overlooked(
        PluginName::InterPodAffinity,
        &pod("p", json!({})),
        &label(&own("red"), &own("blue")),
    );
}
