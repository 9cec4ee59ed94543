//! The words of an eviction (S1-054 to S1-057).

use crate::node::{
    GI, MI, at, disk, files, hard, maps, memory, pod, priority, processes, requests,
};
use evictd_decision::ActingThreshold;
use evictd_eviction::message::eviction_message;
use evictd_pod::Pod;
use evictd_signals::{Observation, Threshold};
use evictd_usage::{ContainerUsage, FsUsage, PodUsage, figure::Figure};
use serde_json::json;
use std::collections::BTreeMap;

fn acting(signal: &str, value: &str, available: i64) -> ActingThreshold {
    let threshold: Threshold = hard(&[(signal, value)]).remove(0);
    let observed = Observation {
        available,
        capacity: GI,
        time: None,
    };
    ActingThreshold {
        quantity: threshold.value.at(GI),
        observed,
        first_observed_at: at(0),
        threshold,
    }
}

fn message(
    signal: &str,
    pod: &Pod,
    usage: Option<&PodUsage>,
) -> (String, BTreeMap<&'static str, String>) {
    let (message, annotations) = eviction_message(&acting(signal, "100Mi", 50 * MI), pod, usage);
    let (_, containers) = message.split_once("available: ").unwrap();
    let (_, containers) = containers.split_once(". ").unwrap();
    (containers.to_owned(), annotations)
}

fn using(containers: &[(&str, Option<i64>)]) -> PodUsage {
    let container = |(name, working_set): &(&str, Option<i64>)| ContainerUsage {
        name: (*name).to_owned(),
        working_set: working_set.map(Figure::bytes),
        ..ContainerUsage::default()
    };
    PodUsage {
        containers: containers.iter().map(container).collect(),
        ..PodUsage::default()
    }
}

#[test]
fn s1_054_the_head_and_how_its_figures_print() {
    let table = [
        (
            "memory.available",
            "100Mi",
            50 * MI,
            "memory. Threshold quantity: 100Mi, available: 50Mi. ",
        ),
        (
            "memory.available",
            "10%",
            128 * MI,
            "memory. Threshold quantity: 107374184, available: 128Mi. ",
        ),
        (
            "memory.available",
            "12.5%",
            1000,
            "memory. Threshold quantity: 128Mi, available: 1k. ",
        ),
        (
            "nodefs.available",
            "1000M",
            1025,
            "ephemeral-storage. Threshold quantity: 1G, available: 1025. ",
        ),
        (
            "nodefs.inodesFree",
            "12.5%",
            288_000,
            "inodes. Threshold quantity: 128Mi, available: 288k. ",
        ),
        (
            "imagefs.inodesFree",
            "5000",
            1024,
            "inodes. Threshold quantity: 5k, available: 1024. ",
        ),
        (
            "pid.available",
            "1Ki",
            5000,
            "pids. Threshold quantity: 1Ki, available: 5k. ",
        ),
    ];
    for (signal, value, available, words) in table {
        let acting = acting(signal, value, available);
        let (message, annotations) = eviction_message(&acting, &priority("a", 0), None);
        assert_eq!(message, format!("The node was low on resource: {words}"));
        assert!(annotations.is_empty(), "S1-057: nothing without stats");
    }
}

#[test]
fn s1_055_each_container_above_its_request_in_the_order_of_the_figures() {
    let spec = json!({
        "containers": [
            { "name": "a", "resources": { "requests": { "memory": "1000k" } } },
            { "name": "b" },
            { "name": "within", "resources": { "requests": { "memory": "1Gi" } } },
            { "name": "unknown" },
        ],
        "initContainers": [{ "name": "init" }],
    });
    let usage = using(&[
        ("init", Some(MI)),
        ("b", Some(2 * MI)),
        ("debugger", Some(GI)),
        ("unknown", None),
        ("within", Some(MI)),
        ("a", Some(3 * MI)),
    ]);
    let (words, annotations) = message("memory.available", &pod("p", &spec), Some(&usage));
    let line = |name: &str, used: &str, request: &str| {
        format!(
            "Container {name} was using {used}, request is {request}, has larger consumption of memory. "
        )
    };
    let expected = [
        line("init", "1Mi", "0"),
        line("b", "2Mi", "0"),
        line("a", "3Mi", "1M"),
    ];
    assert_eq!(words, expected.concat());
    let expected = [
        ("offending_containers", "init,b,a".to_owned()),
        ("offending_containers_usage", "1Mi,2Mi,3Mi".to_owned()),
        ("starved_resource", "memory".to_owned()),
    ];
    assert_eq!(annotations, BTreeMap::from(expected));
}

