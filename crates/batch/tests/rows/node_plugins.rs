//! Plugins that judge nodes.

use crate::scenario::{Scenario, bound, conf, evicted};
use evictd_batch::session::Outcome;
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

#[test]
fn s6_217_tasks_that_work_together_share_a_node_and_others_do_not() {
    let conf = conf(
        "allocate",
        &[
            &["gang", "predicates", "nodeorder"],
            &["{name: task-topology, arguments: {task-topology.weight: 100}}"],
        ],
    );
    for (annotation, nodes) in [
        ("volcano.sh/task-topology-affinity", 1),
        ("volcano.sh/task-topology-anti-affinity", 3),
    ] {
        let cluster = Scenario::new(&conf)
            .node("a", "9")
            .node("b", "9")
            .node("c", "9");
        let cluster = cluster.job("j", 3, "Inqueue").waiting("j", 3, "1");
        let marks = json!({ "metadata": { "annotations": { annotation: "work" } } });
        let cluster = cluster.group_with(&marks);
        for compat in [Compat::EVICTD, Compat::VOLCANO] {
            let outcome = cluster.run_as(compat);
            let mut used: Vec<_> = (0..3)
                .map(|index| bound(&outcome, &format!("j-work-{index}")).unwrap())
                .collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), nodes, "{annotation}: {used:?}");
        }
    }
}

const NOW: &str = "2026-01-01T12:00:00Z";

/// The figures of a node at a time of day.
fn figures(cpu: u32, memory: u32, time: &str) -> Value {
    json!({"cpu": {"10m": cpu}, "memory": {"10m": memory}, "time": format!("2026-01-01T{time}Z")})
}

#[test]
fn s6_206_no_pod_leaves_for_which_no_node_with_low_use_has_room() {
    let plugin = "{name: rescheduling, arguments: {metricsPeriod: 10m, strategies: [{name: lowNodeUtilization, \
        params: {thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 50, memory: 50}}}]}}";
    let conf = conf("allocate, shuffle", &[&["gang", "predicates"], &[plugin]]);
    let full = figures(95, 45, "11:59:30");
    // Each node with low use takes two cores until it reaches the target.
    let low = figures(30, 10, "11:59:30");
    let outcome = |cpu: &[&str], compat: Compat| {
        let mut cluster = Scenario::new(&conf)
            .node("a", "10")
            .node("b", "10")
            .node("c", "10")
            .job("j", 0, "Running");
        for (index, cpu) in cpu.iter().enumerate() {
            cluster = cluster.running("j", index, &["a"], cpu);
        }
        let metrics = json!({"a": full, "b": low, "c": low});
        cluster.further("nodeMetrics", metrics).run_at(NOW, compat)
    };
    // The room of both together is not that of one pod.
    assert!(evicted(&outcome(&["3"], Compat::EVICTD)).is_empty());
    assert_eq!(evicted(&outcome(&["3"], Compat::VOLCANO)), ["j-work-0"]);
    // The first is too large, and those after it fit.
    let some = outcome(&["3", "1", "1", "2", "1"], Compat::EVICTD);
    assert_eq!(evicted(&some), ["j-work-1", "j-work-2", "j-work-3"]);
    let all = outcome(&["2", "1"], Compat::EVICTD);
    assert_eq!(evicted(&all), ["j-work-0", "j-work-1"]);
}

/// The node for a pod of 100m where the nodes a and b are in use as these figures say, and a has the tasks of a job.
fn least_used(cluster: Scenario, figures: [Value; 2], compat: Compat) -> Outcome {
    let [a, b] = figures;
    let metrics = json!({"a": a, "b": b});
    cluster.further("nodeMetrics", metrics).run_at(NOW, compat)
}

fn with_usage(actions: &str) -> Scenario {
    let conf = conf(actions, &[&["priority", "gang", "predicates"], &["usage"]]);
    let cluster = Scenario::new(&format!("{conf}metrics: {{interval: 30s}}\n"));
    cluster.node("a", "10").node("b", "10")
}

fn started(time: &str) -> Value {
    json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running", "startTime": format!("2026-01-01T{time}Z")}})
}

