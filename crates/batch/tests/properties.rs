//! What holds for any cluster, in both forms.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod properties {
    mod confined;
    mod placing;
    mod quiet;
    mod reserving;
}

use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use evictd_test_objects as objects;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashMap;

const CONFS: [&str; 4] = [
    "",
    "actions: \"enqueue, allocate, preempt, reclaim, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n- plugins:\n  - name: drf\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n",
    "actions: \"enqueue, reclaim, allocate, backfill\"\ntiers:\n- plugins:\n  - name: conformance\n  - name: proportion\n- plugins:\n  - name: gang\n    enableReclaimable: false\n  - name: predicates\n  - name: binpack\n",
    "actions: \"allocate, preempt, reclaim\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: drf\n  - name: predicates\n  - name: capacity\n  - name: nodeorder\n",
];

#[derive(Debug, Clone)]
struct Job {
    queue: usize,
    min: i32,
    priority: usize,
    inqueue: bool,
    cpu: u32,
    /// Of each pod its node, or none.
    pods: Vec<Option<usize>>,
}

fn job() -> impl Strategy<Value = Job> {
    let pods = prop::collection::vec(prop::option::of(0_usize..3), 0..5);
    (
        0_usize..3,
        -1_i32..5,
        0_usize..3,
        any::<bool>(),
        0_u32..4,
        pods,
    )
        .prop_map(|(queue, min, priority, inqueue, cpu, pods)| Job {
            queue,
            min,
            priority,
            inqueue,
            cpu,
            pods,
        })
}

fn pod(index: usize, task: usize, job: &Job, node: Option<usize>) -> Value {
    let group = format!("j{index}");
    let node = node.map(|node| format!("n{node}"));
    let pod = objects::volcano_pod(&format!("j{index}-work-{task}"), &group).of_task("work");
    let pod = pod.label("app", &group).runs_on(node.as_deref());
    pod.cpu(&job.cpu.to_string()).memory("1Gi").json()
}

fn objects(jobs: &[Job], weights: &[i32], cores: u32) -> Objects {
    let node = |index: usize| {
        let node = objects::node(&format!("n{index}")).cpu(&cores.to_string());
        node.memory("64Gi").resource("pods", "6").json()
    };
    let queue = |(index, weight): (usize, &i32)| {
        let queue = objects::queue(&format!("q{index}")).open();
        let spec = json!({"weight": weight, "deserved": {"cpu": "2"}});
        queue.spec(spec).json()
    };
    let group = |(index, job): (usize, &Job)| {
        let runs = job.pods.iter().any(Option::is_some);
        let phase = match (runs, job.inqueue) {
            (true, _) => "Running",
            (_, true) => "Inqueue",
            _ => "Pending",
        };
        let spec = json!({"queue": format!("q{}", job.queue),
            "priorityClassName": format!("p{}", job.priority)});
        let group = objects::volcano_group(&format!("j{index}"), job.min);
        group.spec(spec).phase(phase).json()
    };
    let pods = jobs.iter().enumerate().flat_map(|(index, job)| {
        let pods = job.pods.iter().enumerate();
        pods.map(move |(task, node)| pod(index, task, job, *node))
    });
    serde_json::from_value(json!({
        "nodes": (0..3).map(node).collect::<Vec<_>>(),
        "queues": weights.iter().enumerate().map(queue).collect::<Vec<_>>(),
        "podGroups": jobs.iter().enumerate().map(group).collect::<Vec<_>>(),
        "pods": pods.collect::<Vec<_>>(),
        "priorityClasses": (0..3).map(|index| json!({"metadata": {"name": format!("p{index}")}, "value": index})).collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// Runs a session twice; says whether the cluster was left as it was once all pods are gone.
fn run(objects: &Objects, conf: &str, compat: Compat) -> (Outcome, bool) {
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
    let pods = |cluster: &Cluster| {
        let nodes = cluster.nodes().iter();
        let nodes =
            nodes.map(|node| format!("{:?} {:?} {:?}", node.requested, node.scored, node.pods));
        (nodes.collect::<Vec<_>>(), cluster.sizes())
    };
    let before = pods(&cluster);
    let conf = Conf::read(conf).unwrap();
    let mut cache = Cache::of(&mut cluster, objects, Setting::default());
    let outcome = cache.session(&mut cluster, &conf, compat);
    // Nothing is left of a session.
    assert_eq!(
        json(&outcome),
        json(&cache.session(&mut cluster, &conf, compat))
    );
    for pod in &objects.pods {
        cache.remove_pod(&mut cluster, &pod.metadata);
    }
    let same = pods(&cluster) == before;
    (outcome, same)
}

fn json(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).unwrap()
}

/// How many pods of each job that are named are in a list.
fn by_job<'p>(pods: impl Iterator<Item = &'p String>) -> HashMap<String, i32> {
    let mut counts = HashMap::new();
    for pod in pods {
        let job = pod
            .trim_start_matches("default/")
            .split('-')
            .next()
            .unwrap();
        *counts.entry(job.to_owned()).or_default() += 1;
    }
    counts
}

fn running(job: &Job) -> i32 {
    i32::try_from(job.pods.iter().flatten().count()).unwrap()
}

/// Where a pod is.
fn node_of<'j>(jobs: &'j mut [Job], pod: &str) -> &'j mut Option<usize> {
    let (job, task) = pod["default/j".len()..].split_once("-work-").unwrap();
    let job: usize = job.parse().unwrap();
    &mut jobs[job].pods[task.parse::<usize>().unwrap()]
}

