//! Pods from the API server, whatever becomes of it.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use evictd_testkit::Fault;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Far from any pressure.
const CALM: &str = "1Mi";
/// A pod that holds 90 MiB of the node's 192 crosses it, and one of 8 MiB does not.
const LOW: &str = "110Mi";

#[test]
fn pods_of_this_node_come_and_go_and_the_one_that_takes_too_much_is_ended() {
    let Some(cluster) = Cluster::new("pods_of_this_node_come_and_go") else {
        return;
    };
    let mut small = cluster.pod("small", "--hold 8Mi");
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "elsewhere", "namespace": "shop"},
        "spec": {"nodeName": "other", "containers": [{"name": "main", "image": "none"}]},
    });
    cluster.admin.create(elsewhere).unwrap();
    let daemon = cluster.daemon(LOW);
    daemon.eventually_knows(&["small"]);
    let source = &daemon.status()["sources"][0];
    assert_eq!(
        (&source["chosen"], &source["why"]),
        (&json!("kubernetes"), &json!("configured"))
    );

    cluster.create("brief", &Value::Null);
    daemon.eventually_knows(&["brief", "small"]);
    cluster.delete("brief");
    daemon.eventually_knows(&["small"]);
    let ended = json!({"status": {"phase": "Succeeded"}});
    cluster.create("job", &Value::Null);
    daemon.eventually_knows(&["job", "small"]);
    cluster
        .admin
        .merge("pods/status", "shop/job", ended)
        .unwrap();
    daemon.eventually_knows(&["small"]);

    let mut hog = cluster.pod("hog", "--hold 90Mi");
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(small.lives() && !hog.lives());
    let lists = cluster
        .api
        .log()
        .iter()
        .filter(|entry| entry.verb == "list" && entry.path.contains("/pods"))
        .count();
    assert_eq!(
        lists, 0,
        "a server that streams is not asked for whole lists"
    );
}

#[test]
fn a_server_that_is_away_leaves_the_pods_as_they_were_and_the_node_protected() {
    let Some(cluster) = Cluster::new("a_server_that_is_away") else {
        return;
    };
    let mut small = cluster.pod("small", "--hold 8Mi");
    cluster.api.go_away();
    let daemon = cluster.daemon(LOW);
    assert!(
        daemon.warns("none are known from before"),
        "{}",
        daemon.status()
    );
    cluster.api.come_back();
    daemon.eventually_knows(&["small"]);
    daemon.eventually("the warning is over", |daemon| {
        !daemon.warns("the API server")
    });
    assert_eq!(daemon.status()["pods"]["ageSeconds"], Value::Null);
    let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 90Mi --per-second 200Mi");
    daemon.eventually_knows(&["hog", "small"]);

    cluster.api.go_away();
    daemon.eventually("it says so", |daemon| {
        daemon.warns("Connection refused") && daemon.warns("stay in use")
    });
    daemon.eventually("their age is shown", |daemon| {
        daemon.status()["pods"]["ageSeconds"]
            .as_i64()
            .is_some_and(|age| age >= 1)
    });
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(small.lives() && !hog.lives());
}

#[test]
fn a_restart_without_the_server_still_knows_the_pods_and_chooses_no_unknown_one() {
    let Some(cluster) = Cluster::new("a_restart_without_the_server") else {
        return;
    };
    let mut small = cluster.pod("small", "--hold 8Mi");
    let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 40Mi --per-second 200Mi");
    let kept = cluster.node.path("run/pods.json");
    let daemon = cluster.daemon(LOW);
    daemon.eventually_knows(&["hog", "small"]);
    daemon.eventually("the pods are kept", |_| {
        fs::read_to_string(&kept).is_ok_and(|text| text.contains("hog") && text.contains("small"))
    });
    drop(daemon);
    cluster.api.go_away();
    // The largest by far, and nobody knows it.
    let mut stranger = cluster.run("0000-stranger", "--hold 50Mi");
    let daemon = cluster.daemon(LOW);
    assert_eq!(daemon.pods(), ["hog", "small"]);
    assert!(daemon.warns("stay in use"));
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    daemon.some_turns_pass();
    assert!(stranger.lives() && small.lives() && !hog.lives());
    drop(daemon);

    for damage in ["", "{", "[]", r#"{"asOf": 1}"#, "\u{0}\u{0}"] {
        fs::write(&kept, damage).unwrap();
        let daemon = cluster.daemon(CALM);
        assert!(
            daemon.warns("the pods saved there cannot be used"),
            "{damage:?}"
        );
        assert_eq!(daemon.pods(), [""; 0]);
    }
    let daemon = cluster.daemon(CALM);
    cluster.api.come_back();
    // The server hears at last that the hog was evicted.
    daemon.eventually_knows(&["small"]);
    daemon.eventually("nothing is wrong any more", |daemon| {
        daemon.is_sure_of_its_pods()
    });
    daemon.eventually("they are kept again", |_| {
        fs::read_to_string(&kept).is_ok_and(|text| text.contains("small"))
    });
}

