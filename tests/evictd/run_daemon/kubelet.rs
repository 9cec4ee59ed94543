//! Beside a kubelet: pods from it, its thresholds, and what it evicts itself.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::node::Node;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

const LOW: &str = "110Mi";

/// Answers a real kubelet's documents to whoever has the token, and 401 to others.
pub(crate) struct Kubelet {
    pub(crate) url: String,
    pages: Arc<Mutex<Vec<(&'static str, String)>>>,
}

fn captured(file: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fs::read_to_string(fixtures.join(file)).unwrap()
}

impl Kubelet {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let pages = vec![
            ("/pods", captured("explain/pods.json")),
            ("/configz", captured("kubelet-configz.json")),
        ];
        let pages = Arc::new(Mutex::new(pages));
        let served = Arc::clone(&pages);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else {
                    continue;
                };
                let known = head.iter().any(|line| line == "authorization: Bearer good");
                let pages = served.lock().unwrap();
                let page = pages.iter().find(|(at, _)| *at == path);
                let (code, body) = match page {
                    _ if !known => ("401 Unauthorized", "Unauthorized"),
                    Some((_, page)) => ("200 OK", page.as_str()),
                    None => ("404 Not Found", "404 page not found"),
                };
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {code}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        Self { url, pages }
    }

    pub(crate) fn set(&self, path: &'static str, body: &Value) {
        let mut pages = self.pages.lock().unwrap();
        pages.retain(|(at, _)| *at != path);
        pages.push((path, body.to_string()));
    }

    /// The line of a configuration that asks this kubelet, with the node's file `token`.
    pub(crate) fn line(&self, node: &Node) -> String {
        let token = node.path("token");
        format!(
            "kubelet: {{url: '{}', tokenFile: {}}}",
            self.url,
            token.display()
        )
    }

    fn lines(&self, node: &Node, source: &str) -> String {
        let place = node.directory.path().display();
        format!(
            "pods: {{source: {source}, manifests: {place}/manifests}}\nruntimeDirectory: {place}/run\n{}",
            self.line(node)
        )
    }
}

#[test]
fn a_real_kubelets_pods_are_known_and_a_fresh_token_is_read() {
    let Some(node) = Node::of_kubelet("a_real_kubelets_pods_are_known") else {
        return;
    };
    let kubelet = Kubelet::start();
    fs::write(node.path("token"), "bad").unwrap();
    let mut hog = node.worker(
        "evictd-pod27e2737f_558c_4c1f_a7cb_3c28a73d9caf.slice",
        "--hold 90Mi",
    );
    let calm = [("memory.available", "1Mi")];
    let daemon = Daemon::start(&node, &calm, &kubelet.lines(&node, "kubelet"));
    assert!(daemon.warns("401"), "{}", daemon.status());
    fs::write(node.path("token"), "good").unwrap();
    let known = ["be", "bu", "gu", "hostnet"].map(|name| format!("default/{name}"));
    daemon.eventually("it knows the pods", |daemon| daemon.pods() == known);
    drop(daemon);

    let daemon = Daemon::start(
        &node,
        &[("memory.available", LOW)],
        &format!("{}\nadmission: reject", kubelet.lines(&node, "auto")),
    );
    assert!(daemon.warns("admission: reject needs an API server"));
    let source = daemon.status()["sources"][0].clone();
    assert_eq!(source["chosen"], "kubelet");
    assert!(
        source["why"]
            .as_str()
            .unwrap()
            .contains("no API server is known"),
        "{source}"
    );
    assert_eq!(names(&daemon.evicted(1)), ["default/be"]);
    assert!(!hog.lives());
    kubelet.set(
        "/pods",
        &json!({"items": [{"metadata": {"name": "x", "uid": "1"}}, 7]}),
    );
    daemon.eventually("the others are gone", |daemon| {
        daemon.pods() == ["default/x"]
    });
    kubelet.set("/pods", &json!("nothing"));
    daemon.eventually("rubbish is told", |daemon| daemon.warns("cannot be parsed"));
    assert_eq!(daemon.pods(), ["default/x"]);
}

#[test]
fn without_server_and_kubelet_the_manifests_count_and_it_says_why() {
    let Some(node) = Node::new("without_server_and_kubelet") else {
        return;
    };
    let place = node.directory.path().display();
    // A port that was free a moment ago.
    let unused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let lines = format!(
        "pods: {{source: auto, manifests: {place}/manifests}}\nruntimeDirectory: {place}/run\n\
         kubelet: {{url: 'https://{unused}'}}"
    );
    let daemon = Daemon::start(&node, &[("memory.available", "1Mi")], &lines);
    let source = daemon.status()["sources"][0].clone();
    assert_eq!(source["chosen"], "manifests");
    let why = source["why"].as_str().unwrap();
    assert!(
        why.contains("no API server is known; no kubelet listens at https://"),
        "{why}"
    );
}