/// Tells a cluster and a cache of what makes the second of two lists of objects out of the first.
fn change(cluster: &mut Cluster, cache: &mut Cache, from: &Objects, to: &Objects) {
    for pod in &from.pods {
        if !to
            .pods
            .iter()
            .any(|own| own.metadata.name == pod.metadata.name)
        {
            cache.remove_pod(cluster, &pod.metadata);
            cluster.remove_pod(&pod.metadata);
        }
    }
    for group in &from.pod_groups {
        let name = &group.metadata.name;
        if !to.pod_groups.iter().any(|own| own.metadata.name == *name) {
            cache.remove_group(&group.metadata);
        }
    }
    for queue in &from.queues {
        let name = &queue.metadata.name;
        if !to.queues.iter().any(|own| own.metadata.name == *name) {
            cache.remove_queue(name);
        }
    }
    for node in &from.nodes {
        let name = &node.metadata.name;
        if !to.nodes.iter().any(|own| own.metadata.name == *name) {
            cluster.remove_node(name);
        }
    }
    for pod in &to.pods {
        if pod.spec.node_name.is_empty() {
            cluster.remove_pod(&pod.metadata);
        } else {
            cluster.add_pod(pod.clone()).unwrap();
        }
        cache.pod(cluster, pod);
    }
    for group in &to.pod_groups {
        cache.group(group);
    }
    for node in &to.nodes {
        cluster.update_node(node);
    }
    for class in &to.priority_classes {
        cache.class(class);
    }
    for queue in &to.queues {
        cache.queue(queue);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_cache_after_changes_equals_a_new_cache(
        first in prop::collection::vec(job(), 0..7),
        second in prop::collection::vec(job(), 0..7),
        weights in prop::collection::vec(1_i32..4, 1..4),
        nodes in 0_usize..4,
        cores in 1_u32..9,
        conf in 0_usize..4,
    ) {
        let before = objects(&first, &[1, 2, 3], 4);
        let mut after = objects(&second, &weights, cores);
        after.nodes.truncate(nodes);
        let (mut cluster, mut cache) = (Cluster::new(), Cache::new(Setting::default()));
        let conf = Conf::read(CONFS[conf]).unwrap();
        let nothing = Objects::default();
        change(&mut cluster, &mut cache, &nothing, &before);
        cache.session(&mut cluster, &conf, Compat::EVICTD);
        change(&mut cluster, &mut cache, &before, &after);
        let own = cache.session(&mut cluster, &conf, Compat::EVICTD);
        let mut cluster = Cluster::new();
        for node in &after.nodes {
            cluster.add_node(node);
        }
        for pod in after.pods.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            cluster.add_pod(pod.clone()).unwrap();
        }
        let mut anew = Cache::of(&mut cluster, &after, Setting::default());
        let anew = anew.session(&mut cluster, &conf, Compat::EVICTD);
        prop_assert_eq!(json(&own), json(&anew));
    }

    #[test]
    fn gangs_are_whole_and_the_cluster_is_left_as_it_was(
        jobs in prop::collection::vec(job(), 0..7),
        weights in prop::collection::vec(-1_i32..4, 3),
        cores in 1_u32..9,
        conf in 0_usize..4,
        ours in any::<bool>(),
    ) {
        let objects = objects(&jobs, &weights, cores);
        let compat = if ours { Compat::EVICTD } else { Compat::VOLCANO };
        let (outcome, same) = run(&objects, CONFS[conf], compat);
        prop_assert!(same);
        let bound = by_job(outcome.bound.iter());
        for (index, job) in jobs.iter().enumerate() {
            let new = bound.get(&format!("j{index}")).copied().unwrap_or(0);
            prop_assert!(new == 0 || new + running(job) >= job.min, "j{index}: {new} of {job:?}");
        }
        // Nobody is bound and evicted, and who is bound fits.
        let mut cpu: HashMap<&str, u32> = HashMap::new();
        for job in &jobs {
            for node in job.pods.iter().flatten() {
                *cpu.entry(["n0", "n1", "n2"][*node]).or_default() += job.cpu;
            }
        }
        let before = cpu.clone();
        for (pod, node) in &outcome.binds {
            let index: usize = pod["default/j".len()..].split('-').next().unwrap().parse().unwrap();
            *cpu.entry(node.as_str()).or_default() += jobs[index].cpu;
        }
        for (node, used) in cpu {
            prop_assert!(used <= cores.max(before.get(node).copied().unwrap_or(0)), "{node}");
        }
    }

    #[test]
    fn with_evictds_compat_no_gang_is_broken(
        jobs in prop::collection::vec(job(), 0..7),
        cores in 1_u32..9,
        conf in 1_usize..4,
    ) {
        let objects = objects(&jobs, &[1, 1, 1], cores);
        let (outcome, _) = run(&objects, CONFS[conf], Compat::EVICTD);
        let gone = by_job(outcome.evicted.iter().map(|own| &own.pod));
        let bound = by_job(outcome.bound.iter());
        for (index, job) in jobs.iter().enumerate() {
            let gone = gone.get(&format!("j{index}")).copied().unwrap_or(0);
            // Whoever is bound in the same session counts.
            let new = bound.get(&format!("j{index}")).copied().unwrap_or(0);
            let (before, left) = (running(job), running(job) - gone + new);
            prop_assert!(
                gone == 0 || left >= job.min || left == 0,
                "j{index}: {gone} of {before} went, {} are needed", job.min
            );
        }
    }

    #[test]
    fn the_deserved_shares_of_all_queues_fit_into_the_cluster(
        jobs in prop::collection::vec(job(), 0..7),
        weights in prop::collection::vec(0_i32..9, 3),
        cores in 1_u32..9,
    ) {
        let objects = objects(&jobs, &weights, cores);
        let (outcome, _) = run(&objects, CONFS[1], Compat::VOLCANO);
        let queues = outcome.queues_at_open.unwrap();
        let all: f64 = queues.values().map(|own| own.deserved.as_ref().unwrap()["cpu"].0).sum();
        prop_assert!(all <= f64::from(cores) * 3000.0 + 0.1, "{all}");
    }
}

