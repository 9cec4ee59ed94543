//! Tests of disks, claims and volumes: codes, messages, and objects that the input does not hold.

use super::{answers, fits_without_the_first, node, obstacles, pod, unchecked};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

pub(super) fn nodes() -> Vec<Value> {
    let node = |name: &str, zone: &str| node(name, json!({ZONE: zone}));
    vec![node("a", "zone-a"), node("b", "zone-b")]
}

/// A pod that uses these claims.
pub(super) fn user(app: &str, on: &str, claims: &[&str]) -> Value {
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod(app, on, json!({"volumes": volumes.collect::<Vec<_>>()}))
}

pub(super) fn claim(name: &str, spec: Value) -> Value {
    let phase = if spec["volumeName"].is_string() {
        "Bound"
    } else {
        "Pending"
    };
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}})
}

pub(super) fn volume(name: &str, spec: Value) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})
}

pub(super) fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})
}

/// The obstacle of a volume that only one zone can reach.
fn only_from(zone: &str) -> Value {
    let expression = json!({"key": ZONE, "operator": "In", "values": [zone]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}})
}

pub(super) fn with(mut objects: Vec<Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    objects.extend(more);
    objects
}

pub(super) const LATE: &str = "WaitForFirstConsumer";
const NEVER: &str = "UnschedulableAndUnresolvable";

#[test]
fn pods_on_one_node_cannot_share_some_disks() {
    let conflict = "Unschedulable: node(s) had no available disk";
    let gce =
        |read_only: bool| json!({"gcePersistentDisk": {"pdName": "d", "readOnly": read_only}});
    let aws = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}});
    let rbd = |monitor: &str, read_only: bool| json!({"rbd": {"monitors": ["m", monitor], "pool": "p", "image": "i", "readOnly": read_only}});
    let iscsi = |read_only: bool| json!({"iscsi": {"iqn": "d", "readOnly": read_only}});
    let cases = [
        (gce(false), gce(true), true),
        (gce(true), gce(true), false),
        (aws("d"), aws("d"), true),
        (aws("d"), aws("e"), false),
        (rbd("x", false), rbd("y", true), true),
        (rbd("x", true), rbd("y", true), false),
        (iscsi(true), iscsi(false), true),
        (iscsi(false), gce(false), false),
    ];
    for (held, wanted, conflicts) in cases {
        let holder = pod("db", "a", json!({"volumes": [held]}));
        let web = pod("web", "", json!({"volumes": [wanted]}));
        let objects = with(nodes(), [holder]);
        let message = if conflicts { conflict } else { "fits" };
        assert_eq!(answers(&objects, &web), [message, "fits"], "{web}");
        assert_eq!(fits_without_the_first(&objects, &web), [true, true]);
        let obstacle = "a disk that it shares with default/db (priority 0)";
        assert_eq!(
            obstacles(&objects, &web)[0],
            if conflicts { obstacle } else { "-" }
        );
    }
}

#[test]
fn s3_016_a_read_write_once_pod_claim_is_freed_with_its_pod() {
    let message = "Unschedulable: node(s) unavailable due to PersistentVolumeClaim with \
                 ReadWriteOncePod access mode already in-use by another pod";
    let modes = |mode: &str| json!({"volumeName": "pv", "accessModes": [mode]});
    let objects = |mode: &str| {
        let more = [
            claim("data", modes(mode)),
            volume("pv", json!({})),
            user("db", "a", &["data"]),
        ];
        with(nodes(), more)
    };
    let web = user("web", "", &["data"]);
    let alone = objects("ReadWriteOncePod");
    assert_eq!(answers(&alone, &web), [message, message]);
    // The claim is in use on any node, but only its own node can free it.
    assert_eq!(fits_without_the_first(&alone, &web), [true, false]);
    let by = "a claim for one pod alone, used by default/db (priority 0)";
    assert_eq!(
        obstacles(&alone, &web),
        [by.to_owned(), format!("{by} on a")]
    );
    assert_eq!(answers(&objects("ReadWriteOnce"), &web), ["fits"; 2]);
    let mut elsewhere = alone;
    elsewhere.last_mut().unwrap()["metadata"]["namespace"] = json!("other");
    assert_eq!(answers(&elsewhere, &web), ["fits"; 2]);
}

