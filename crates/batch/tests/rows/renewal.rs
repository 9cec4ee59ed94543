//! The cluster alone counts the pods on nodes.

use crate::scenario::{Scenario, conf};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, PodId, Setting, simulate};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use serde_json::{Value, json};

/// Pods of another scheduler on the nodes, one of which ends, and jobs that run and wait.
fn objects() -> Objects {
    let other = |node: &str, with: Value| {
        let requests = json!({"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "2Gi", "example.com/gpu": "1"});
        let mut pod = json!({"spec": {"schedulerName": "default-scheduler", "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": requests}}]}, "status": {"phase": "Running"}});
        for (key, value) in with.as_object().unwrap() {
            pod[key] = value.clone();
        }
        pod
    };
    let ends = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let devices =
        json!({"status": {"allocatable": {"example.com/gpu": "4", "ephemeral-storage": "9Gi"}}});
    // So many are free only when the one that ends has gone.
    let wants_devices = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "3"}}}]}});
    let tiers: &[&[&str]] = &[
        &["priority", "gang"],
        &["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ];
    let conf = conf("enqueue, allocate, backfill, preempt, reclaim", tiers);
    Scenario::new(&conf)
        .node_with("a", "4", &devices)
        .node("b", "4")
        .node("empty", "1")
        .pod("other-0", "", "0", &other("a", json!({})))
        .pod("other-1", "", "0", &other("a", ends))
        .pod("other-2", "", "0", &other("b", json!({})))
        .job("old", 1, "Running")
        .running("old", 0, &["b"], "1")
        .job_with("new", 2, "Pending", &json!({"minResources": {"cpu": "2"}}))
        .waiting("new", 3, "1")
        .job_with(
            "large",
            2,
            "Pending",
            &json!({"minResources": {"cpu": "20"}}),
        )
        .waiting("large", 2, "10")
        .job("late", 1, "Inqueue")
        .pod("late-work-0", "late", "0", &wants_devices)
        .objects()
}

fn session(cluster: &mut Cluster, cache: &mut Cache, objects: &Objects) -> Value {
    let conf = Conf::read(&objects.conf).unwrap();
    let outcome = cache.session(cluster, &conf, Compat::EVICTD);
    serde_json::to_value(outcome).unwrap()
}

#[test]
fn s6_088_pods_of_other_schedulers_take_room_although_the_cache_is_not_told_of_them() {
    let mut objects = objects();
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        cluster.add_node(node);
    }
    // No pod of another scheduler is reported to it.
    let mut renewed = Cache::new(Setting::default());
    for queue in &objects.queues {
        renewed.queue(queue);
    }
    for group in &objects.pod_groups {
        renewed.group(group);
    }
    for pod in &objects.pods {
        if !pod.spec.node_name.is_empty() {
            cluster.add_pod(pod.clone()).unwrap();
        }
        if pod.spec.scheduler_name == "volcano" {
            renewed.pod(&mut cluster, pod);
        }
    }
    let mut told = Cache::of(&mut cluster, &objects, Setting::default());
    let before = session(&mut cluster, &mut renewed, &objects);
    assert_eq!(before, session(&mut cluster, &mut told, &objects));
    assert_eq!(before["bound"].as_array().unwrap().len(), 3);
    assert_eq!(before["pipelined"]["default/late-work-0"], "a");

    // Only nodes that have changed are read again.
    let gone = objects
        .pods
        .iter()
        .position(|pod| pod.metadata.name == "other-2");
    let gone = objects.pods.remove(gone.unwrap());
    cluster.remove_pod(&gone.metadata);
    told.remove_pod(&mut cluster, &gone.metadata);
    let after = session(&mut cluster, &mut renewed, &objects);
    assert_eq!(after, session(&mut cluster, &mut told, &objects));
    assert_ne!(after, before);
}

