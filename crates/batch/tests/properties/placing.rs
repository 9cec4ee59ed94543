//! Jobs that are let in once they could be placed: nobody is kept out that would have got its room.

use evictd_batch::session::{Objects, Setting, simulate};
use evictd_batch_objects::{Compat, Difference, PodGroupPhase, PodGroupStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

const CONF: &str = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: predicates\n  - name: nodeorder\n";

/// A gang of some tasks, each with so many pods of so many cores, and those of its pods that have a node.
#[derive(Debug, Clone)]
struct Gang {
    tasks: Vec<(u8, u8)>,
    made: bool,
    spare: i32,
    status: PodGroupStatus,
    nodes: Vec<Option<usize>>,
}

fn gang() -> impl Strategy<Value = Gang> {
    let tasks = prop::collection::vec((1_u8..4, 1_u8..4), 1..3);
    (tasks, any::<bool>(), 0_i32..2).prop_map(|(tasks, made, spare)| {
        let pods = tasks.iter().map(|(pods, _)| usize::from(*pods)).sum();
        Gang {
            tasks,
            made,
            spare,
            status: PodGroupStatus {
                phase: PodGroupPhase::Pending,
                ..PodGroupStatus::default()
            },
            nodes: vec![None; pods],
        }
    })
}

impl Gang {
    /// The task and the cores of each pod.
    fn pods(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let tasks = self.tasks.iter().enumerate();
        tasks.flat_map(|(task, (pods, cpu))| (0..*pods).map(move |_| (task, *cpu)))
    }

    fn group(&self, name: &str) -> Value {
        let tasks = self.tasks.iter().enumerate();
        let members = tasks.map(|(task, (pods, _))| (format!("t{task}"), json!(pods)));
        let members: serde_json::Map<String, Value> = members.collect();
        let cpu: u32 = self.pods().map(|(_, cpu)| u32::from(cpu)).sum();
        let mut spec =
            json!({"minMember": self.nodes.len(), "queue": "q", "minResources": {"cpu": cpu}});
        if self.spare == 0 {
            spec["minTaskMember"] = Value::Object(members);
        } else {
            // Any of its pods will do.
            spec["minMember"] = json!(self.nodes.len().saturating_sub(1));
            spec["minResources"] = Value::Null;
        }
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": self.status})
    }

    /// Pods are made once it was let in, if they are not there from the beginning.
    fn shown(&self, name: &str) -> Vec<Value> {
        if !self.made && self.spare == 0 && self.status.phase == PodGroupPhase::Pending {
            return Vec::new();
        }
        let pods = self.pods().zip(&self.nodes).enumerate();
        let pods = pods.map(|(index, ((task, cpu), node))| {
            let pod = format!("{name}-t{task}-{index}");
            let node = node.map(|node| format!("n{node}"));
            json!({
                "metadata": {"name": pod, "namespace": "default", "uid": pod, "annotations": {
                    "scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": format!("t{task}")}},
                "spec": {"schedulerName": "volcano", "nodeName": node.clone().unwrap_or_default(), "containers": [
                    {"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]},
                "status": {"phase": if node.is_some() { "Running" } else { "Pending" }},
            })
        });
        pods.collect()
    }
}

fn objects(gangs: &[(String, Gang)], cores: &[u8]) -> Objects {
    let node = |(index, cores): (usize, &u8)| {
        json!({"metadata": {"name": format!("n{index}")},
            "status": {"allocatable": {"cpu": cores.to_string(), "memory": "64Gi", "pods": "20"}}})
    };
    serde_json::from_value(json!({
        "conf": CONF,
        "nodes": cores.iter().enumerate().map(node).collect::<Vec<_>>(),
        "queues": [{"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
        "podGroups": gangs.iter().map(|(name, gang)| gang.group(name)).collect::<Vec<_>>(),
        "pods": gangs.iter().flat_map(|(name, gang)| gang.shown(name)).collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// Runs a session and carries it out.
fn step(gangs: &mut [(String, Gang)], cores: &[u8], compat: Compat) {
    let objects = objects(gangs, cores);
    let (outcome, _) = simulate(&objects, &Setting::default(), compat).unwrap();
    for (name, gang) in gangs {
        let status = &outcome.pod_groups[&format!("default/{name}")].status;
        gang.status.clone_from(status);
        let prefix = format!("default/{name}-t");
        for (pod, node) in &outcome.binds {
            if let Some(rest) = pod.strip_prefix(&prefix) {
                let index: usize = rest.split_once('-').unwrap().1.parse().unwrap();
                gang.nodes[index] = Some(node[1..].parse().unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_job_that_could_be_placed_is_enqueued(
        gangs in prop::collection::vec(gang(), 1..7),
        cores in prop::collection::vec(1_u8..8, 1..4),
    ) {
        let named = gangs.into_iter().enumerate();
        let mut gangs: Vec<_> = named.map(|(index, gang)| (format!("j{index}"), gang)).collect();
        for _ in 0..gangs.len() + 3 {
            step(&mut gangs, &cores, Compat::EVICTD);
        }
        let waiting = |(_, gang): &(String, Gang)| gang.status.phase == PodGroupPhase::Pending;
        for at in 0..gangs.len() {
            if !waiting(&gangs[at]) {
                continue;
            }
            // Only it is let in, whether it fits or not.
            let mut others = gangs.clone();
            others[at].1.status.phase = PodGroupPhase::Inqueue;
            let compat = Compat::EVICTD.without(Difference::EnqueueWhatFits);
            let (name, _) = others[at].clone();
            others.retain(|own| !waiting(own));
            step(&mut others, &cores, compat);
            let (_, tried) = others.into_iter().find(|(own, _)| *own == name).unwrap();
            prop_assert!(tried.nodes.iter().all(Option::is_none), "{name} of {gangs:#?} on {cores:?}");
        }
    }
}