#[test]
fn s1_055_disk_needs_both_the_writable_layer_and_the_logs() {
    let pod = pod("p", &requests(&json!({ "ephemeral-storage": "1Mi" })));
    let none = FsUsage::default();
    let table = [
        (
            files(MI, 0),
            files(MI, 0),
            "Container c was using 2Mi, request is 1Mi, has larger consumption of ephemeral-storage. ",
        ),
        (files(MI, 0), files(0, 0), ""),
        (files(9 * MI, 0), none, ""),
        (none, files(9 * MI, 0), ""),
    ];
    for (rootfs, logs, expected) in table {
        let usage = disk(rootfs, logs, files(0, 0));
        let (words, _) = message("nodefs.available", &pod, usage.as_ref());
        assert_eq!(words, expected);
    }
}

#[test]
fn s1_055_no_container_is_named_for_inodes_or_process_ids() {
    let usage = disk(files(GI, 1000), files(GI, 1000), files(0, 0));
    let pod = pod("p", &requests(&json!({})));
    for signal in ["nodefs.inodesFree", "imagefs.inodesFree", "pid.available"] {
        let (words, annotations) = message(signal, &pod, usage.as_ref());
        assert_eq!(words, "");
        assert_eq!(annotations["offending_containers"], "");
    }
    let (words, _) = message("pid.available", &pod, processes(9).as_ref());
    assert_eq!(words, "");
}

#[test]
fn s1_056_pod_level_memory_is_named_first_whether_exceeded_or_not() {
    let mut spec = requests(&json!({ "memory": "1Mi" }));
    spec["resources"] = json!({ "requests": { "memory": "1Gi" } });
    let mut usage = using(&[("c", Some(2 * MI))]);
    usage.working_set = Some(Figure::bytes(3 * MI));
    let (words, annotations) = message("memory.available", &pod("p", &spec), Some(&usage));
    let expected = "Pod p was using 3Mi, request is 1Gi, has larger consumption of memory. \
        Container c was using 2Mi, request is 1Mi, has larger consumption of memory. ";
    assert_eq!(words, expected);
    assert_eq!(annotations["offending_pod"], "p");
    assert_eq!(annotations["offending_pod_usage"], "3Mi");
    // Memory only, and only where the pod itself asks for memory.
    let (words, _) = message("nodefs.available", &pod("p", &spec), Some(&usage));
    assert_eq!(words, "");
    spec["resources"] = json!({ "requests": { "cpu": "1" } });
    let (words, annotations) = message("memory.available", &pod("p", &spec), Some(&usage));
    assert!(words.starts_with("Container c "), "{words}");
    assert!(!annotations.contains_key("offending_pod"));
}

#[test]
fn s1_057_with_stats_the_annotations_exist_even_when_no_container_offends() {
    let pod = pod("p", &requests(&json!({ "memory": "1Gi" })));
    let (_, annotations) = message("memory.available", &pod, memory(MI).as_ref());
    let expected = [
        ("offending_containers", String::new()),
        ("offending_containers_usage", String::new()),
        ("starved_resource", "memory".to_owned()),
    ];
    assert_eq!(annotations, BTreeMap::from(expected));
}

#[test]
fn s1_054_a_configured_quantity_prints_in_the_form_it_was_written() {
    for (written, printed) in [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("500000k", "500M"),
        ("1e3", "1e3"),
    ] {
        let thresholds = maps(&[("memory.available", written)], &[], &[], &[])
            .parse()
            .unwrap();
        assert_eq!(thresholds[0].value.to_string(), printed);
    }
}