/// Carries out the bindings and evictions of an outcome: by the ids and compiled pods that a session hands over, or by
/// pods that are read again.
fn carry_out(by_ids: bool, cluster: &mut Cluster, cache: &mut Cache, objects: &Objects) -> Value {
    let conf = Conf::read(&objects.conf).unwrap();
    let outcome = cache.session(cluster, &conf, Compat::EVICTD);
    assert_eq!((outcome.bindings.len(), outcome.evicted.len()), (2, 1));
    let pod_of = |id: &PodId| {
        let mut pods = objects.pods.iter();
        let pod = pods.find(|pod| PodId::of(&pod.metadata) == *id);
        pod.unwrap().clone()
    };
    for (id, node) in outcome.bindings {
        if by_ids {
            let compiled = cache.bind(cluster, &id, node).unwrap();
            assert!(cache.bind(cluster, &id, node).is_none(), "it is bound once");
            cluster.assume(compiled, node);
        } else {
            let mut pod = pod_of(&id);
            cluster.node_name(node).clone_into(&mut pod.spec.node_name);
            cluster.add_pod(pod.clone()).unwrap();
            cache.pod(cluster, &pod);
        }
    }
    for eviction in outcome.evicted {
        let mut pod = pod_of(&eviction.id);
        if by_ids {
            cluster.set_terminating(&pod.metadata, true);
            cache.evict(&eviction.id);
        } else {
            let at: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            pod.metadata.deletion_timestamp = Some(at.into());
            cluster.add_pod(pod.clone()).unwrap();
            cache.pod(cluster, &pod);
        }
    }
    session(cluster, cache, objects)
}

#[test]
fn a_decision_carried_out_by_ids_counts_like_a_pod_that_is_read_again() {
    let tiers: &[&[&str]] = &[
        &["priority", "gang", "conformance"],
        &["predicates", "nodeorder"],
    ];
    let conf = conf("enqueue, allocate, preempt, backfill", tiers);
    let mut objects = Scenario::new(&conf)
        .node("a", "2")
        .node("b", "2")
        .class("high", 100)
        .job("low", 1, "Running")
        .running("low", 0, &["a", "a"], "1")
        .job("new", 2, "Inqueue")
        .waiting("new", 3, "1")
        .job_with(
            "urgent",
            1,
            "Inqueue",
            &json!({"priorityClassName": "high"}),
        )
        .pod(
            "urgent-work-0",
            "urgent",
            "1",
            &json!({"spec": {"priority": 100, "nodeSelector": {"kubernetes.io/hostname": "a"}}}),
        )
        .objects();
    for node in &mut objects.nodes {
        let name = node.metadata.name.clone();
        let labels = json!({"kubernetes.io/hostname": name});
        node.metadata.labels = serde_json::from_value(labels).unwrap();
    }
    let run = |by_ids: bool| {
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            cluster.add_node(node);
        }
        for pod in objects
            .pods
            .iter()
            .filter(|pod| !pod.spec.node_name.is_empty())
        {
            cluster.add_pod(pod.clone()).unwrap();
        }
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        carry_out(by_ids, &mut cluster, &mut cache, &objects)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_pod_that_cannot_be_read_counts_as_nothing_on_its_node_as_the_warning_says() {
    let selector =
        json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]});
    let terms = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]);
    let affinity =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let unreadable =
        json!({"spec": {"nodeName": "a", "affinity": affinity}, "status": {"phase": "Running"}});
    let conf = conf("enqueue, allocate", &[&["gang"], &["predicates"]]);
    let objects = Scenario::new(&conf)
        .node("a", "1")
        .pod("other-0", "", "1", &unreadable)
        .job("j", 1, "Inqueue")
        .waiting("j", 1, "1")
        .objects();
    let (outcome, warnings) = simulate(&objects, &Setting::default(), Compat::EVICTD).unwrap();
    assert!(
        warnings[0].ends_with("it counts as nothing on its node"),
        "{warnings:?}"
    );
    assert_eq!(outcome.binds["default/j-work-0"], "a");
}
