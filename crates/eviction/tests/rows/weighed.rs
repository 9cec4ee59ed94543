//! What an eviction under evictd's rules says: the kubelet's first sentence, and what the decision weighed; and the pod
//! that holds most, if it is never evicted.

use crate::node::{GI, MI, at, disk, files, hard, pod, priority, processes, requests};
use evictd_decision::Decision;
use evictd_eviction::{Housekeeper, Rules, message::LONGEST};
use evictd_pod::Pod;
use evictd_signals::{Observation, Observations, Signal};
use evictd_usage::{
    ContainerUsage, LargestDirectories, LargestDirectory, PodUsage, Usage, VolumeUsage,
    figure::Figure,
};
use serde_json::json;

/// The decision of a node on which this signal is nearly exhausted.
fn decided(rules: &Rules, signal: Signal, pods: &[(Pod, Option<PodUsage>)]) -> Decision {
    let threshold = if signal.counts_bytes() { "2Gi" } else { "2000" };
    let rules = Rules {
        thresholds: hard(&[(signal.as_str(), threshold)]),
        local_storage_capacity_isolation: false,
        requires_relief: false,
        ..rules.clone()
    };
    let mut keeper = Housekeeper::new(rules);
    let (pods, usage) = pods.iter().cloned().unzip::<_, _, Vec<_>, Vec<_>>();
    let low = Observation {
        available: if signal.counts_bytes() { GI } else { 1000 },
        capacity: if signal.counts_bytes() {
            100 * GI
        } else {
            100_000
        },
        time: None,
    };
    keeper.observe(at(0), &[(signal, low)].into_iter().collect());
    keeper
        .decide(at(0), &pods, &usage.into_iter().collect::<Usage>())
        .unwrap()
}

fn message(rules: &Rules, signal: Signal, pods: &[(Pod, Option<PodUsage>)]) -> String {
    decided(rules, signal, pods).eviction.unwrap().message
}