#[test]
fn a_watch_that_breaks_or_is_forgotten_goes_on() {
    let Some(cluster) = Cluster::new("a_watch_that_breaks_or_is_forgotten") else {
        return;
    };
    cluster.create("first", &Value::Null);
    let daemon = cluster.daemon(CALM);
    daemon.eventually_knows(&["first"]);
    cluster.api.cut_watches();
    cluster.create("second", &Value::Null);
    daemon.eventually_knows(&["first", "second"]);
    // What happens while nobody watches is forgotten before the next watch.
    cluster.api.go_away();
    cluster.delete("first");
    cluster.create("third", &Value::Null);
    cluster.api.compact();
    cluster.api.come_back();
    daemon.eventually_knows(&["second", "third"]);
    cluster
        .api
        .fault(Fault::answer(503).on("watch", "pods").times(2));
    cluster.api.cut_watches();
    cluster.delete("second");
    daemon.eventually_knows(&["third"]);
    daemon.eventually("nothing is wrong", Daemon::is_sure_of_its_pods);
    let of_client = |line: &Value| line["target"].as_str().unwrap().starts_with("kube");
    assert!(
        !daemon.log().iter().any(of_client),
        "what the client itself logs is not for operators"
    );
    assert_eq!(
        daemon.said("Expired"),
        0,
        "forgotten changes are no failure"
    );
}

#[test]
fn a_server_that_does_not_stream_lists_is_asked_for_lists_and_one_bad_object_costs_only_itself() {
    let Some(cluster) = Cluster::new("a_server_that_does_not_stream_lists") else {
        return;
    };
    cluster.api.set(|settings| settings.streaming_lists = false);
    cluster.api.fault(Fault::garbage().on("list", "pods"));
    cluster.create("first", &Value::Null);
    let daemon = cluster.daemon(CALM);
    daemon.eventually_knows(&["first"]);
    assert!(daemon.warns("cannot be read"), "{}", daemon.status());
    cluster.create("second", &Value::Null);
    daemon.eventually_knows(&["first", "second"]);
    let log = cluster.api.log();
    let pods = log.iter().filter(|entry| entry.path.contains("/pods?"));
    let asked: Vec<(&str, u16)> = pods.map(|entry| (entry.verb, entry.status)).collect();
    assert_eq!(asked, [("watch", 422), ("list", 200), ("watch", 200)]);
    let mut pods = log.iter().filter(|entry| entry.path.contains("/pods?"));
    assert!(pods.all(|entry| entry.path.contains("spec.nodeName%3Dtest")));
}

#[test]
fn a_token_that_expires_is_read_anew() {
    let Some(cluster) = Cluster::new("a_token_that_expires") else {
        return;
    };
    cluster.api.require_tokens();
    cluster.api.grant("old", "evictd", None);
    cluster.write_kubeconfig("old");
    cluster.create("first", &Value::Null);
    let daemon = cluster.daemon(CALM);
    daemon.eventually_knows(&["first"]);
    cluster.api.expire("old");
    cluster.api.cut_watches();
    daemon.eventually("it is told", |daemon| daemon.warns("401 Unauthorized"));
    assert_eq!(daemon.pods(), ["first"]);
    cluster.api.grant("new", "evictd", None);
    cluster.write_kubeconfig("new");
    cluster.create("second", &Value::Null);
    daemon.eventually_knows(&["first", "second"]);
}

