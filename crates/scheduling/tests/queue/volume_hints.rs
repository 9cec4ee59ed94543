//! Which changes of storage wake a pod, by the plugin that rejected it (S5-105).

use super::{check, node, placed, pod, with};
use serde_json::{Value, json};

fn object(kind: &str, name: &str) -> Value {
    json!({ "kind": kind, "metadata": { "name": name, "namespace": "default" } })
}

fn claims(name: &str) -> Value {
    json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": name } }] })
}

#[test]
fn s5_105_claims() {
    let waiting_pod = pod("p", claims("c"));
    let claim = |name: &str| object("PersistentVolumeClaim", name);
    let elsewhere = with(&claim("c"), "metadata.namespace", json!("other"));
    let bound = with(&claim("c"), "spec", json!({ "volumeName": "v" }));
    for (plugin, updates) in [
        ("VolumeBinding", true),
        ("VolumeZone", true),
        ("VolumeRestrictions", false),
        ("NodeVolumeLimits", false),
    ] {
        let changes = [
            (Value::Null, claim("c"), true),
            (Value::Null, claim("d"), false),
            (Value::Null, elsewhere.clone(), false),
            (claim("c"), bound.clone(), updates),
        ];
        check(plugin, &waiting_pod, &changes);
    }
    let ephemeral = pod(
        "p",
        json!({ "volumes": [{ "name": "data", "ephemeral": {} }] }),
    );
    check(
        "VolumeBinding",
        &ephemeral,
        &[(Value::Null, claim("p-data"), true)],
    );
}

#[test]
fn s5_105_volumes_and_classes() {
    let waiting_pod = pod("p", claims("c"));
    let volume = object("PersistentVolume", "v");
    let bound = with(&volume, "spec", json!({ "claimRef": { "name": "c" } }));
    let labels = json!({ "topology.kubernetes.io/zone": "a" });
    let zoned = with(&volume, "metadata.labels", labels);
    let class = object("StorageClass", "s");
    let waits = with(&class, "volumeBindingMode", json!("WaitForFirstConsumer"));
    let label = json!({ "key": "zone", "values": ["a"] });
    let topologies = json!([{ "matchLabelExpressions": [label] }]);
    let allowed = with(&class, "allowedTopologies", topologies);
    let expands = with(&class, "allowVolumeExpansion", json!(true));
    let changes = [
        (Value::Null, volume.clone(), true),
        (volume.clone(), bound.clone(), true),
        (Value::Null, class.clone(), true),
        (class.clone(), allowed.clone(), true),
        (class.clone(), expands, false),
    ];
    check("VolumeBinding", &waiting_pod, &changes);
    let changes = [
        (Value::Null, volume.clone(), true),
        (volume.clone(), bound, false),
        (volume, zoned, true),
        (Value::Null, class.clone(), false),
        (Value::Null, waits, true),
        (class, allowed, false),
    ];
    check("VolumeZone", &waiting_pod, &changes);
}

#[test]
fn s5_105_nodes() {
    let waiting_pod = pod("p", claims("c"));
    let labelled = with(&node("one"), "metadata.labels.zone", json!("b"));
    for plugin in ["VolumeBinding", "VolumeZone"] {
        let changes = [
            (Value::Null, node("one"), true),
            (node("one"), labelled.clone(), true),
        ];
        check(plugin, &waiting_pod, &changes);
    }
    check(
        "NodeVolumeLimits",
        &waiting_pod,
        &[(Value::Null, node("one"), false)],
    );
}

#[test]
fn s5_105_s7_223_attach_limits_and_storage_capacity() {
    let waiting_pod = pod("p", claims("c"));
    let limit = |count: i64| {
        let driver = json!({ "name": "d", "allocatable": { "count": count } });
        with(
            &object("CSINode", "one"),
            "spec",
            json!({ "drivers": [driver] }),
        )
    };
    let migrated = json!({ "storage.alpha.kubernetes.io/migrated-plugins": "x" });
    let migrated = with(&limit(1), "metadata.annotations", migrated);
    let changes = [
        (Value::Null, limit(1), true),
        (limit(1), limit(2), true),
        (limit(2), limit(1), false),
        (limit(1), migrated.clone(), false),
    ];
    check("NodeVolumeLimits", &waiting_pod, &changes);
    let changes = [
        (Value::Null, limit(1), true),
        (limit(1), limit(2), false),
        (limit(1), migrated, true),
    ];
    check("VolumeBinding", &waiting_pod, &changes);
    let room = |key: &str, size: &str| {
        let room = object("CSIStorageCapacity", "s");
        with(&room, key, json!(size))
    };
    let both = with(&room("capacity", "9Gi"), "maximumVolumeSize", json!("1Gi"));
    let changes = [
        (Value::Null, room("capacity", "1Gi"), true),
        (room("capacity", "1Gi"), room("capacity", "2Gi"), true),
        (room("capacity", "2Gi"), room("capacity", "1Gi"), false),
        (room("capacity", "2Gi"), both.clone(), false),
        (both, room("maximumVolumeSize", "2Gi"), true),
    ];
    check("VolumeBinding", &waiting_pod, &changes);
}

#[test]
fn s5_105_a_driver_that_no_longer_publishes_storage_capacity() {
    let driver = |asks: bool| {
        with(
            &object("CSIDriver", "d"),
            "spec",
            json!({ "storageCapacity": asks }),
        )
    };
    let inline = |driver: &str| {
        let volume = json!({ "name": "data", "csi": { "driver": driver } });
        pod("p", json!({ "volumes": [volume] }))
    };
    let changes = |wakes: bool| {
        [
            (driver(true), driver(false), wakes),
            (driver(false), driver(true), false),
        ]
    };
    check("VolumeBinding", &inline("d"), &changes(true));
    check("VolumeBinding", &inline("e"), &changes(false));
}

#[test]
fn s5_105_deleted_pods_free_disks_and_attachments() {
    let disk = |name: &str, reads: bool| {
        let disk = json!({ "pdName": name, "readOnly": reads });
        json!({ "volumes": [{ "name": "data", "gcePersistentDisk": disk }] })
    };
    let other = with(
        &placed("x", disk("a", false)),
        "metadata.namespace",
        json!("other"),
    );
    let changes = [
        (placed("x", disk("a", false)), Value::Null, true),
        (placed("x", disk("b", false)), Value::Null, false),
        (placed("x", disk("a", true)), Value::Null, false),
        (other, Value::Null, false),
    ];
    check("VolumeRestrictions", &pod("p", disk("a", true)), &changes);
    let changes = [
        (placed("x", claims("c")), Value::Null, true),
        (placed("x", claims("d")), Value::Null, false),
    ];
    check("VolumeRestrictions", &pod("p", claims("c")), &changes);
    let attachment = object("VolumeAttachment", "a");
    let changes = [
        (placed("x", claims("d")), Value::Null, true),
        (placed("x", disk("a", false)), Value::Null, false),
        (attachment.clone(), Value::Null, true),
    ];
    check("NodeVolumeLimits", &pod("p", claims("c")), &changes);
    let without = pod("p", json!({}));
    check(
        "NodeVolumeLimits",
        &without,
        &[(attachment, Value::Null, false)],
    );
}