fn with_scratch(name: &str) -> Pod {
    let mut spec = requests(&json!({}));
    spec["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
    pod(name, &spec)
}

#[test]
fn an_empty_dir_that_holds_most_is_named_and_the_kubelets_first_sentence_stays() {
    let holds = || disk(files(100 << 10, 10), files(22 << 10, 1), files(60 * GI, 30));
    let pods = [(with_scratch("cruncher"), holds())];
    let first = "The node was low on resource: ephemeral-storage. Threshold quantity: 2Gi, available: 1Gi. ";
    let kubelets = message(&Rules::kubelet(), Signal::NodefsAvailable, &pods);
    let container =
        "Container c was using 122Ki, request is 0, has larger consumption of ephemeral-storage. ";
    assert_eq!(kubelets, format!("{first}{container}"));
    let ours = message(&Rules::evictd(), Signal::NodefsAvailable, &pods);
    let weighed = "Pod cruncher was using 60Gi, request is 0, has larger consumption of ephemeral-storage. \
                   Its largest part is emptyDir volume v (60Gi). ";
    assert_eq!(ours, format!("{first}{weighed}"));
    // S1-057: the annotations are the kubelet's in both.
    let annotations = |rules| {
        let decision = decided(rules, Signal::NodefsAvailable, &pods);
        decision.eviction.unwrap().annotations
    };
    assert_eq!(
        annotations(&Rules::evictd()),
        annotations(&Rules::kubelet())
    );
}

#[test]
fn the_directory_that_holds_most_of_a_part_is_named_and_recorded() {
    let mut holds = disk(files(0, 1), files(0, 1), files(60 * GI, 30));
    let found = |path: &str, amount| {
        Some(LargestDirectory {
            path: path.to_owned(),
            amount,
        })
    };
    holds.as_mut().unwrap().volumes[0].directories = Some(Box::new(LargestDirectories {
        by_bytes: found("models/a b", 58 * GI),
        by_inodes: found("cache", 20),
    }));
    for (signal, words, path, amount) in [
        (
            Signal::NodefsAvailable,
            "emptyDir volume v (60Gi, most of it in models/a b). ",
            "models/a b",
            58 * GI,
        ),
        (
            Signal::NodefsInodesFree,
            "emptyDir volume v (30, most of it in cache)",
            "cache",
            20,
        ),
    ] {
        let pods = [(with_scratch("cruncher"), holds.clone())];
        let decision = decided(&Rules::evictd(), signal, &pods);
        let message = decision.eviction.unwrap().message;
        assert!(message.contains(words), "{message}");
        let directory = decision.parts[0].directory.as_ref().unwrap();
        assert_eq!(
            (directory.path.as_str(), directory.usage.value()),
            (path, amount)
        );
    }
}

#[test]
fn every_resource_is_named_in_its_own_unit() {
    let inodes = disk(files(MI, 11), files(0, 4), files(MI, 12_000_000));
    let swapping = PodUsage {
        working_set: Some(Figure::bytes(2 * GI)),
        swap: Some(Figure::bytes(GI)),
        ..PodUsage::default()
    };
    let table = [
        (
            Signal::NodefsInodesFree,
            with_scratch("p"),
            inodes,
            "available: 1k. Pod p was using 12000015 inodes. Its largest part is emptyDir volume v (12000000). ",
        ),
        (
            Signal::PidAvailable,
            priority("p", 0),
            processes(812),
            "Pod p was running 812 processes, an even share is 100000. ",
        ),
        (
            Signal::MemoryAvailable,
            priority("p", 0),
            Some(swapping),
            "Pod p was using 3Gi, request is 0, has larger consumption of memory. 1Gi of what the pod was using was in swap. ",
        ),
        (
            Signal::NodefsAvailable,
            pod("p", &requests(&json!({ "ephemeral-storage": "10Gi" }))),
            disk(files(3 * GI, 1), files(GI, 1), files(0, 0)),
            "Pod p was using 4Gi, within its request of 10Gi. Its largest parts are the writable layer of container c (3Gi), \
             the logs of container c (1Gi). ",
        ),
    ];
    for (signal, pod, usage, expected) in table {
        let pods = [(pod, usage)];
        let ours = message(&Rules::evictd(), signal, &pods);
        assert!(ours.ends_with(expected), "{signal}: {ours}");
        let kubelets = message(&Rules::kubelet(), signal, &pods);
        assert!(!kubelets.contains("largest"), "{kubelets}");
        let (first, _) = kubelets.split_once("available: ").unwrap();
        assert!(ours.starts_with(first), "{ours}");
    }
}

#[test]
fn a_message_is_bounded_and_its_names_cannot_break_a_line() {
    let long = format!("v\n{}", "x".repeat(5000));
    let containers = (0..100).map(|number| ContainerUsage {
        name: format!("{long}{number}"),
        rootfs: files(GI, 1),
        ..ContainerUsage::default()
    });
    let usage = PodUsage {
        containers: containers.collect(),
        volumes: vec![VolumeUsage {
            name: "v".to_owned(),
            usage: files(MI, 1),
            directories: None,
        }],
        ..PodUsage::default()
    };
    let mut spec = requests(&json!({}));
    spec["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
    let ours = message(
        &Rules::evictd(),
        Signal::NodefsAvailable,
        &[(pod("p", &spec), Some(usage))],
    );
    assert!(ours.len() <= LONGEST, "{}", ours.len());
    assert!(!ours.contains('\n') && ours.contains("v\\n"), "{ours}");
}

#[test]
fn a_pod_that_holds_most_and_is_never_evicted_is_named() {
    let used = |bytes| {
        Some(PodUsage {
            working_set: Some(Figure::bytes(bytes)),
            ..PodUsage::default()
        })
    };
    let hog = priority("hog", 2_000_000_000);
    let forge = priority("forge", 0);
    for rules in [Rules::kubelet(), Rules::evictd()] {
        let pods = [
            (hog.clone(), used(30 * GI)),
            (forge.clone(), used(100 * MI)),
        ];
        let decision = decided(&rules, Signal::MemoryAvailable, &pods);
        let sentence = "default/hog holds 30Gi, more than any other pod, and is never evicted (critical priority)";
        assert!(
            decision.why.ends_with(&format!("; {sentence}")) || decision.why.contains(sentence)
        );
        assert_eq!(decision.passed_over.unwrap().sentence, sentence);
        // Of equals, and of smaller ones, the victim is the one to look at.
        let pods = [
            (hog.clone(), used(99 * MI)),
            (forge.clone(), used(100 * MI)),
        ];
        let decision = decided(&rules, Signal::MemoryAvailable, &pods);
        assert_eq!(decision.passed_over, None);
        // Where all are spared the sentence names who holds it.
        let decision = decided(&rules, Signal::MemoryAvailable, &[(hog.clone(), used(GI))]);
        assert!(decision.eviction.is_none());
        assert!(
            decision
                .why
                .contains("default/hog holds 1Gi (critical priority)"),
            "{}",
            decision.why
        );
    }
}

#[test]
fn a_capacity_of_zero_is_no_observation_but_under_the_kubelets_rules() {
    let summary = r#"{"node":{"runtime":{"imageFs":{"availableBytes":0,"capacityBytes":0}}}}"#;
    let summary: evictd_usage::Summary = serde_json::from_str(summary).unwrap();
    let met = |rules: Rules| {
        let rules = Rules {
            thresholds: hard(&[("imagefs.available", "1Gi")]),
            ..rules
        };
        let seen: Observations = rules.observed(&summary);
        let mut keeper = Housekeeper::new(rules);
        keeper.observe(at(0), &seen);
        (
            seen.get(Signal::ImagefsAvailable).is_some(),
            keeper.first_observed().count() > 0,
        )
    };
    assert_eq!(met(Rules::evictd()), (false, false));
    assert_eq!(met(Rules::kubelet()), (true, true));
}
