//! One session of the scheduler over all nodes, on one thread.
//!
//! | Case | Nodes | Gangs | Pods a gang |
//! |---|---|---|---|
//! | `gangs` | 1000 | 100 | 100 |
//! | `plugins` | the same, with every plugin that needs no server | 100 | 100 |
//! | `nodes` | 5000 | 10 | 100 |
//! | `full` | 5000 | 10 | 100, and nothing fits |
//! | `calm` | 5000 | 100 | 10, all of which run |
//! | `racks` | 5000 in 100 racks | 10, each in one rack | 100 |
//! | `racks_full` | the same, and no rack has room for a gang | 10 | 1601 |
//! | `renew` | 5000, all changed | none | 30 pods of another scheduler on each node |
//!
//! Nodes have 32 cores, 128 GiB and room for 110 pods; a pod asks for one core and one GiB. Reading objects is counted
//! apart (`read`), because a scheduler that runs keeps what it has read. Each is measured as Volcano decides and as ours
//! does, a day after its jobs were made, so that nodes are kept for the one that has waited longest.

#![allow(clippy::unwrap_used, reason = "in a bench a panic is the report")]

use divan::Bencher;
use evictd_batch::conf::{BUILT_IN, Conf};
use evictd_batch::session::{Cache, Objects, Setting};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// How a session decides.
const FORMS: [&str; 2] = ["volcano", "ours"];

fn named(compat: &str) -> Compat {
    match compat {
        "volcano" => Compat::VOLCANO,
        _ => Compat::EVICTD,
    }
}

#[derive(Clone, Copy)]
struct Recipe {
    nodes: usize,
    gangs: usize,
    size: usize,
    /// Whether each node is filled up by a pod of another scheduler.
    full: bool,
    /// Whether the gangs run already.
    runs: bool,
    /// Whether the gangs are groups of `scheduling.k8s.io`, and all pods of one have to be in one rack.
    racks: bool,
}

const GANGS: Recipe = Recipe {
    nodes: 1000,
    gangs: 100,
    size: 100,
    full: false,
    runs: false,
    racks: false,
};
const NODES: Recipe = Recipe {
    nodes: 5000,
    gangs: 10,
    ..GANGS
};
const FULL: Recipe = Recipe {
    full: true,
    ..NODES
};
const CALM: Recipe = Recipe {
    nodes: 5000,
    size: 10,
    runs: true,
    ..GANGS
};

const RACKS: Recipe = Recipe {
    racks: true,
    ..NODES
};

impl Recipe {
    fn node(index: usize) -> Value {
        let amounts = json!({"cpu": "32", "memory": "128Gi", "pods": "110"});
        json!({
            "metadata": {"name": format!("node-{index:05}"), "labels": {
                "kubernetes.io/hostname": format!("node-{index:05}"),
                "topology.kubernetes.io/zone": format!("z{}", index % 3),
                "rack": format!("r{}", index / 50),
            }},
            "status": {"capacity": amounts, "allocatable": amounts},
        })
    }

