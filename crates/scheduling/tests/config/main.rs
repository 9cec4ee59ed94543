//! `KubeSchedulerConfiguration`: defaults, merging, validation and printing (S5-072 to S5-076).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod merging;
mod mistakes;
mod printing;

use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration, Point};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::path::Path;

/// A configuration with these fields.
fn wire(fields: &Value) -> serde_json::Result<KubeSchedulerConfiguration> {
    let mut whole = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    });
    let overrides = fields.as_object().unwrap().clone();
    whole.as_object_mut().unwrap().extend(overrides);
    serde_json::from_value(whole)
}

fn read(fields: &Value) -> Configuration {
    Configuration::new(&wire(fields).unwrap(), &[]).unwrap()
}

/// The paths of all mistakes.
fn paths(fields: &Value) -> Vec<String> {
    let mistakes = Configuration::new(&wire(fields).unwrap(), &[]).unwrap_err();
    mistakes.into_iter().map(|error| error.field).collect()
}

#[test]
fn s5_073_the_defaults_are_those_of_kube_scheduler() {
    let config = read(&json!({}));
    assert_eq!(config, Configuration::default());
    assert_eq!(config.parallelism, 16);
    assert_eq!(config.percentage_of_nodes_to_score, None);
    assert_eq!(config.pod_initial_backoff, SignedDuration::from_secs(1));
    assert_eq!(config.pod_max_backoff, SignedDuration::from_secs(10));
    assert_eq!(config.pod_max_unschedulable, SignedDuration::from_mins(5));
    let election = &config.leader_election;
    assert!(election.leader_elect);
    let times = (
        election.lease_duration,
        election.renew_deadline,
        election.retry_period,
    );
    let seconds = SignedDuration::from_secs;
    assert_eq!(times, (seconds(15), seconds(10), seconds(2)));
    assert_eq!(election.resource_name, "kube-scheduler");
    assert_eq!(election.resource_namespace, "kube-system");
    let client = &config.client_connection;
    // kube-scheduler's default of 50 a second would be the most that is bound.
    assert_eq!((client.qps, client.burst), (None, None));
    let args = &config.profiles[0].args;
    assert_eq!(config.profiles[0].scheduler_name, "default-scheduler");
    assert_eq!(args.affinity.hard_weight, 1);
    assert_eq!(args.bind_timeout_seconds, 600);
    assert_eq!(args.candidate_nodes, (10, 100));
    assert_eq!(args.filter_timeout, seconds(10));
    assert_eq!(args.binding_timeout, seconds(600));
    assert!(config.extenders.is_empty() && config.warnings.is_empty());
}

#[test]
fn s5_073_zero_and_empty_values_mean_the_defaults() {
    let config = read(&json!({
        "leaderElection": {
            "leaseDuration": "0s", "renewDeadline": "0", "retryPeriod": "0s",
            "resourceLock": "", "resourceName": "", "resourceNamespace": "",
        },
        "clientConnection": { "qps": 0, "burst": 0 },
        "profiles": null, "extenders": null,
    }));
    assert_eq!(config, Configuration::default());
}

#[test]
fn s5_072_pods_find_their_profile_by_name() {
    let config = read(&json!({ "profiles": [
        { "schedulerName": "default-scheduler" },
        { "schedulerName": "packing", "percentageOfNodesToScore": 100, "pluginConfig": [
            { "name": "InterPodAffinity", "args": { "hardPodAffinityWeight": 7 } },
        ] },
    ] }));
    let weight = |name| Some(config.profile(name)?.args.affinity.hard_weight);
    assert_eq!(weight("default-scheduler"), Some(1));
    assert_eq!(weight("packing"), Some(7));
    assert_eq!(weight("unknown"), None);
}

#[test]
fn s5_072_profiles_have_unique_names_one_queue_sort_and_a_bind_plugin() {
    let twice = json!({ "profiles": [{ "schedulerName": "a" }, { "schedulerName": "a" }] });
    assert_eq!(paths(&twice), ["profiles[1].schedulerName"]);
    let unnamed = json!({ "profiles": [{ "schedulerName": "a" }, {}] });
    assert_eq!(paths(&unnamed), ["profiles[1].schedulerName"]);
    let both = paths(&json!({ "profiles": [{}, {}] }));
    assert_eq!(
        both,
        ["profiles[0].schedulerName", "profiles[1].schedulerName"]
    );
    let off = |point: &str| json!({ "profiles": [{ "plugins": { point: { "disabled": [{ "name": "*" }] } } }] });
    assert_eq!(paths(&off("queueSort")), ["profiles[0].plugins.queueSort"]);
    assert_eq!(paths(&off("bind")), ["profiles[0].plugins.bind"]);
    // A plugin of our own sorts the queue of one profile only.
    let custom: [(&str, &[Point]); 1] = [("Oldest", &[Point::QueueSort])];
    let sorted = json!({ "disabled": [{ "name": "*" }], "enabled": [{ "name": "Oldest" }] });
    let one_of_two = json!({ "profiles": [
        { "schedulerName": "a" },
        { "schedulerName": "b", "plugins": { "queueSort": sorted } },
    ] });
    let mistakes = Configuration::new(&wire(&one_of_two).unwrap(), &custom).unwrap_err();
    assert_eq!(mistakes.len(), 1);
    assert_eq!(mistakes[0].field, "profiles[1].plugins.queueSort");
}

#[test]
fn s5_074_configurations_that_kube_scheduler_accepts_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let mut count = 0;
    for kind in ["schedule", "sequence", "queue"] {
        for entry in std::fs::read_dir(folder.join(kind)).unwrap() {
            let path = entry.unwrap().path();
            let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let config = &case["input"]["config"];
            if config.is_object() {
                let name = path.display();
                let wire = wire(config).unwrap_or_else(|error| panic!("{name}: {error}"));
                Configuration::new(&wire, &[])
                    .unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
                count += 1;
            }
        }
    }
    assert!(count >= 30, "only {count} found");
}
