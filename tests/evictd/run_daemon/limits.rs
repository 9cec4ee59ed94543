//! Limits of pods on local storage, with pods from the API and writable layers from the container runtime.

use super::disk::{own_mounts, tmpfs};
use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::node::Worker;
use evictd_testkit::cri::{Double, State, wire};
use serde_json::{Value, json};
use std::{fs, path::Path};

const MIB: u64 = 1 << 20;

fn fill(directory: &Path, mebibytes: usize) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("data"), vec![1; mebibytes << 20]).unwrap();
}

fn limited(name: &str, limit: &str) -> Value {
    json!({ "name": name, "image": "none", "resources": { "limits": { "ephemeral-storage": limit } } })
}

/// Makes a pod of this node; its UID.
pub(crate) fn create(cluster: &Cluster, name: &str, containers: &Value, volumes: &Value) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": {
            "nodeName": "test", "terminationGracePeriodSeconds": 0,
            "containers": containers, "volumes": volumes,
        },
        "status": { "phase": "Running" },
    });
    let made = cluster.admin.create(pod).unwrap();
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// In nanoseconds, as this process' directory tells it.
fn now() -> i64 {
    let made = fs::metadata("/proc/self").unwrap().modified().unwrap();
    let since = made.duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

/// A runtime in which the container `main` of this pod has written so many bytes into its layer.
fn runtime(uid: &str, bytes: u64) -> Double {
    let metadata = Some(wire::ContainerMetadata {
        name: "main".to_owned(),
        attempt: 0,
    });
    let layer = wire::FilesystemUsage {
        timestamp: now(),
        used_bytes: Some(wire::Count { value: bytes }),
        ..wire::FilesystemUsage::default()
    };
    let container = wire::Container {
        id: "c1".to_owned(),
        metadata: metadata.clone(),
        state: 1,
        labels: [("io.kubernetes.pod.uid".to_owned(), uid.to_owned())].into(),
        ..wire::Container::default()
    };
    let stats = wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: "c1".to_owned(),
            metadata,
        }),
        writable_layer: Some(layer),
        ..wire::ContainerStats::default()
    };
    Double::start(State {
        containers: vec![container],
        container_stats: vec![stats],
        ..State::default()
    })
    .unwrap()
}

#[test]
fn s1_069_s1_070_s1_071_pods_of_the_api_go_for_their_volume_their_container_and_their_total() {
    let name = "pods_of_the_api_go_for_their_volume_their_container_and_their_total";
    let Some(cluster) = Cluster::new(name) else {
        return;
    };
    if !own_mounts(name) {
        return;
    }
    // The daemon, which is started from here, finds logs of this test's own.
    tmpfs(Path::new("/var/log"), "size=32m");
    let kubelet = cluster.node.path("kubelet");
    let volume = |uid: &str| {
        kubelet.join(format!(
            "pods/{uid}/volumes/kubernetes.io~empty-dir/scratch"
        ))
    };
    let scratch = |limit: Value| json!([{ "name": "scratch", "emptyDir": { "sizeLimit": limit } }]);
    let one = json!([limited("main", "2Mi")]);
    let two = json!([limited("main", "2Mi"), limited("side", "10Mi")]);
    let no_limit = json!([{ "name": "main", "image": "none" }]);
    let in_volume = create(&cluster, "volume", &no_limit, &scratch(json!("2Mi")));
    let in_container = create(&cluster, "container", &two, &json!([]));
    let in_total = create(&cluster, "total", &one, &scratch(Value::Null));
    let fine = create(&cluster, "fine", &one, &scratch(json!("2Mi")));
    fill(&volume(&in_volume), 3);
    fill(&volume(&in_total), 3);
    fill(&volume(&fine), 1);
    fs::create_dir_all(kubelet.join("pods").join(&in_container)).unwrap();
    let logs = format!("/var/log/pods/shop_container_{in_container}/main");
    fill(Path::new(&logs), 1);
    let runtime = runtime(&in_container, 3 * MIB / 2);
    let mut workers =
        [&in_volume, &in_container, &in_total, &fine].map(|uid| cluster.run(uid, "--hold 1Mi"));
    let lines = format!(
        "{}\nkubelet: {{rootDir: '{}'}}\ncontainerRuntimeEndpoint: '{}'",
        cluster.lines(),
        kubelet.display(),
        runtime.socket().display()
    );
    let daemon = Daemon::start(&cluster.node, &[("memory.available", "1Mi")], &lines);
    let decisions = daemon.evicted(3);
    let signals = decisions.iter().filter_map(|one| one["signal"].as_str());
    let mut why: Vec<(&str, &str)> = names(&decisions).into_iter().zip(signals).collect();
    why.sort_unstable();
    let expected = [
        ("shop/container", "ephemeralcontainerfs.limit"),
        ("shop/total", "ephemeralpodfs.limit"),
        ("shop/volume", "emptydirfs.limit"),
    ];
    assert_eq!(why, expected);
    daemon.some_turns_pass();
    let alive = workers.each_mut().map(Worker::lives);
    assert_eq!(alive, [false, false, false, true]);
    // Their objects stay.
    assert_eq!(cluster.admin.list("pods").len(), 4);
}
