//! Tests of attach limits: which volumes count, and which share a count.

use super::volumes::{LATE, claim, class, nodes, user, volume, with};
use super::{answers, cluster, fits_without_the_first, node, obstacles, pod};
use serde_json::{Value, from_value, json};

#[test]
fn s3_016_a_node_has_an_attach_limit_per_driver() {
    let of = |name: &str, driver: &str| {
        let spec = json!({"csi": {"driver": driver, "volumeHandle": name}});
        [claim(name, json!({"volumeName": name})), volume(name, spec)]
    };
    let limits = |name: &str, count: Value| {
        let driver = json!({"name": "ebs", "allocatable": {"count": count}});
        json!({"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}})
    };
    let storage = ["one", "two", "three"]
        .into_iter()
        .flat_map(|name| of(name, "ebs"));
    let storage = storage.chain(of("other", "nfs"));
    let late = [
        class("late", "ebs", LATE),
        claim("new", json!({"storageClassName": "late"})),
    ];
    let more = [
        limits("a", json!(2)),
        limits("b", Value::Null),
        user("db", "a", &["one", "other"]),
        user("log", "a", &["one", "two"]),
    ];
    let mut objects = with(nodes(), storage.chain(late).chain(more));
    objects.insert(2, node("c", json!({})));
    objects.insert(3, limits("c", json!(2)));
    let message = "Unschedulable: node(s) exceed max volume count";
    let cases: [(&[&str], &str); 5] = [
        (&["three"], message),
        // An attached volume is not attached twice.
        (&["two"], "fits"),
        (&["two", "three"], message),
        // A volume that is still to be provisioned counts, too.
        (&["new"], message),
        (&["other"], "fits"),
    ];
    for (claims, wanted) in cases {
        assert_eq!(
            answers(&objects, &user("web", "", claims)),
            [wanted, "fits", "fits"],
            "{claims:?}"
        );
    }
    let web = user("web", "", &["three"]);
    let obstacle = "2 of 2 volumes of ebs are attached, and 1 more wanted";
    assert_eq!(obstacles(&objects, &web), [obstacle, "-", "-"]);
    // The first pod shares its volume with the other one, so both must be removed to free it.
    assert_eq!(fits_without_the_first(&objects, &web), [false, true, true]);
    assert_eq!(
        fits_without_the_first(
            &objects[..objects.len() - 1],
            &user("web", "", &["two", "three"])
        ),
        [true; 3]
    );
}

/// As in kube-scheduler 1.36, a volume that is still attached counts twice if the pod uses it again.
#[test]
fn a_volume_counts_as_long_as_it_is_attached() {
    let message = "Unschedulable: node(s) exceed max volume count";
    let attached = |name: &str, driver: &str, source: Value| {
        json!({"kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": driver, "nodeName": "a", "source": source}})
    };
    let of = |name: &str| attached(name, "ebs", json!({"persistentVolumeName": name}));
    let answer = |claims: &[&str], more: Vec<Value>| {
        let driver = json!({"name": "ebs", "allocatable": {"count": 2}});
        let limits =
            json!({"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [driver]}});
        let storage = ["one", "two", "three"].into_iter().flat_map(|name| {
            let spec = json!({"csi": {"driver": "ebs", "volumeHandle": name}});
            [claim(name, json!({"volumeName": name})), volume(name, spec)]
        });
        let disk = json!({"awsElasticBlockStore": {"volumeID": "disk"}});
        let objects = with(
            nodes(),
            storage.chain([volume("disk", disk), limits]).chain(more),
        );
        answers(&objects, &user("web", "", claims))[0].clone()
    };
    let cases: [(&[&str], Vec<Value>, &str); 8] = [
        (&["three"], vec![of("one")], "fits"),
        (&["three"], vec![of("one"), of("two")], message),
        // A volume in use is not attached again.
        (&["three"], vec![of("one"), of("one")], "fits"),
        // A volume that the pod mounts twice counts once.
        (
            &["three"],
            vec![of("one"), user("db", "a", &["one"])],
            "fits",
        ),
        (
            &["three"],
            vec![of("one"), user("db", "a", &["two"])],
            message,
        ),
        (&["two"], vec![of("one"), of("two")], message),
        // Volumes of other or unknown drivers do not count.
        (
            &["two", "three"],
            vec![
                attached("nfs", "nfs", json!({"persistentVolumeName": "one"})),
                attached("inline", "ebs", json!({"inlineVolumeSpec": {}})),
                attached("gone", "ebs", json!({"persistentVolumeName": "gone"})),
                attached("disk", "ebs", json!({"persistentVolumeName": "disk"})),
            ],
            "fits",
        ),
        (
            &["three"],
            vec![attached("one", "ebs", json!(null)), of("two")],
            "fits",
        ),
    ];
    for (claims, more, wanted) in cases {
        let told = format!("{claims:?} {more:?}");
        assert_eq!(answer(claims, more), wanted, "{told}");
    }
}

#[test]
fn in_tree_disks_count_for_their_csi_driver() {
    let message = "Unschedulable: node(s) exceed max volume count";
    // The limit is one volume, which is attached: the same disk fits, another one does not.
    let answers = |driver: &str, held: Value, wanted: Value| {
        let driver = json!({"name": driver, "allocatable": {"count": 1}});
        let more = [
            json!({"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [driver]}}),
            claim("held", json!({"volumeName": "held"})),
            volume("held", held),
            user("db", "a", &["held"]),
            claim("wanted", json!({"volumeName": "wanted"})),
            volume("wanted", wanted),
        ];
        answers(&with(nodes(), more), &user("web", "", &["wanted"]))[0].clone()
    };
    let kinds = [
        ("ebs.csi.aws.com", "awsElasticBlockStore", "volumeID"),
        ("pd.csi.storage.gke.io", "gcePersistentDisk", "pdName"),
        ("disk.csi.azure.com", "azureDisk", "diskURI"),
        ("cinder.csi.openstack.org", "cinder", "volumeID"),
        ("pxd.portworx.com", "portworxVolume", "volumeID"),
    ];
    for (driver, kind, field) in kinds {
        let disk = |name: &str| json!({kind: {field: name}});
        assert_eq!(answers(driver, disk("one"), disk("two")), message, "{kind}");
        assert_eq!(answers(driver, disk("one"), disk("one")), "fits", "{kind}");
        // The disk counts together with the driver's CSI volumes, but not with another driver's.
        let csi_volume = json!({"csi": {"driver": driver, "volumeHandle": "two"}});
        assert_eq!(answers(driver, csi_volume, disk("one")), message, "{kind}");
        assert_eq!(answers("nfs", disk("one"), disk("two")), "fits", "{kind}");
    }
    let ebs = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let (zoned, plain) = (ebs("aws://zone-a/vol-1"), ebs("vol-1"));
    assert_eq!(answers("ebs.csi.aws.com", zoned, plain), "fits");
    assert_eq!(answers("ebs.csi.aws.com", ebs("vol-1"), ebs("")), "fits");
}

#[test]
fn disks_without_a_volume_count_too() {
    let message = "Unschedulable: node(s) exceed max volume count";
    let driver = json!({"name": "ebs.csi.aws.com", "allocatable": {"count": 1}});
    let disk = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let late = |volume: Option<&str>| {
        claim(
            "late",
            json!({"volumeName": volume, "storageClassName": "late"}),
        )
    };
    let objects = |late: Value| {
        let more = [
            json!({"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [driver]}}),
            class("late", "kubernetes.io/aws-ebs", LATE),
            late,
            pod("db", "a", json!({"volumes": [disk("held")]})),
        ];
        with(nodes(), more)
    };
    let web = user("web", "", &["late"]);
    assert_eq!(answers(&objects(late(None)), &web)[0], message);
    // A claim whose volume is gone counts by its class.
    assert_eq!(answers(&objects(late(Some("gone"))), &web)[0], message);
    let web = pod("web", "", json!({"volumes": [disk("other")]}));
    assert_eq!(answers(&objects(late(None)), &web)[0], message);
}

#[test]
fn moving_an_attachment_changes_both_nodes() {
    let mut cluster = cluster(&nodes());
    let on = |node: &str| {
        let source = json!({"persistentVolumeName": "pv"});
        let spec = json!({"attacher": "ebs", "nodeName": node, "source": source});
        from_value(json!({"metadata": {"name": "one"}, "spec": spec})).unwrap()
    };
    cluster.add_volume_attachment(&on("a"));
    let then = cluster.changes().now();
    cluster.add_volume_attachment(&on("b"));
    assert_eq!(cluster.changes().nodes_since(then).count(), 2);
    let then = cluster.changes().now();
    assert!(cluster.remove_volume_attachment("one"));
    assert!(!cluster.remove_volume_attachment("one"));
    assert_eq!(cluster.changes().nodes_since(then).count(), 1);
}
