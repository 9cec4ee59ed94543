//! What is generated is what lies in `packaging`.

use crate::batch;
use evictd_batch_admission::Endpoint;
use evictd_testkit::program::{self, page};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/batch")
}

#[test]
fn the_packaged_manifests_are_those_that_the_program_prints() {
    for (command, file) in [("crds", "definitions.yaml"), ("policies", "policies.yaml")] {
        let printed = page(&program::run(batch().arg(command), ""));
        let packaged = fs::read_to_string(folder().join(file)).unwrap();
        assert!(
            printed == packaged,
            "{file} is out of date: evictd-batch {command} > packaging/kubernetes/batch/{file}"
        );
    }
}

/// Every webhook of the packaged configurations.
fn webhooks() -> Vec<Value> {
    let text = fs::read_to_string(folder().join("configurations.yaml")).unwrap();
    let configurations = text.split("\n---\n");
    let configurations = configurations.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    configurations
        .flat_map(|configuration| {
            assert_eq!(configuration["metadata"]["name"], "evictd-batch");
            configuration["webhooks"].as_array().unwrap().clone()
        })
        .collect()
}

#[test]
fn s6_074_the_configurations_have_every_path_but_the_one_that_changes_nothing() {
    let asked: BTreeSet<_> = webhooks()
        .iter()
        .map(|webhook| {
            webhook["clientConfig"]["service"]["path"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let answered = Endpoint::ALL
        .into_iter()
        .filter(|endpoint| *endpoint != Endpoint::PodsMutate);
    let answered: BTreeSet<_> = answered
        .map(|endpoint| endpoint.path().to_owned())
        .collect();
    assert_eq!(asked, answered);
}

/// The one thing that goes on without the webhook is the making of pods.
#[test]
fn only_the_webhook_of_pods_ignores_failures() {
    for webhook in webhooks() {
        let of_pods = webhook["rules"][0]["resources"] == json!(["pods"]);
        let policy = if of_pods { "Ignore" } else { "Fail" };
        assert_eq!(webhook["failurePolicy"], policy, "{}", webhook["name"]);
        let service = &webhook["clientConfig"]["service"];
        assert_eq!(service["name"], "evictd-batch-webhook");
        assert_eq!(service["namespace"], "volcano-system");
    }
}