proptest! {
    // Each is a sequence of sessions.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn reclaim_ends_while_the_demand_is_unchanged(
        jobs in prop::collection::vec(job(), 0..7),
        weights in prop::collection::vec(1_i32..4, 3),
        cores in 1_u32..9,
        conf in 0_usize..4,
    ) {
        // Preemption within a queue has a property of its own.
        let conf = CONFS[conf].replace(" preempt,", "");
        let conf = conf.replace("\"enqueue, allocate, backfill", "\"enqueue, allocate, reclaim, backfill");
        let mut jobs = jobs;
        let mut gone = Vec::new();
        for _ in 0..20 {
            let objects = objects(&jobs, &weights, cores);
            let (outcome, _) = run(&objects, &conf, Compat::EVICTD);
            gone.push(outcome.evicted.len());
            for own in &outcome.evicted {
                *node_of(&mut jobs, &own.pod) = None;
            }
            for (pod, node) in &outcome.binds {
                *node_of(&mut jobs, pod) = Some(node[1..].parse().unwrap());
            }
            for (job, phase) in &outcome.phases {
                let index: usize = job["default/j".len()..].parse().unwrap();
                jobs[index].inqueue |= phase != "Pending";
            }
        }
        let last: usize = gone.iter().rev().take(8).sum();
        prop_assert!(last == 0, "{gone:?}");
    }
}
