//! Traces of many shapes: deep trees of queues, two kinds of GPU, elastic jobs with several tasks, bursts, nodes that join and are lost, jobs
//! that are deleted, pods that terminate slowly or select nodes, groups and zones of nodes.

use super::{ACTIONS, Case, GANG_ACTIONS, SHARES, TOPOLOGIES};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Plugins of the second tier beside the one that shares the cluster.
const FURTHER: [&str; 9] = [
    "{name: drf, enablePreemptable: false}",
    "{name: drf}",
    "{name: overcommit}",
    "{name: sla, arguments: {sla-waiting-time: 2m}}",
    "{name: nodegroup, arguments: {strict: false}}",
    "{name: tdm, arguments: {tdm.revocable-zone.spot: \"00:00-00:04\"}}",
    "{name: network-topology-aware}",
    "{name: binpack}",
    "{name: cdp}",
];

const GPUS: [&str; 2] = ["nvidia.com/a100", "nvidia.com/h100"];

prop_compose! {
    fn confs()(
        share in prop::sample::select(&SHARES),
        shares in prop::bool::weighted(0.9),
        three in prop_oneof![prop::sample::select(&ACTIONS), prop::sample::select(&GANG_ACTIONS)],
        dropped in prop::option::of(0_usize..3),
        enqueue in any::<bool>(),
        shuffle in prop::bool::weighted(0.2),
        gang_guards in prop::bool::weighted(0.8),
        further in prop::sample::subsequence(&FURTHER, 0..=4),
    ) -> String {
        let mut all: Vec<&str> = three.to_vec();
        if let Some(at) = dropped.filter(|at| three[*at] != "allocate") {
            all.remove(at);
        }
        if enqueue {
            all.insert(0, "enqueue");
        }
        if shuffle {
            all.push("shuffle");
        }
        all.push("backfill");
        let mut conf = format!("actions: \"{}\"\ntiers:\n- plugins:\n  - name: priority\n", all.join(", "));
        conf.push_str(if gang_guards { "  - name: gang\n" } else { "  - {name: gang, enablePreemptable: false}\n" });
        conf.push_str("  - name: conformance\n- plugins:\n  - name: predicates\n");
        if shares {
            writeln!(conf, "  - {share}").unwrap();
        }
        for plugin in further {
            writeln!(conf, "  - {plugin}").unwrap();
        }
        conf.push_str("  - name: nodeorder\n");
        conf
    }
}

/// Amounts of cpu, and for some of memory and of a kind of GPU.
fn amounts(cpu: std::ops::Range<u32>, often: f64) -> impl Strategy<Value = Value> {
    let memory = prop::option::weighted(0.4, 2_u32..24);
    let gpu = prop::option::weighted(often, (0_usize..2, 1_u32..4));
    let cpu = prop::option::weighted(0.85, cpu);
    (cpu, memory, gpu).prop_map(|(cpu, memory, gpu)| {
        let mut all = json!({});
        if let Some(cpu) = cpu {
            all["cpu"] = json!(cpu);
        }
        if let Some(memory) = memory {
            all["memory"] = json!(format!("{memory}Gi"));
        }
        if let Some((kind, count)) = gpu {
            all[GPUS[kind]] = json!(count);
        }
        all
    })
}

prop_compose! {
    fn queue(index: usize)(
        // A parent of a lower index, or none.
        above in prop::option::weighted(0.75, 0..index.max(1)),
        weight in 1_u32..5,
        priority in prop::sample::select(&[0, 0, 0, 5]),
        deserved in amounts(1..10, 0.3),
        guarantee in prop::option::weighted(0.15, 1_u32..3),
        capability in prop::option::weighted(0.12, 6_u32..16),
        reclaimable in prop::option::weighted(0.1, Just(false)),
        group in prop::option::weighted(0.2, any::<bool>()),
    ) -> Value {
        let mut queue = json!({"name": format!("q{index}"), "weight": weight, "priority": priority, "deserved": deserved});
        if let Some(above) = above.filter(|above| *above < index) {
            queue["parent"] = json!(format!("q{above}"));
        }
        if let Some(cpu) = guarantee {
            queue["guarantee"] = json!({"cpu": cpu});
        }
        if let Some(cpu) = capability {
            queue["capability"] = json!({"cpu": cpu});
        }
        if reclaimable.is_some() {
            queue["reclaimable"] = json!(false);
        }
        if let Some(required) = group {
            let kind = if required { "required" } else { "preferred" };
            let key = format!("{kind}DuringSchedulingIgnoredDuringExecution");
            queue["affinity"] = json!({"nodeGroupAffinity": {key: ["g"]}});
        }
        queue
    }
}

