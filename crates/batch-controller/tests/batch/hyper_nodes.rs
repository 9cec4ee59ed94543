//! `evictd-batch controllers` on an API server: HyperNodes from the labels of nodes, and their counts.

use crate::batch;
use crate::live::Live;
use evictd_testkit::program::{self, stderr};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, Fault};
use serde_json::{Value, json};
use std::io::Write;
use tempfile::NamedTempFile;

const CONF: &str = "\
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      net:
      - nodeLabel: rack
      - nodeLabel: kubernetes.io/hostname
";

/// A file that makes a HyperNode of each rack.
pub(crate) fn conf() -> NamedTempFile {
    file(CONF)
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{text}").unwrap();
    file
}

pub(crate) fn node(name: &str, rack: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"rack": rack}}, "spec": {}, "status": {},
    })
}

/// Controllers that read this file.
pub(crate) fn live(conf: &NamedTempFile) -> Live {
    let api = ApiServer::start().unwrap();
    // Lists and watches use the rights by name.
    api.set(|settings| settings.streaming_lists = false);
    Live::at(api, &["--hyper-node-conf", conf.path().to_str().unwrap()])
}

/// `rack: members, count` of all discovered HyperNodes.
fn racks(live: &Live) -> Vec<String> {
    let all = live.admin.list("hypernodes").into_iter();
    let all = all.filter(|found| found["metadata"]["labels"]["rack"].is_string());
    let all = all.map(|found| {
        let members = found["spec"]["members"].as_array().unwrap().iter();
        let names = members.map(|member| member["selector"]["exactMatch"]["name"].as_str());
        let names: Vec<&str> = names.map(Option::unwrap).collect();
        let (rack, count) = (
            &found["metadata"]["labels"]["rack"],
            &found["status"]["nodeCount"],
        );
        format!("{}: {}, {count}", rack.as_str().unwrap(), names.join(" "))
    });
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

pub(crate) fn until_racks(live: &Live, wanted: &[&str]) {
    wait_until(&format!("the racks are {wanted:?}"), || {
        racks(live) == wanted
    });
}

#[test]
fn s6_244_racks_follow_the_labels_of_nodes_and_people_keep_their_hyper_nodes() {
    let conf = conf();
    let mut live = live(&conf);
    let by_hand = json!({
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "mine"},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "^n"}}}]},
    });
    live.admin.create(by_hand).unwrap();
    for (name, rack) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        live.admin.create(node(name, rack)).unwrap();
    }
    until_racks(&live, &["a: n1 n2, 2", "b: n3, 1"]);
    let count =
        |live: &Live| live.admin.get("hypernodes", "mine").unwrap()["status"]["nodeCount"].clone();
    wait_until("the nodes of mine are counted", || count(&live) == 3);
    // The labels change while no controller runs.
    live.kill();
    let moved = json!({"metadata": {"labels": {"rack": "a"}}});
    live.admin.merge("nodes", "n3", moved).unwrap();
    until_racks(&live, &["a: n1 n2 n3, 3"]);
    // Two calls fail, and are made again.
    live.api
        .fault(Fault::answer(500).on("create", "hypernodes").times(1));
    live.api
        .fault(Fault::answer(409).on("patch", "hypernodes").times(1));
    let moved = json!({"metadata": {"labels": {"rack": "c"}}});
    live.admin.merge("nodes", "n3", moved).unwrap();
    until_racks(&live, &["a: n1 n2, 2", "c: n3, 1"]);
    live.admin.delete("nodes", "n1", json!({})).unwrap();
    until_racks(&live, &["a: n2, 1", "c: n3, 1"]);
    wait_until("the node is counted no more", || count(&live) == 2);
    assert_eq!(live.admin.list("hypernodes").len(), 3);
}

#[test]
fn s6_245_a_source_that_stays_out_is_refused_at_the_start_and_by_a_reload() {
    let refused = "networkTopologyDiscovery:\n- source: ufm\n  enabled: true\n";
    let conf = file(refused);
    let path = conf.path().to_str().unwrap();
    let mut command = batch();
    command.args([
        "controllers",
        "--hyper-node-conf",
        path,
        "--kubeconfig",
        "/nowhere",
    ]);
    let output = program::run(&mut command, "");
    assert_eq!(output.status.code(), Some(2));
    let line = format!(
        "--hyper-node-conf: {path}:2:11: networkTopologyDiscovery[0].source: ufm is not supported: "
    );
    assert!(stderr(&output).contains(&line), "{}", stderr(&output));

    std::fs::write(path, CONF).unwrap();
    let running = live(&conf);
    running.admin.create(node("n1", "a")).unwrap();
    until_racks(&running, &["a: n1, 1"]);
    std::fs::write(path, refused).unwrap();
    let note = running.event_note("vc-controller-manager", "InvalidConfiguration");
    assert!(
        note.contains(":2:11: ") && note.contains("last valid"),
        "{note}"
    );
    // The earlier sources are in force.
    running.admin.create(node("n2", "b")).unwrap();
    until_racks(&running, &["a: n1, 1", "b: n2, 1"]);
}