#[test]
fn the_api_server_counts_where_it_knows_this_node_and_not_where_it_does_not() {
    let Some(cluster) = Cluster::new("the_api_server_counts_where_it_knows_this_node") else {
        return;
    };
    cluster.create("first", &Value::Null);
    let kubelet = Kubelet::start();
    fs::write(cluster.node.path("token"), "good").unwrap();
    let place = cluster.node.directory.path().display();
    let lines = format!(
        "{}\nkubernetes: {{kubeconfig: {place}/kubeconfig}}",
        kubelet.lines(&cluster.node, "auto")
    );
    let chosen = |words: &str| {
        let daemon = Daemon::start(&cluster.node, &[("memory.available", "1Mi")], &lines);
        let source = daemon.status()["sources"][0].clone();
        let why = source["why"].as_str().unwrap();
        assert!(why.contains(words), "{source}");
        let kept = cluster.node.path("run/pods.json");
        daemon.eventually("pods are kept", |_| kept.exists());
        source["chosen"].as_str().unwrap().to_owned()
    };
    assert_eq!(chosen("answers and knows this node, test"), "kubernetes");
    cluster.admin.delete("nodes", "test", Value::Null).unwrap();
    assert_eq!(chosen("has no node test"), "kubelet");
    // It told the pods before, so that its absence is not taken for that of a cluster.
    cluster.api.go_away();
    assert_eq!(chosen("will be again"), "kubernetes");
    fs::remove_dir_all(cluster.node.path("run")).unwrap();
    assert_eq!(chosen("does not answer"), "kubelet");
}

#[test]
fn thresholds_below_the_kubelets_are_warned_of() {
    let Some(cluster) = Cluster::new("thresholds_that_the_kubelet_crosses_first") else {
        return;
    };
    let kubelet = Kubelet::start();
    fs::write(cluster.node.path("token"), "good").unwrap();
    let lines = format!(
        "{}\nmemoryAvailable: workingSet\n{}",
        cluster.lines(),
        kubelet.line(&cluster.node)
    );
    let start = || Daemon::start(&cluster.node, &[("memory.available", "1Mi")], &lines);
    let warned = "the kubelet evicts for memory.available at 2Mi, before evictd does at 1Mi";
    let daemon = start();
    daemon.eventually("it has asked the kubelet", |daemon| {
        daemon.said("the kubelet was asked") > 0
    });
    assert!(!daemon.warns("the kubelet evicts"), "{}", daemon.status());
    drop(daemon);
    let config = json!({"kubeletconfig": {
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "evictionHard": {"memory.available": "2Mi"},
    }});
    kubelet.set("/configz", &config);
    let daemon = start();
    daemon.eventually("it warns", |daemon| daemon.warns(warned));
    assert_eq!(daemon.said(warned), 1);
    drop(daemon);
    fs::write(cluster.node.path("token"), "bad").unwrap();
    let daemon = start();
    daemon.eventually("it warns", |daemon| {
        daemon.warns("cannot tell whether the kubelet evicts before evictd does")
    });
    fs::write(cluster.node.path("token"), "good").unwrap();
    daemon.eventually("it asks again", |daemon| daemon.warns(warned));
    assert!(!daemon.warns("cannot tell"), "{}", daemon.status());
    assert_eq!(daemon.said("cannot tell whether the kubelet evicts"), 1);
}

#[test]
fn nobody_else_dies_for_what_the_kubelet_is_about_to_free() {
    let Some(cluster) = Cluster::new("nobody_else_dies_for_what_the_kubelet") else {
        return;
    };
    let mut first = cluster.pod("first", "--hold 60Mi");
    let mut second = cluster.pod("second", "--hold 2Mi --grow-to 40Mi --per-second 10Mi");
    let daemon = cluster.daemon(LOW);
    daemon.eventually_knows(&["first", "second"]);
    let evicted = json!({"status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
    }]}});
    cluster
        .admin
        .merge("pods/status", "shop/first", evicted)
        .unwrap();
    daemon.eventually("it has seen that", |daemon| {
        daemon.said("the kubelet evicts shop/first") == 1
    });
    second.grow();
    daemon.eventually("the node runs out", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    assert!(first.lives() && second.lives());
    first.end();
    daemon.some_turns_pass();
    assert!(second.lives());
    assert_eq!(daemon.history(), [Value::Null; 0]);
}