    fn pod(self, gang: usize, index: usize) -> Value {
        let name = format!("job-{gang:04}-work-{index}");
        let node = (gang * self.size + index) % self.nodes;
        let (node, phase) = if self.runs {
            (format!("node-{node:05}"), "Running")
        } else {
            (String::new(), "Pending")
        };
        let group = format!("job-{gang:04}");
        let (annotations, upstream) = if self.racks {
            (json!({}), json!({"podGroupName": group}))
        } else {
            let annotations =
                json!({"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "work"});
            (annotations, Value::Null)
        };
        json!({
            "metadata": {"namespace": "default", "name": name, "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations},
            "spec": {"schedulerName": "volcano", "nodeName": node, "schedulingGroup": upstream, "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
            "status": {"phase": phase},
        })
    }

    fn filler(index: usize) -> Value {
        json!({
            "metadata": {"namespace": "default", "name": format!("other-{index}"), "uid": format!("other-{index}")},
            "spec": {"nodeName": format!("node-{index:05}"), "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "31500m", "memory": "1Gi"}}}]},
            "status": {"phase": "Running"},
        })
    }

    fn objects(self) -> Objects {
        let size = self.size;
        let phase = if self.runs { "Running" } else { "Pending" };
        let groups: Vec<Value> = (0..self.gangs)
            .map(|gang| {
                json!({
                    "metadata": {"namespace": "default", "name": format!("job-{gang:04}"),
                        "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", gang / 60, gang % 60)},
                    "spec": {"minMember": size, "queue": "default",
                        "schedulingPolicy": {"gang": {"minCount": size}},
                        "schedulingConstraints": {"topology": [{"key": "rack"}]},
                        "minResources": {"cpu": size.to_string(), "memory": format!("{size}Gi")}},
                    "status": {"phase": phase, "running": if self.runs { size } else { 0 }},
                })
            })
            .collect();
        let pods =
            (0..self.gangs).flat_map(|gang| (0..size).map(move |index| self.pod(gang, index)));
        let fillers = (0..self.nodes).filter(|_| self.full).map(Self::filler);
        let nodes: Vec<Value> = (0..self.nodes).map(Self::node).collect();
        serde_json::from_value(json!({
            "nodes": nodes,
            "pods": pods.chain(fillers).collect::<Vec<_>>(),
            (if self.racks { "upstreamPodGroups" } else { "podGroups" }): groups,
            "queues": [{"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
        }))
        .unwrap()
    }

    fn cluster(objects: &Objects) -> Cluster {
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            assert!(cluster.add_node(node));
        }
        for pod in objects
            .pods
            .iter()
            .filter(|pod| !pod.spec.node_name.is_empty())
        {
            cluster.add_pod(pod.clone()).unwrap();
        }
        cluster
    }

    fn measure(self, bencher: Bencher<'_, '_>, compat: Compat, bound: usize) {
        self.measure_with(bencher, "", (compat, bound));
    }

    fn measure_with(self, bencher: Bencher<'_, '_>, conf: &str, (compat, bound): (Compat, usize)) {
        let objects = self.objects();
        let conf = Conf::read(conf).unwrap();
        let mut cluster = Self::cluster(&objects);
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        if let Ok(now) = "2026-01-02T00:00:00Z".parse() {
            cache.set_now(now);
        }
        bencher.bench_local(|| {
            let outcome = cache.session(&mut cluster, &conf, compat);
            assert_eq!(outcome.bound.len(), bound);
            outcome
        });
    }
}

#[divan::bench(sample_count = 5, args = FORMS)]
fn gangs(bencher: Bencher<'_, '_>, compat: &str) {
    GANGS.measure(bencher, named(compat), 10_000);
}

/// Further plugins of the last built-in tier.
const FURTHER: &str = "  - name: sla
  - name: pdb
  - {name: nodegroup, arguments: {strict: false}}
  - name: resource-strategy-fit
  - name: resourcequota
  - name: task-topology
  - name: numa-aware
  - {name: tdm, arguments: {tdm.revocable-zone.spot: \"00:00-00:04\"}}
  - name: cdp
  - name: rescheduling
  - name: network-topology-aware
";

#[divan::bench(sample_count = 5, args = FORMS)]
fn plugins(bencher: Bencher<'_, '_>, compat: &str) {
    let conf = format!("{BUILT_IN}{FURTHER}");
    GANGS.measure_with(bencher, &conf, (named(compat), 10_000));
}

#[divan::bench(sample_count = 5, args = FORMS)]
fn nodes(bencher: Bencher<'_, '_>, compat: &str) {
    NODES.measure(bencher, named(compat), 1000);
}

#[divan::bench(sample_count = 5, args = FORMS)]
fn full(bencher: Bencher<'_, '_>, compat: &str) {
    FULL.measure(bencher, named(compat), 0);
}

#[divan::bench(sample_count = 5, args = FORMS)]
fn racks(bencher: Bencher<'_, '_>, compat: &str) {
    RACKS.measure(bencher, named(compat), 1000);
}

#[divan::bench(sample_count = 5, args = FORMS)]
fn racks_full(bencher: Bencher<'_, '_>, compat: &str) {
    let recipe = Recipe {
        size: 1601,
        ..RACKS
    };
    recipe.measure(bencher, named(compat), 0);
}

#[divan::bench(sample_count = 10, args = FORMS)]
fn calm(bencher: Bencher<'_, '_>, compat: &str) {
    CALM.measure(bencher, named(compat), 0);
}

/// What is on the nodes is taken from the cluster anew.
#[divan::bench(sample_count = 20)]
fn renew(bencher: Bencher<'_, '_>) {
    let objects = Recipe { gangs: 0, ..NODES }.objects();
    let mut cluster = Recipe::cluster(&objects);
    for index in 0..NODES.nodes * 30 {
        let node = index % NODES.nodes;
        let pod = json!({
            "metadata": {"namespace": "default", "name": format!("other-{index}"), "uid": format!("other-{index}")},
            "spec": {"nodeName": format!("node-{node:05}"), "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}}]},
            "status": {"phase": "Running"},
        });
        let pod = serde_json::from_value(pod).unwrap();
        cluster.add_pod(pod).unwrap();
    }
    bencher.bench_local(|| {
        let mut cache = Cache::new(Setting::default());
        cache.read_nodes(&cluster);
        cache
    });
}

#[divan::bench(sample_count = 5)]
fn read(bencher: Bencher<'_, '_>) {
    let objects = GANGS.objects();
    bencher
        .with_inputs(|| Recipe::cluster(&objects))
        .bench_local_values(|mut cluster| {
            let cache = Cache::of(&mut cluster, &objects, Setting::default());
            (cache, cluster)
        });
}