const HASH: &str = "6ff2ad1b2a3c4d5e6f708192a3b4c5d6";

/// The metadata of a static pod's mirror.
fn mirror() -> Value {
    json!({ "annotations": {
        "kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH,
        "kubernetes.io/config.source": "file",
    } })
}

#[test]
fn a_static_pod_goes_where_that_is_chosen_as_often_as_its_kubelet_starts_it_and_its_mirror_stays() {
    let Some(cluster) = Cluster::new("a_static_pod_goes_where_that_is_chosen") else {
        return;
    };
    cluster.create("db", &mirror());
    let mut small = cluster.pod("small", "--hold 8Mi");
    let mut hog = cluster.run(HASH, "--hold 90Mi");
    let lines = format!(
        "{}\nevictStaticPods: {{namespaces: [shop]}}\nevict: {{method: delete}}\n\
         evictionPressureTransitionPeriod: 1h",
        cluster.lines()
    );
    let daemon = Daemon::start(&cluster.node, &[("memory.available", LOW)], &lines);
    let decision = daemon.evicted(1).remove(0);
    assert_eq!(decision["pod"], "shop/db");
    assert_eq!(decision["publication"], Value::Null, "{decision:#}");
    let why = decision["why"].as_str().unwrap();
    assert!(why.contains("started again from its file"), "{why}");
    assert!(!hog.lives());
    // As its kubelet would.
    let mut again = cluster.run(HASH, "--hold 90Mi");
    assert_eq!(names(&daemon.evicted(2)), ["shop/db", "shop/db"]);
    assert!(!again.lives() && small.lives());
    let db = cluster.get("db");
    assert_eq!(db["metadata"]["deletionTimestamp"], Value::Null);
    assert_ne!(db["status"]["phase"], "Failed");
}

#[test]
fn a_static_pods_cgroup_is_found_by_its_hash_and_never_ended() {
    let Some(cluster) = Cluster::new("a_static_pods_cgroup_is_found_by_its_hash") else {
        return;
    };
    cluster.create("etcd", &mirror());
    let mut etcd = cluster.run(HASH, "--hold 90Mi");
    let mut small = cluster.pod("small", "--hold 8Mi");
    let lines = format!("{}\nevictWithoutRelief: true", cluster.lines());
    let daemon = Daemon::start(&cluster.node, &[("memory.available", LOW)], &lines);
    assert_eq!(names(&daemon.evicted(1)), ["shop/small"]);
    let ranked = &daemon.history()[0]["ranking"];
    let of_etcd = ranked
        .as_array()
        .unwrap()
        .iter()
        .find(|pod| pod["pod"] == "shop/etcd");
    assert!(of_etcd.unwrap()["usage"].is_string(), "{ranked}");
    assert!(etcd.lives() && !small.lives());
}

#[test]
fn a_server_that_hangs_delays_no_eviction() {
    let Some(cluster) = Cluster::new("a_server_that_hangs") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 90Mi --per-second 200Mi");
    let daemon = cluster.daemon(LOW);
    daemon.eventually_knows(&["hog"]);
    let hang = Duration::from_mins(10);
    cluster.api.fault(Fault::delay(hang).on("*", "*"));
    cluster.api.cut_watches();
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(!hog.lives());
}

#[test]
fn of_five_thousand_nodes_one_under_pressure_does_not_wait_its_turn() {
    let Some(cluster) = Cluster::new("of_five_thousand_nodes") else {
        return;
    };
    for number in 1..5000 {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}});
        cluster.admin.create(node).unwrap();
    }
    let mut hog = cluster.pod("hog", "--hold 2Mi --grow-to 90Mi --per-second 200Mi");
    let daemon = cluster.daemon(LOW);
    daemon.eventually_knows(&["hog"]);
    daemon.eventually("the nodes are counted", |_| {
        let log = cluster.api.log();
        log.iter().any(|entry| entry.verb == "list")
    });
    daemon.seconds_pass(1);
    cluster.api.cut_watches();
    cluster.create("late", &Value::Null);
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    // Its turn would be at any moment of five minutes.
    daemon.eventually("it knows the late one", |daemon| {
        daemon.pods().contains(&"late".to_owned())
    });
}