prop_compose! {
    fn nodes(index: usize)(
        count in 1_u32..4,
        cpu in prop::sample::select(&[4_u32, 8, 16]),
        gpus in prop::option::weighted(0.5, (0_usize..2, 1_u32..5)),
        label in prop::option::weighted(0.25, prop::sample::select(&[
            ("volcano.sh/nodegroup-name", "g"), ("volcano.sh/revocable-zone", "spot"), ("disk", "ssd"),
        ])),
        joins in prop::option::weighted(0.15, 5_u32..200),
        leaves in prop::option::weighted(0.15, 10_u32..300),
    ) -> Value {
        let mut nodes = json!({"name": format!("n{index}"), "count": count,
            "allocatable": {"cpu": cpu, "memory": format!("{}Gi", cpu * 4)}});
        if let Some((kind, count)) = gpus {
            nodes["allocatable"][GPUS[kind]] = json!(count);
        }
        if let Some((key, text)) = label {
            nodes["labels"] = json!({key: text});
        }
        // Something is there at each time.
        if index > 0 {
            if let Some(joins) = joins {
                nodes["joins"] = json!(joins);
            }
            if let Some(leaves) = leaves {
                nodes["leaves"] = json!(joins.unwrap_or(0) + leaves);
            }
        }
        nodes
    }
}

prop_compose! {
    fn task(index: usize)(
        replicas in 1_u32..7,
        least in 0_u32..7,
        requests in amounts(1..6, 0.25),
        selects in prop::bool::weighted(0.12),
    ) -> Value {
        let mut requests = requests;
        if requests.get("cpu").is_none() {
            requests["cpu"] = json!("500m");
        }
        let mut task = json!({"name": format!("t{index}"), "replicas": replicas, "minAvailable": least.min(replicas), "requests": requests});
        if selects {
            task["nodeSelector"] = json!({"disk": "ssd"});
        }
        task
    }
}

prop_compose! {
    fn job(index: usize, queues: usize)(
        queue in 0..queues,
        arrival in prop_oneof![Just(0_u32), Just(20), 0_u32..120],
        duration in prop_oneof![5_u32..60, 60_u32..900],
        priority in prop::sample::select(&[0, 0, 0, 5, 10]),
        deleted in prop::option::weighted(0.12, 1_u32..200),
        preemptable in prop::option::weighted(0.2, prop::sample::select(&["true", "false"])),
        cooled in prop::bool::weighted(0.1),
        topology in prop::sample::select(&TOPOLOGIES),
        tasks in prop_oneof![
            3 => task(0).prop_map(|task| vec![task]).boxed(),
            1 => (task(0), task(1)).prop_map(|(one, other)| vec![one, other]).boxed(),
        ],
    ) -> Value {
        let mut job = json!({"name": format!("j{index}"), "queue": format!("q{queue}"), "arrival": arrival,
            "duration": duration, "priority": priority, "tasks": tasks});
        if let Some(after) = deleted {
            job["deleted"] = json!(arrival + after);
        }
        let mut annotations = json!({});
        if let Some(preemptable) = preemptable {
            annotations["volcano.sh/preemptable"] = json!(preemptable);
        }
        if cooled {
            annotations["volcano.sh/cooldown-time"] = json!("60s");
        }
        job["annotations"] = annotations;
        job["networkTopology"] = serde_json::from_str(topology).unwrap();
        job
    }
}

/// Nodes that are lost are there again a while later, since every job has to end.
fn with_return(nodes: Vec<Value>) -> Vec<Value> {
    let again = |nodes: &Value| {
        let mut again = nodes.clone();
        again["joins"] = json!(nodes.get("leaves")?.as_u64()? + 20);
        again["name"] = json!(format!("{}-again", nodes["name"].as_str()?));
        again.as_object_mut()?.remove("leaves");
        Some(again)
    };
    let returned: Vec<Value> = nodes.iter().filter_map(again).collect();
    nodes.into_iter().chain(returned).collect()
}

/// Racks of the nodes in one row.
fn hyper_nodes(nodes: &[Value]) -> Vec<Value> {
    let racks = nodes.iter().enumerate();
    let racks = racks.map(|(index, node)| json!({"name": format!("rack-{index}"), "tier": 1, "nodes": [node["name"]]}));
    let names: Vec<String> = (0..nodes.len())
        .map(|index| format!("rack-{index}"))
        .collect();
    racks
        .chain([json!({"name": "row", "tier": 2, "hyperNodes": names})])
        .collect()
}

prop_compose! {
    pub(super) fn cases()(
        conf in confs(),
        count in (1_usize..4, 1_usize..8, 2_usize..14),
    )(
        conf in Just(conf),
        nodes in (0..count.0).map(nodes).collect::<Vec<_>>(),
        queues in (0..count.1).map(queue).collect::<Vec<_>>(),
        jobs in (0..count.2).map(move |index| job(index, count.1)).collect::<Vec<_>>(),
        termination in prop::sample::select(&[1_u32, 3, 30, 240]),
    ) -> Case {
        let (nodes, mut queues, mut jobs) = (with_return(nodes), queues, jobs);
        // With a hierarchy only leaves have jobs.
        let hierarchy = conf.contains("enableHierarchy");
        for job in &mut jobs {
            let parent = |name: &Value| queues.iter().find(|queue| queue.get("parent") == Some(name));
            while let Some(below) = parent(&job["queue"]).filter(|_| hierarchy) {
                job["queue"] = below["name"].clone();
            }
            if !conf.contains("network-topology-aware") {
                job.as_object_mut().unwrap().remove("networkTopology");
            }
        }
        if !hierarchy {
            for queue in &mut queues {
                queue.as_object_mut().unwrap().remove("parent");
            }
        }
        let trace = json!({"nodes": nodes, "hyperNodes": hyper_nodes(&nodes), "terminationSeconds": termination,
            "queues": queues, "jobs": jobs});
        Case { conf, trace }
    }
}
