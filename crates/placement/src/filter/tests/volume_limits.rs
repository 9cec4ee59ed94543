//! How many volumes of a driver a node attaches: which count, and which count once.

use super::volumes::{LATE, claim, class, nodes, user, volume, with};
use super::{answers, answers_without_the_first, cluster, node, obstacles, pod};
use serde_json::{Value, from_value, json};

#[test]
fn s3_016_a_node_attaches_only_so_many_volumes_of_a_driver() {
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
    let words = "Unschedulable: node(s) exceed max volume count";
    let cases: [(&[&str], &str); 5] = [
        (&["three"], words),
        // What is there already is not attached twice.
        (&["two"], "fits"),
        (&["two", "three"], words),
        // One that is yet to be made counts too.
        (&["new"], words),
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
    // The first of the node's pods shares its volume with the other: only with both gone is there room.
    assert_eq!(
        answers_without_the_first(&objects, &web),
        [false, true, true]
    );
    assert_eq!(
        answers_without_the_first(
            &objects[..objects.len() - 1],
            &user("web", "", &["two", "three"])
        ),
        [true; 3]
    );
}

/// As kube-scheduler 1.36 counts them, which also counts a volume twice that is still attached and that the pod wants again.
#[test]
fn a_volume_counts_as_long_as_it_is_attached() {
    let words = "Unschedulable: node(s) exceed max volume count";
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
        (&["three"], vec![of("one"), of("two")], words),
        // The same one again is the same one.
        (&["three"], vec![of("one"), of("one")], "fits"),
        // One that a pod uses counts once.
        (
            &["three"],
            vec![of("one"), user("db", "a", &["one"])],
            "fits",
        ),
        (
            &["three"],
            vec![of("one"), user("db", "a", &["two"])],
            words,
        ),
        (&["two"], vec![of("one"), of("two")], words),
        // Those of other drivers, and those of which it is not known what they are, do not count.
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
fn disks_that_kubernetes_once_attached_itself_count_for_the_driver_that_does_now() {
    let words = "Unschedulable: node(s) exceed max volume count";
    // Where one disk of the kind is attached and no more can be: another one, and the same once more.
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
        assert_eq!(answers(driver, disk("one"), disk("two")), words, "{kind}");
        assert_eq!(answers(driver, disk("one"), disk("one")), "fits", "{kind}");
        // It counts beside those of the driver's own kind, and another driver's do not.
        let own = json!({"csi": {"driver": driver, "volumeHandle": "two"}});
        assert_eq!(answers(driver, own, disk("one")), words, "{kind}");
        assert_eq!(answers("nfs", disk("one"), disk("two")), "fits", "{kind}");
    }
    let ebs = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let (zoned, plain) = (ebs("aws://zone-a/vol-1"), ebs("vol-1"));
    assert_eq!(answers("ebs.csi.aws.com", zoned, plain), "fits");
    assert_eq!(answers("ebs.csi.aws.com", ebs("vol-1"), ebs("")), "fits");
}

#[test]
fn disks_without_a_volume_count_too() {
    let words = "Unschedulable: node(s) exceed max volume count";
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
    assert_eq!(answers(&objects(late(None)), &web)[0], words);
    // Its volume is gone: it counts by its class.
    assert_eq!(answers(&objects(late(Some("gone"))), &web)[0], words);
    let web = pod("web", "", json!({"volumes": [disk("other")]}));
    assert_eq!(answers(&objects(late(None)), &web)[0], words);
}

#[test]
fn an_attachment_that_moves_changes_answers_about_both_nodes() {
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
