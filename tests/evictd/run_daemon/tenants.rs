//! What those who may write pods try.

use crate::alone::budget::status_kib;
use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use serde_json::{Value, json};

const LOW: &str = "110Mi";
/// The limit that evictd is shipped with; an unoptimised one is larger.
const MOST_KIB: u64 = if cfg!(debug_assertions) {
    64 << 10
} else {
    32 << 10
};

fn annotated(key: &str, value: &str) -> Value {
    json!({ "annotations": { key: value } })
}

#[test]
fn no_annotation_hides_a_hog() {
    let Some(cluster) = Cluster::new("no_annotation_hides_a_hog") else {
        return;
    };
    // Before all others, so that it would end the list of them.
    cluster.create("a-first", &annotated("k8s.io/initial-events-end", "true"));
    let from_a_file = annotated("kubernetes.io/config.source", "file");
    let uid = cluster.create("hog", &from_a_file);
    let mut hog = cluster.run(&uid, "--hold 90Mi");
    let mirror = annotated("kubernetes.io/config.mirror", &uid);
    let forger = cluster.create("forger", &mirror);
    let mut forger = cluster.run(&forger, "--hold 8Mi");
    let mut small = cluster.pod("small", "--hold 2Mi");
    let daemon = cluster.daemon(LOW);
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(!hog.lives() && forger.lives() && small.lives());
    let ranking = daemon.history()[0]["ranking"].clone();
    let mut ranked: Vec<_> = ranking.as_array().unwrap().iter().collect();
    ranked.retain(|row| row["spared"].is_null());
    let ranked: Vec<_> = ranked
        .iter()
        .map(|row| row["pod"].as_str().unwrap())
        .collect();
    assert!(ranked.contains(&"shop/forger"), "{ranking}");
    daemon.eventually("it knows all that are left", |daemon| {
        daemon.pods() == ["a-first", "forger", "small"]
    });
}

#[test]
fn a_pod_whose_status_says_that_it_failed_goes_while_it_runs() {
    let Some(cluster) = Cluster::new("a_pod_whose_status_says_that_it_failed") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 90Mi");
    let mut small = cluster.pod("small", "--hold 2Mi");
    let failed = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    cluster
        .admin
        .merge("pods/status", "shop/hog", failed)
        .unwrap();
    let daemon = cluster.daemon(LOW);
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(!hog.lives() && small.lives());
}

#[test]
fn a_pod_that_is_deleted_by_force_and_runs_on_is_known_to_be_going() {
    let Some(cluster) = Cluster::new("a_pod_that_is_deleted_by_force") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 8Mi");
    cluster.create("other", &Value::Null);
    let daemon = cluster.daemon("1Mi");
    daemon.eventually_knows(&["hog", "other"]);
    cluster.delete("hog");
    daemon.eventually("it is missed", |daemon| {
        daemon.said("pod shop/hog is no longer listed and still runs") == 1
    });
    assert_eq!(daemon.pods(), ["hog", "other"]);
    daemon.eventually("it is said that it runs on", |daemon| {
        let leaving = daemon.status()["leaving"].to_string();
        leaving.contains("it was deleted and still runs")
    });
    assert!(hog.lives());
}

/// 110 pods as large as they may be, and 2000 that have failed.
fn crowd(cluster: &Cluster) {
    let large = annotated("theirs", &"x".repeat(250 << 10));
    for number in 0..110 {
        cluster.create(&format!("large-{number}"), &large);
    }
    for number in 0..2000 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("failed-{number}"), "namespace": "shop",
                "annotations": { "theirs": "x".repeat(20 << 10) },
            },
            "spec": {"nodeName": "test", "containers": [{"name": "main", "image": "none"}]},
            "status": {"phase": "Failed", "reason": "Evicted"},
        });
        cluster.admin.create(pod).unwrap();
    }
}

#[test]
fn large_pods_and_many_failed_ones_take_no_more_memory_than_evictd_has() {
    let Some(cluster) = Cluster::new("large_pods_and_many_failed_ones") else {
        return;
    };
    crowd(&cluster);
    for streaming in [true, false] {
        cluster
            .api
            .set(|settings| settings.streaming_lists = streaming);
        for run in ["first", "second"] {
            let daemon = cluster.daemon("1Mi");
            daemon.eventually("all pods are known", |daemon| {
                daemon.status()["pods"]["active"] == 110
            });
            cluster.api.compact();
            cluster.api.cut_watches();
            daemon.eventually("they are told once more", Daemon::is_sure_of_its_pods);
            let kib = ["VmHWM", "VmRSS"].map(|key| status_kib(daemon.pid(), key));
            assert!(
                kib[0] <= MOST_KIB,
                "{kib:?} KiB, streaming {streaming}, {run} run"
            );
        }
    }
}