#[test]
fn s6_222_a_pod_that_started_after_the_measurement_is_estimated() {
    let node = |start: &str, compat: Compat| {
        let cluster = with_usage("allocate")
            .job("old", 0, "Running")
            .pod("old-work-0", "old", "5", &started(start))
            .job("j", 1, "Inqueue")
            .waiting("j", 1, "100m");
        let figures = [figures(10, 10, "11:58:00"), figures(20, 20, "11:58:00")];
        let outcome = least_used(cluster, figures, compat);
        bound(&outcome, "j-work-0").unwrap().to_owned()
    };
    // The figures show the pod.
    assert_eq!(node("11:57:00", Compat::EVICTD), "a");
    // They are older than the pod, which runs for longer than the interval.
    assert_eq!(node("11:59:00", Compat::EVICTD), "b");
    assert_eq!(node("11:59:00", Compat::VOLCANO), "a");
    // It was just started.
    assert_eq!(node("11:59:45", Compat::VOLCANO), "b");
}

#[test]
fn s6_222_figures_of_a_later_time_are_unknown() {
    let node = |time: &str, compat: Compat| {
        let cluster = with_usage("allocate")
            .job("j", 1, "Inqueue")
            .waiting("j", 1, "100m");
        let figures = [figures(10, 10, time), figures(20, 20, "11:59:45")];
        let outcome = least_used(cluster, figures, compat);
        bound(&outcome, "j-work-0").unwrap().to_owned()
    };
    assert_eq!(node("11:59:30", Compat::EVICTD), "a");
    // Clocks differ a little.
    assert_eq!(node("12:00:10", Compat::EVICTD), "a");
    assert_eq!(node("13:00:00", Compat::EVICTD), "b");
    assert_eq!(node("13:00:00", Compat::VOLCANO), "a");
}

#[test]
fn s6_222_an_eviction_that_is_undone_leaves_the_estimates_as_they_were() {
    let node = |compat: Compat| {
        let cluster = with_usage("preempt, allocate")
            .class("high", 100)
            .job("old", 0, "Running")
            .pod("old-work-0", "old", "5", &started("10:00:00"))
            // Both pods are needed, and only one finds room.
            .job_with("large", 2, "Inqueue", &json!({"priorityClassName": "high"}))
            .pod(
                "large-work-0",
                "large",
                "8",
                &json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "a"}}}),
            )
            .pod("large-work-1", "large", "80", &json!({}))
            .job("j", 1, "Inqueue")
            .waiting("j", 1, "100m");
        let figures = [figures(10, 10, "11:59:45"), figures(20, 20, "11:59:45")];
        let outcome = least_used(cluster, figures, compat);
        assert!(outcome.evicted.is_empty(), "{:?}", outcome.evicted);
        bound(&outcome, "j-work-0").unwrap().to_owned()
    };
    assert_eq!(node(Compat::EVICTD), "a");
    // Volcano adds an estimate for a pod that its figures show.
    let inexact = Compat::EVICTD.without(Difference::ExactUndo);
    assert_eq!(node(inexact), "b");
}

#[test]
fn s6_217_a_running_task_keeps_its_role_off_its_node() {
    let conf = conf("allocate", &[&["gang", "predicates", "task-topology"]]);
    let marks =
        json!({"metadata": {"annotations": {"volcano.sh/task-topology-anti-affinity": "work"}}});
    let cluster = Scenario::new(&conf)
        .node("a", "9")
        .node("b", "9")
        .job("j", 1, "Running")
        .group_with(&marks)
        .running("j", 0, &["a"], "1")
        .pod("j-work-1", "j", "1", &json!({}));
    assert_eq!(
        bound(&cluster.run_as(Compat::EVICTD), "j-work-1"),
        Some("b")
    );
    // Volcano counts the tasks of this session only.
    assert_eq!(
        bound(&cluster.run_as(Compat::VOLCANO), "j-work-1"),
        Some("a")
    );
}

/// A node with so much allocatable memory, in a rack.
fn in_rack(cluster: Scenario, name: &str, cpu: &str, memory: &str) -> Scenario {
    let room = json!({"memory": memory});
    cluster.node_with(
        name,
        cpu,
        &json!({"status": {"allocatable": room, "capacity": room}}),
    )
}