#[test]
fn s5_093_a_bound_volume_limits_the_nodes() {
    let spec = json!({"volumeName": "pv"});
    let mut affinity = only_from("zone-b");
    affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] =
        json!(["zone-b", "zone-c"]);
    let objects = with(
        nodes(),
        [
            claim("data", spec),
            volume("pv", json!({"nodeAffinity": affinity})),
        ],
    );
    let message = format!("{NEVER}: node(s) didn't match PersistentVolume's node affinity");
    let web = user("web", "", &["data"]);
    assert_eq!(answers(&objects, &web), [&message, "fits"]);
    let obstacle = "volume default/data can only be reached from zone-b or zone-c";
    assert_eq!(obstacles(&objects, &web), [obstacle, "-"]);
    // The volume is provisioned for the pod, so its claim's name joins both names.
    let mut named = objects;
    named[2]["metadata"]["name"] = json!("web-scratch");
    let web = pod(
        "web",
        "",
        json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}),
    );
    assert_eq!(answers(&named, &web), [&message, "fits"]);
}

#[test]
fn s5_093_an_unbound_immediate_claim_rejects_all_nodes() {
    let unbound = format!("{NEVER}: pod has unbound immediate PersistentVolumeClaims");
    let lost = format!(
        "{NEVER}: persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv\""
    );
    let leaving = format!("{NEVER}: persistentvolumeclaim \"data\" is being deleted");
    let classes = [class("late", "ebs", LATE), class("now", "ebs", "Immediate")];
    let of = |spec: Value, phase: &str| {
        let mut claim = claim("data", spec);
        claim["status"]["phase"] = json!(phase);
        claim
    };
    let mut deleted = of(json!({"volumeName": "pv"}), "Bound");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut completed = of(json!({"volumeName": "pv"}), "");
    completed["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let mut annotated = of(json!({"storageClassName": "now"}), "");
    annotated["metadata"]["annotations"] =
        json!({"volume.beta.kubernetes.io/storage-class": "late"});
    let cases = [
        (annotated, "fits"),
        (of(json!({"storageClassName": "now"}), ""), &*unbound),
        (of(json!({"storageClassName": ""}), ""), &unbound),
        (of(json!({}), ""), &unbound),
        (
            of(json!({"storageClassName": "late", "volumeName": "pv"}), ""),
            &unbound,
        ),
        (of(json!({"storageClassName": "late"}), ""), "fits"),
        (of(json!({"volumeName": "pv"}), "Lost"), &lost),
        (deleted, &leaving),
        (completed, "fits"),
    ];
    for (claim, wanted) in cases {
        // PreFilter rejects the pod before any node is filtered.
        let mut nodes = nodes();
        if wanted != "fits" {
            nodes[0]["spec"] = json!({"unschedulable": true});
        }
        let objects = with(nodes, classes.clone().into_iter().chain([claim.clone()]));
        assert_eq!(
            answers(&objects, &user("web", "", &["data"])),
            [wanted; 2],
            "{claim}"
        );
    }
}

#[test]
fn s5_093_a_delayed_claim_needs_a_volume_or_a_provisioner() {
    let message = format!("{NEVER}: node(s) didn't find available persistent volumes to bind");
    let request = |size: &str| {
        json!({"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}})
    };
    let disk = |zone: &str, size: &str| {
        json!({"storageClassName": "local", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": size}, "nodeAffinity": only_from(zone)})
    };
    let local = class("local", "kubernetes.io/no-provisioner", LATE);
    let base = with(nodes(), [local, claim("data", request("5Gi"))]);
    let web = user("web", "", &["data"]);
    let ask = |volumes: &[Value]| answers(&with(base.clone(), volumes.to_vec()), &web);
    assert_eq!(
        ask(&[volume("pv", disk("zone-b", "5Gi"))]),
        [&message, "fits"]
    );

    let mut cases = vec![volume("pv", disk("zone-b", "4Gi"))];
    for (field, value) in [
        ("accessModes", json!(["ReadWriteMany"])),
        ("volumeMode", json!("Block")),
        ("storageClassName", json!("other")),
        ("claimRef", json!({"namespace": "default", "name": "else"})),
    ] {
        let mut pv = volume("pv", disk("zone-b", "5Gi"));
        pv["spec"][field] = value;
        cases.push(pv);
    }
    let mut terminating = volume("pv", disk("zone-b", "5Gi"));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cases.push(terminating);
    let mut released = volume("pv", disk("zone-b", "5Gi"));
    released["status"]["phase"] = json!("Released");
    cases.push(released);
    for pv in cases {
        assert_eq!(ask(std::slice::from_ref(&pv)), [&*message; 2], "{pv}");
    }
    // Only the volume that is reserved for the claim matches.
    let mut promised = volume("pv", disk("zone-b", "5Gi"));
    promised["spec"]["claimRef"] = json!({"namespace": "default", "name": "data"});
    assert_eq!(
        ask(&[promised, volume("free", disk("zone-a", "5Gi"))]),
        [&message, "fits"]
    );

    let none = "no volume is left here for default/data, and no provisioner makes one";
    assert_eq!(obstacles(&base, &web), [none; 2]);

    // Two claims need two volumes.
    let two = with(
        base,
        [
            claim("more", request("1Gi")),
            volume("small", disk("zone-b", "1Gi")),
            volume("large", disk("zone-b", "9Gi")),
            volume("single", disk("zone-a", "9Gi")),
        ],
    );
    assert_eq!(
        answers(&two, &user("web", "", &["data", "more"])),
        [&message, "fits"]
    );
}

/// As in kube-scheduler, even if another order would satisfy both.
#[test]
fn the_smallest_claims_are_bound_first() {
    let message = format!("{NEVER}: node(s) didn't find available persistent volumes to bind");
    let request = |size: &str, labels: Value| {
        json!({"storageClassName": "local", "resources": {"requests": {"storage": size}},
            "selector": {"matchLabels": labels}})
    };
    let mut marked = volume(
        "marked",
        json!({"storageClassName": "local", "capacity": {"storage": "5Gi"}}),
    );
    marked["metadata"]["labels"] = json!({"mark": "x"});
    let plain = volume(
        "plain",
        json!({"storageClassName": "local", "capacity": {"storage": "9Gi"}}),
    );
    let objects = with(
        nodes(),
        [
            class("local", "", LATE),
            claim("data", request("5Gi", json!({"mark": "x"}))),
            claim("more", request("1Gi", json!({}))),
            marked,
            plain,
        ],
    );
    let served = |claims: &[&str]| answers(&objects, &user("web", "", claims));
    assert_eq!(served(&["data", "more"]), [&*message; 2]);
    assert_eq!(served(&["data"]), ["fits"; 2]);
}

#[test]
fn s5_093_volumes_are_provisioned_in_the_allowed_topologies() {
    let message = format!("{NEVER}: node(s) didn't find available persistent volumes to bind");
    let mut zonal = class("zonal", "ebs", LATE);
    zonal["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-b"]}]}]);
    let mut waiting = claim("data", json!({"storageClassName": "zonal"}));
    let web = user("web", "", &["data"]);
    let objects = with(nodes(), [zonal, waiting.clone()]);
    assert_eq!(answers(&objects, &web), [&message, "fits"]);
    assert_eq!(
        obstacles(&objects, &web),
        ["volume default/data cannot be made here", "-"]
    );
    let room = "VolumeBinding: the room left in storage class zonal is not in the input";
    assert!(unchecked(&objects, &web).contains(&room.to_owned()));

    waiting["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "a"});
    let free = class("zonal", "ebs", LATE);
    let objects = with(nodes(), [free, waiting]);
    assert_eq!(answers(&objects, &web), ["fits", &message]);
    assert_eq!(
        obstacles(&objects, &web),
        ["-", "volume default/data is being made on a"]
    );
}

#[test]
fn an_unreachable_volume_and_a_missing_one_give_both_messages() {
    let objects = with(
        nodes(),
        [
            class("local", "", LATE),
            claim("data", json!({"volumeName": "pv"})),
            claim("more", json!({"storageClassName": "local"})),
            volume("pv", json!({"nodeAffinity": only_from("zone-b")})),
        ],
    );
    let wanting = "node(s) didn't find available persistent volumes to bind";
    let both = format!("{NEVER}: {wanting}, node(s) didn't match PersistentVolume's node affinity");
    let answers = answers(&objects, &user("web", "", &["data", "more"]));
    assert_eq!(answers, [both, format!("{NEVER}: {wanting}")]);
}

#[test]
fn s3_016_a_volume_with_a_zone_label() {
    let message = format!("{NEVER}: node(s) had no available volume zone");
    let cases = [
        (ZONE, "zone-b", [&*message, "fits"]),
        (OLD_ZONE, "zone-b", [&*message, "fits"]),
        (ZONE, "zone-a__zone-b", ["fits", "fits"]),
        // A label with an empty zone is ignored.
        (ZONE, "zone-c__", ["fits", "fits"]),
        ("topology.kubernetes.io/region", "r", [&*message, &*message]),
    ];
    let web = user("web", "", &["data"]);
    for (label, value, wanted) in cases {
        let mut pv = volume("pv", json!({}));
        pv["metadata"]["labels"] = json!({label: value});
        let claim = claim("data", json!({"volumeName": "pv"}));
        let mut objects = with(nodes(), [claim, pv]);
        assert_eq!(answers(&objects, &web), wanted, "{label}={value}");
        if wanted[0] == message && label == ZONE {
            let obstacle = "volume default/data can only be reached from zone-b";
            assert_eq!(obstacles(&objects, &web), [obstacle, "-"]);
        }
        // The claim of an ephemeral volume is not checked.
        objects[2]["metadata"]["name"] = json!("web-data");
        let scratch = json!({"volumes": [{"name": "data", "ephemeral": {}}]});
        assert_eq!(answers(&objects, &pod("web", "", scratch)), ["fits"; 2]);
        objects[2]["metadata"]["name"] = json!("data");
        // A node without any zone label matches all zones.
        objects[0]["metadata"]["labels"] = json!({"disk": "ssd"});
        assert_eq!(answers(&objects, &web)[0], "fits");
    }
}

#[test]
fn a_missing_object_is_reported_and_not_guessed() {
    let all = "VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone";
    let some = "NodeVolumeLimits, VolumeBinding, VolumeZone";
    let web = user("web", "", &["data", "more"]);
    let csi = || volume("pv", json!({"csi": {"driver": "ebs", "volumeHandle": "h"}}));
    let bound = || claim("data", json!({"volumeName": "pv"}));
    let lines = |more: Vec<Value>| {
        let objects = with(nodes(), more);
        assert_eq!(answers(&objects, &web), ["fits"; 2]);
        unchecked(&objects, &web)
    };
    assert_eq!(unchecked(&nodes(), &pod("web", "", json!({}))), [""; 0]);
    let none = format!("{all}: no PersistentVolumeClaim is in the input, and the pod has 2");
    assert_eq!(lines(vec![]), [none]);
    let missing = format!("{all}: claim default/more is not in the input");
    assert_eq!(
        lines(vec![bound()]),
        [
            &*format!("{some}: no PersistentVolume is in the input"),
            &missing,
        ]
    );
    assert_eq!(
        lines(vec![bound(), volume("other", json!({}))]),
        [
            &*format!("{some}: volume pv of default/data is not in the input"),
            &missing,
        ]
    );
    let csi_node = |name: &str| json!({"kind": "CSINode", "metadata": {"name": name}});
    assert_eq!(
        lines(vec![bound(), csi()]),
        ["NodeVolumeLimits: no CSINode is in the input", &missing]
    );
    assert_eq!(
        lines(vec![
            bound(),
            csi(),
            csi_node("a"),
            user("db", "a", &["lost"])
        ]),
        [
            "NodeVolumeLimits: 1 claims of pods, or their volumes, are not in the input and do not count",
            "NodeVolumeLimits: the CSINode of b is not in the input",
            &missing,
        ]
    );
    let late = claim("more", json!({"storageClassName": "late"}));
    let nfs = volume("pv", json!({}));
    assert_eq!(
        lines(vec![bound(), nfs.clone(), late.clone()]),
        ["NodeVolumeLimits, VolumeBinding: no StorageClass is in the input"]
    );
    assert_eq!(
        lines(vec![bound(), nfs, late, class("now", "ebs", "Immediate")]),
        ["NodeVolumeLimits, VolumeBinding: storage class late of default/more is not in the input"]
    );
}
