//! Usage as the kubelet tells it, and cgroups where it does not.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::run_daemon::kubelet::Kubelet;
use evictd_testkit::{ApiServer, Fault};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::time::Duration;

/// A pod that holds 90 MiB of the node's 192 crosses it, and one of 8 MiB does not.
const LOW: &str = "110Mi";

/// Lines of a configuration that asks the kubelet at this place.
fn lines(cluster: &Cluster, url: &str) -> String {
    let place = cluster.node.directory.path().display();
    fs::write(cluster.node.path("token"), "good").unwrap();
    format!(
        "{}\nusage: {{source: summary}}\nkubelet: {{url: '{url}', tokenFile: {place}/token}}",
        cluster.lines()
    )
}

fn uid(cluster: &Cluster, pod: &str) -> Value {
    let pod = cluster.admin.get("pods", &format!("shop/{pod}")).unwrap();
    pod["metadata"]["uid"].clone()
}

/// What the kubelet tells of a pod: so many MiB, measured so many seconds ago.
fn stats(cluster: &Cluster, pod: &str, mebibytes: u64, ago: i64) -> Value {
    let time = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(ago);
    let memory = json!({"time": time, "workingSetBytes": mebibytes << 20});
    json!({
        "podRef": {"namespace": "shop", "name": pod, "uid": uid(cluster, pod)},
        "memory": memory,
        "containers": [{"name": "main", "memory": memory}],
    })
}

fn daemon(cluster: &Cluster, url: &str) -> Daemon {
    Daemon::start(
        &cluster.node,
        &[("memory.available", LOW)],
        &lines(cluster, url),
    )
}

#[test]
fn the_kubelets_figures_decide_unless_they_are_from_before_the_crossing() {
    // The kubelet's clock may be ahead, so the first figures are not older than the crossing.
    for (ago, victim) in [(-30, "other"), (16, "hog"), (3600, "hog")] {
        let Some(cluster) = Cluster::new("the_kubelets_figures_decide") else {
            return;
        };
        let mut other = cluster.pod("other", "--hold 8Mi");
        let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 90Mi --per-second 400Mi");
        let kubelet = Kubelet::start();
        // Not what their cgroups say.
        let pods = [("other", 80), ("hog", 2)].map(|(pod, held)| stats(&cluster, pod, held, ago));
        kubelet.set("/stats/summary", &json!({"node": {}, "pods": pods}));
        let daemon = daemon(&cluster, &kubelet.url);
        let source = daemon.status()["sources"][1].clone();
        assert_eq!(
            source,
            json!({"port": "usage.source", "chosen": "summary", "why": "configured"})
        );
        daemon.eventually_knows(&["hog", "other"]);
        hog.grow();
        let first = daemon.evicted(1).remove(0);
        assert_eq!(first["pod"], format!("shop/{victim}"), "{ago}");
        if victim == "other" {
            assert!(!other.lives());
            let told = first["message"].as_str().unwrap();
            assert!(told.contains("Container main was using 80Mi"), "{told}");
        } else {
            assert!(other.lives() && !hog.lives());
        }
    }
}

#[test]
fn without_the_kubelet_cgroups_decide_and_it_says_so() {
    let Some(cluster) = Cluster::new("without_the_kubelet_cgroups_decide") else {
        return;
    };
    let mut small = cluster.pod("small", "--hold 8Mi");
    let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 90Mi --per-second 200Mi");
    let kubelet = Kubelet::start();
    let daemon = daemon(&cluster, &kubelet.url);
    daemon.eventually_knows(&["hog", "small"]);
    daemon.eventually("it says so", |daemon| daemon.warns("404"));
    assert!(daemon.warns("their cgroups and directories are read instead"));
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(small.lives() && !hog.lives());
    kubelet.set("/stats/summary", &json!({"pods": []}));
    daemon.eventually("the warning is over", |daemon| {
        daemon.pods();
        !daemon.warns("tell the usage")
    });
}

#[test]
fn a_kubelet_that_hangs_delays_no_eviction() {
    let Some(cluster) = Cluster::new("a_kubelet_that_hangs") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 90Mi --per-second 200Mi");
    let hanging = ApiServer::start().unwrap();
    hanging.fault(Fault::delay(Duration::from_mins(10)).on("*", "*"));
    let daemon = daemon(&cluster, &hanging.url());
    daemon.eventually_knows(&["hog"]);
    hog.grow();
    let decision = daemon.evicted(1).remove(0);
    assert_eq!(decision["pod"], "shop/hog");
    // A kubelet's answer is waited for beside the loop, for 5 s.
    assert!(
        decision["outcome"]["reactionSeconds"].as_f64().unwrap() < 4.0,
        "{decision}"
    );
}

#[test]
fn usage_comes_from_cgroups_or_else_from_the_kubelet() {
    let Some(cluster) = Cluster::new("cgroups_tell_where_they_can_be_read") else {
        return;
    };
    cluster.create("first", &Value::Null);
    let kubelet = Kubelet::start();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let memory = cluster.node.path("cgroup/memory");
    fs::create_dir_all(&memory).unwrap();
    let figures = ["memory.usage_in_bytes", "memory.limit_in_bytes"];
    for (file, text) in figures.map(|file| (file, "1")).into_iter().chain([
        ("memory.stat", "total_inactive_file 0\ntotal_rss 0\n"),
        ("cgroup.procs", ""),
    ]) {
        fs::write(memory.join(file), text).unwrap();
    }
    let chosen = |url: &str, roots: &str| {
        let lines = lines(&cluster, url).replace("source: summary", "source: auto");
        let lines = format!("{lines}\nnodeCgroup: ''\n{roots}");
        let daemon = Daemon::start(&cluster.node, &[("memory.available", "1Mi")], &lines);
        let source = daemon.status()["sources"][1].clone();
        let text = |key: &str| source[key].as_str().unwrap().to_owned();
        (text("chosen"), text("why"))
    };
    let place = cluster.node.directory.path().display();
    let elsewhere = format!("cgroupRoots: []\nroots: {{cgroup: {place}/cgroup}}");
    kubelet.set("/stats/summary", &json!({"pods": []}));
    let (source, why) = chosen(&kubelet.url, "");
    assert_eq!(
        (source.as_str(), why.as_str()),
        ("cgroup", "the pods' cgroups can be read")
    );
    let (source, why) = chosen(&kubelet.url, &elsewhere);
    assert_eq!(source, "summary", "{why}");
    let (source, why) = chosen(&nobody, &elsewhere);
    assert_eq!(source, "cgroup");
    assert!(why.contains("none listens at http://"), "{why}");
}
