//! Compares the rejection messages of each node with kube-scheduler 1.36.2.
#![allow(clippy::unwrap_used, reason = "a test")]

use evictd_placement::{Checks, Cluster, Code};
use evictd_pod::{Node, wire};
use serde::Deserialize;
use std::{collections::BTreeMap, fs, path::Path};

#[derive(Deserialize)]
struct Case {
    input: Input,
    expected: Expected,
}

#[derive(Deserialize)]
struct Input {
    nodes: Vec<Node>,
    namespaces: Vec<wire::Namespace>,
    pods: Vec<wire::Pod>,
    preemptor: wire::Pod,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    fits_without_preemption: bool,
    #[serde(deserialize_with = "wire::null_is_default")]
    filter_status: BTreeMap<String, Status>,
    absent_nodes_status: Status,
}

#[derive(Deserialize)]
struct Status {
    code: String,
    #[serde(deserialize_with = "wire::null_is_default")]
    reasons: Vec<String>,
}

fn check(case: Case) {
    let Case { input, expected } = case;
    let mut cluster = Cluster::new();
    for node in &input.nodes {
        assert!(cluster.add_node(node));
    }
    for namespace in &input.namespaces {
        cluster.add_namespace(namespace);
    }
    for mut pod in input.pods {
        // A nominated pod that was not tried was not in the queue of the recorded scheduler (S4-002).
        if !pod.was_tried() {
            pod.status.nominated_node_name.clear();
        }
        cluster.add_pod(pod).unwrap();
    }
    let pod = cluster.pod(input.preemptor).unwrap();
    let mut checks = Checks::new(&cluster, &pod);
    let mut fits_somewhere = false;
    for id in cluster.node_ids() {
        let name = cluster.node_name(id);
        let Err(rejection) = checks.fits(id) else {
            assert!(expected.fits_without_preemption, "{name} takes it");
            fits_somewhere = true;
            continue;
        };
        let (code, reasons) = (rejection.code, checks.messages(rejection));
        if let Some(status) = expected.filter_status.get(name) {
            assert_eq!(
                (code.as_str(), &reasons),
                (&*status.code, &status.reasons),
                "{name}"
            );
        } else if !expected.fits_without_preemption {
            // PreFilter rejects it with a message of its own.
            assert_eq!(
                code,
                Code::UnschedulableAndUnresolvable,
                "{name}: {reasons:?}"
            );
            assert_eq!(expected.absent_nodes_status.code, code.as_str(), "{name}");
        }
        assert_ne!(checks.on(id).obstacle(), Some(String::new()), "{name}");
    }
    assert_eq!(fits_somewhere, expected.fits_without_preemption);
}

#[test]
fn every_node_has_the_messages_of_kube_scheduler() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preemption/tests/oracle");
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 55, "{} cases found", files.len());
    for file in files {
        eprintln!("{}", file.display());
        check(serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap());
    }
}