#[test]
fn s6_217_a_placement_that_is_undone_leaves_the_order_of_the_tasks() {
    let conf = conf(
        "allocate",
        &[&[
            "gang",
            "predicates",
            "network-topology-aware",
            "task-topology",
        ]],
    );
    // The roles are the same, and the requests are not.
    let conf = format!(
        "{conf}configurations:\n- name: allocate\n  arguments: {{predicateErrorCacheEnable: false}}\n"
    );
    let rack = |name: &str, nodes: [&str; 2]| {
        let members =
            nodes.map(|node| json!({"type": "Node", "selector": {"exactMatch": {"name": node}}}));
        json!({"metadata": {"name": name}, "spec": {"tier": 1, "members": members}})
    };
    let asks = |cpu: &str, memory: &str| {
        let requests = json!({"cpu": cpu, "memory": memory});
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
    };
    let mut cluster = Scenario::new(&conf);
    // In the first rack the last task finds no room, because no node has enough memory.
    for (name, cpu, memory) in [
        ("a1", "4", "2Gi"),
        ("a2", "4", "2Gi"),
        ("x", "5", "1Gi"),
        ("y", "1", "5Gi"),
    ] {
        cluster = in_rack(cluster, name, cpu, memory);
    }
    let near = json!({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}});
    let marks = json!({"metadata": {"annotations": {"volcano.sh/task-topology-affinity": "work"}}});
    let outcome = cluster
        .job_with("j", 3, "Inqueue", &near)
        .group_with(&marks)
        .pod("j-work-0", "j", "0", &asks("100m", "1Mi"))
        .pod("j-work-1", "j", "0", &asks("3", "1Mi"))
        .pod("j-work-2", "j", "0", &asks("100m", "3Gi"))
        .further(
            "hyperNodes",
            json!([rack("a", ["a1", "a2"]), rack("b", ["x", "y"])]),
        )
        .run_as(Compat::EVICTD);
    // The first two share a node, and the last one is alone.
    let nodes = ["j-work-0", "j-work-1", "j-work-2"].map(|pod| bound(&outcome, pod).unwrap());
    assert_eq!(nodes, ["x", "x", "y"]);
}

#[test]
fn s6_223_a_node_without_enough_processors_is_not_the_best() {
    let conf = conf("allocate", &[&["gang", "predicates", "numa-aware"]]);
    let topology = |node: &str, free: &str| {
        let place = |numa: u32| json!({"numa": numa, "socket": numa, "core": 0});
        json!({"metadata": {"name": node}, "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "best-effort"},
            "numares": {"cpu": {"allocatable": free}},
            "cpuDetail": {"0": place(0), "1": place(0), "2": place(1), "3": place(1)},
        }})
    };
    let amounts = json!({"cpu": "2", "memory": "1Gi"});
    let pod = json!({
        "metadata": {"annotations": {"volcano.sh/numa-topology-policy": "best-effort"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]},
    });
    let cluster = |free_on_b: &str| {
        Scenario::new(&conf)
            .node("a", "4")
            .node("b", "4")
            .job("j", 1, "Inqueue")
            .pod("j-work-0", "j", "0", &pod)
            .further(
                "numatopologies",
                json!([topology("a", "1"), topology("b", free_on_b)]),
            )
    };
    let node = |free_on_b: &str, compat: Compat| {
        let outcome = cluster(free_on_b).run_as(compat);
        bound(&outcome, "j-work-0").map(str::to_owned)
    };
    assert_eq!(node("0-3", Compat::EVICTD).as_deref(), Some("b"));
    assert_eq!(node("0-3", Compat::VOLCANO).as_deref(), Some("a"));
    // The kubelet admits the pod on neither.
    assert_eq!(node("3", Compat::EVICTD), None);
}

#[test]
fn a_job_that_nodes_refuse_is_told_by_which_plugin_and_why() {
    let conf = conf(
        "enqueue, allocate",
        &[&["gang", "predicates"], &["nodegroup"]],
    );
    let message = |labels: Value| {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let affinity = json!({"affinity": {"nodeGroupAffinity": { required: ["g"] }}});
        let outcome = Scenario::new(&conf)
            .node("a", "9")
            .node_with("b", "1", &json!({"metadata": { "labels": labels }}))
            .queue("r", &affinity)
            .job_with(
                "j",
                1,
                "Pending",
                &json!({"queue": "r", "minResources": {"cpu": "2"}}),
            )
            .waiting("j", 1, "2")
            .run_as(Compat::EVICTD);
        outcome.pod_groups["default/j"].conditions[0]
            .message
            .clone()
    };
    let words = "there is no room now for 1 pod of task work that asks for cpu 2";
    let all = format!(
        "{words}, because every node refuses them: 2 plugin nodegroup: node group label not found"
    );
    let found = message(json!({}));
    assert!(found.contains(&all), "{found}");
    let some = format!(
        "{words}, and 1 of 2 nodes refuse them: 1 plugin nodegroup: node group label not found"
    );
    let found = message(json!({"volcano.sh/nodegroup-name": "g"}));
    assert!(found.contains(&some), "{found}");
}
