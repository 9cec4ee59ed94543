//! Tests of what storage decides otherwise from Kubernetes 1.37 on.

use super::volumes::{LATE, claim, class, nodes, user, volume, with};
use super::{answers_of, cluster};
use crate::Cluster;
use crate::plugin::Plugin as _;
use crate::plugins::VolumeBinding;
use evictd_pod::compatibility::{Compatibility, Release};
use serde_json::{Value, from_value, json};

fn of_release(objects: &[Value], release: Release) -> Cluster {
    let mut cluster = cluster(objects);
    cluster.set_compatibility(Compatibility::of(release));
    cluster
}

/// The raw scores of `VolumeBinding` by node; `None` if it does not score.
fn scores(objects: &[Value], release: Release) -> Option<Vec<i64>> {
    let mut cluster = of_release(objects, release);
    let pod = from_value(user("web", "", &["data"])).unwrap();
    let pod = cluster.pod(pod).unwrap();
    let ids: Vec<_> = cluster.node_ids().collect();
    let score = VolumeBinding::default().score(&cluster, &pod, &ids)?;
    let raw = ids
        .iter()
        .map(|id| score.raw(super::super::Here::new(&cluster, *id)));
    Some(raw.collect())
}

fn data() -> Value {
    let resources = json!({"requests": {"storage": "10Gi"}});
    claim(
        "data",
        json!({"storageClassName": "late", "resources": resources}),
    )
}

#[test]
fn s7_220_t114_t115_the_node_with_more_room_for_new_volumes_scores_higher() {
    let driver = json!({"kind": "CSIDriver", "metadata": {"name": "lvm"}, "spec": {"storageCapacity": true}});
    let room = |node: &str, capacity: &str| {
        let topology =
            json!({"matchLabels": {"topology.kubernetes.io/zone": format!("zone-{node}")}});
        json!({"kind": "CSIStorageCapacity", "metadata": {"name": node}, "storageClassName": "late",
            "nodeTopology": topology, "capacity": capacity})
    };
    let base = with(nodes(), [class("late", "lvm", LATE), data(), driver]);
    let both = with(base.clone(), [room("a", "100Gi"), room("b", "20Gi")]);
    assert_eq!(scores(&both, Release::V1_37), Some(vec![90, 50]));
    assert_eq!(scores(&both, Release::V1_36), None);
    let one = with(base, [room("b", "100Gi")]);
    assert_eq!(scores(&one, Release::V1_37), Some(vec![0, 90]));
}

#[test]
fn s7_220_t116_the_node_with_the_larger_existing_volume_scores_higher() {
    let existing = |name: &str, node: &str, size: &str| {
        let key = "topology.kubernetes.io/zone";
        let zone = json!({"key": key, "operator": "In", "values": [format!("zone-{node}")]});
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}});
        volume(
            name,
            json!({"storageClassName": "late", "capacity": {"storage": size}, "nodeAffinity": affinity}),
        )
    };
    let volumes = [
        existing("large", "a", "20Gi"),
        existing("small", "b", "10Gi"),
    ];
    let base = with(nodes(), [class("late", "lvm", LATE), data()]);
    let objects = with(base, volumes);
    assert_eq!(scores(&objects, Release::V1_37), Some(vec![50, 0]));
}

#[test]
fn s7_222_t117_t118_a_driver_may_keep_pods_off_nodes_without_it() {
    let registered = json!({"kind": "CSINode", "metadata": {"name": "b"}, "spec": {"drivers": [{"name": "lvm"}]}});
    let none = json!({"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": []}});
    let message = "Unschedulable: lvm CSI driver is not installed on the node";
    for (prevents, release, expected) in [
        (true, Release::V1_37, [message, "fits"]),
        (false, Release::V1_37, ["fits", "fits"]),
        (true, Release::V1_36, ["fits", "fits"]),
    ] {
        let spec = json!({"preventPodSchedulingIfMissing": prevents});
        let driver = json!({"kind": "CSIDriver", "metadata": {"name": "lvm"}, "spec": spec});
        let more = [
            class("late", "lvm", LATE),
            data(),
            driver,
            none.clone(),
            registered.clone(),
        ];
        let mut cluster = of_release(&with(nodes(), more), release);
        assert_eq!(
            answers_of(&mut cluster, &user("web", "", &["data"])),
            expected
        );
    }
}
