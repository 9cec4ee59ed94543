//! Validates a trace that was parsed.

use super::objects::HARD;
use super::wire::{Job, Nodes, Queue, Trace};
use evictd_batch_admission::dns_subdomain;
use evictd_hyper_nodes::{Order, Tree};
use evictd_pod::wire::ResourceList;
use hashbrown::HashSet;

/// The most nodes, and the most pods of all jobs together.
const MOST_NODES: u64 = 100_000;
const MOST_PODS: u64 = 10_000_000;

/// An error: its field, `jobs[3].queue`, and its description.
type Mistake = (String, String);

impl Trace {
    /// Every error: its field, `jobs[3].queue`, and its description. A trace without errors can be played.
    pub fn mistakes(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        if self.nodes.is_empty() {
            found.push(("nodes".to_owned(), "there are none".to_owned()));
        }
        let nodes = self.nodes.iter().map(|node| u64::from(node.count)).sum();
        too_many(&mut found, "nodes", nodes, MOST_NODES);
        let pods = self.jobs.iter().flat_map(|job| &job.tasks);
        let pods = pods.map(|task| u64::from(task.replicas)).sum();
        too_many(&mut found, "jobs", pods, MOST_PODS);
        let mut names = HashSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            of_nodes(&mut found, node, &format!("nodes[{index}]"), &mut names);
        }
        self.of_hyper_nodes(&mut found);
        let mut queues = HashSet::new();
        for (index, queue) in self.queues.iter().enumerate() {
            of_queue(&mut found, queue, &format!("queues[{index}]"));
            if !queues.insert(queue.name.as_str()) {
                twice(&mut found, &format!("queues[{index}].name"), &queue.name);
            }
        }
        // Without queues every job is in the one that sessions fall back to.
        if queues.is_empty() {
            queues.insert("default");
        }
        let mut seen = Seen::default();
        for (index, job) in self.jobs.iter().enumerate() {
            let place = format!("jobs[{index}]");
            of_job(&mut found, job, &place, &mut seen);
            self.of_topology(&mut found, job, &place);
            if !queues.contains(job.queue_name()) {
                let message = self.no_queue(job);
                let field = if job.queue.is_some() { ".queue" } else { "" };
                found.push((format!("{place}{field}"), message));
            }
        }
        found
    }

    fn of_hyper_nodes(&self, found: &mut Vec<Mistake>) {
        let mut names = HashSet::new();
        for (index, hyper_node) in self.hyper_nodes.iter().enumerate() {
            let place = format!("hyperNodes[{index}]");
            name(found, format!("{place}.name"), &hyper_node.name);
            if !names.insert(hyper_node.name.as_str()) {
                twice(found, &format!("{place}.name"), &hyper_node.name);
            }
            if hyper_node.tier < 0 {
                found.push((format!("{place}.tier"), "must be 0 or more".to_owned()));
            }
            if hyper_node.nodes.is_empty() && hyper_node.hyper_nodes.is_empty() {
                found.push((place.clone(), "it has no members".to_owned()));
            }
            for (at, node) in hyper_node.nodes.iter().enumerate() {
                if self.nodes_of(node).is_empty() {
                    let known = self.nodes.iter().map(|nodes| nodes.name.as_str());
                    let message = unknown("node", node, known);
                    found.push((format!("{place}.nodes[{at}]"), message));
                }
            }
            for (at, other) in hyper_node.hyper_nodes.iter().enumerate() {
                let mut all = self.hyper_nodes.iter().map(|known| known.name.as_str());
                if !all.clone().any(|known| known == other) {
                    let message = unknown("HyperNode", other, &mut all);
                    found.push((format!("{place}.hyperNodes[{at}]"), message));
                }
            }
        }
        // The rest is about the whole, and needs one that is right by itself.
        if found.is_empty() {
            let objects = self.hyper_node_objects();
            let objects: Vec<_> = objects.iter().collect();
            let tree = Tree::build(&objects, &[], Order::ByName);
            let mistakes = tree.mistakes().iter();
            found.extend(mistakes.map(|mistake| ("hyperNodes".to_owned(), mistake.to_string())));
        }
    }

    fn of_topology(&self, found: &mut Vec<Mistake>, job: &Job, place: &str) {
        let Some(topology) = &job.network_topology else {
            return;
        };
        let place = format!("{place}.networkTopology");
        if !["", HARD, "soft"].contains(&topology.mode.as_str()) {
            let message = format!("{} is not hard or soft", topology.mode);
            found.push((format!("{place}.mode"), message));
        }
        let tier_name = &topology.highest_tier_name;
        if topology.highest_tier_allowed.is_some() && !tier_name.is_empty() {
            let message = "only one of highestTierAllowed and highestTierName is possible";
            found.push((place.clone(), message.to_owned()));
        }
        let mut known = self
            .hyper_nodes
            .iter()
            .map(|known| known.tier_name.as_str());
        if !tier_name.is_empty() && !known.clone().any(|known| known == tier_name) {
            let message = unknown("tier", tier_name, &mut known);
            found.push((format!("{place}.highestTierName"), message));
        }
    }

    fn no_queue(&self, job: &Job) -> String {
        let name = job.queue_name();
        let known = self.queues.iter().map(|queue| queue.name.as_str());
        unknown(
            "queue",
            name,
            known.chain(self.queues.is_empty().then_some("default")),
        )
    }
}

fn unknown<'k>(kind: &str, name: &str, known: impl Iterator<Item = &'k str>) -> String {
    match evictd_spelling::nearest(name, known) {
        Some(nearest) => format!("there is no {kind} {name}; the nearest is {nearest}"),
        None => format!("there is no {kind} {name}"),
    }
}

fn too_many(found: &mut Vec<Mistake>, field: &str, count: u64, most: u64) {
    if count > most {
        let what = if field == "jobs" { "pods" } else { field };
        let message = format!("{count} {what} in all; at most {most} can be played");
        found.push((field.to_owned(), message));
    }
}

fn twice(found: &mut Vec<Mistake>, field: &str, name: &str) {
    found.push((field.to_owned(), format!("{name} is there already")));
}

fn name(found: &mut Vec<Mistake>, field: String, name: &str) {
    if let Some(wrong) = dns_subdomain(name).into_iter().next() {
        found.push((field, wrong));
    }
}

fn none(found: &mut Vec<Mistake>, field: String, count: u32) {
    if count == 0 {
        found.push((field, "must be 1 or more".to_owned()));
    }
}

fn amounts(found: &mut Vec<Mistake>, place: &str, list: &ResourceList) {
    let negative = list.iter().filter(|(_, amount)| amount.is_negative());
    found.extend(
        negative.map(|(name, amount)| (format!("{place}.{name}"), format!("{amount} is negative"))),
    );
}

fn of_nodes(found: &mut Vec<Mistake>, nodes: &Nodes, place: &str, names: &mut HashSet<String>) {
    name(found, format!("{place}.name"), &nodes.name);
    none(found, format!("{place}.count"), nodes.count);
    amounts(found, &format!("{place}.allocatable"), &nodes.allocatable);
    if nodes.leaves.is_some_and(|leaves| leaves <= nodes.joins) {
        let message = "must be after joins";
        found.push((format!("{place}.leaves"), message.to_owned()));
    }
    // The number is reported already, and so many names would take too much memory.
    if u64::from(nodes.count) > MOST_NODES {
        return;
    }
    for name in nodes.names() {
        if let Some(name) = names.replace(name) {
            return twice(found, &format!("{place}.name"), &name);
        }
    }
}

fn of_queue(found: &mut Vec<Mistake>, queue: &Queue, place: &str) {
    name(found, format!("{place}.name"), &queue.name);
    none(found, format!("{place}.weight"), queue.weight);
    if queue.weight > i32::MAX.unsigned_abs() {
        let most = i32::MAX;
        found.push((format!("{place}.weight"), format!("must be at most {most}")));
    }
    for (field, list) in [
        ("deserved", &queue.deserved),
        ("capability", &queue.capability),
        ("guarantee", &queue.guarantee),
    ] {
        amounts(found, &format!("{place}.{field}"), list);
    }
}

/// Names of which there may be only one.
#[derive(Default)]
struct Seen {
    jobs: HashSet<String>,
    pods: HashSet<String>,
}

fn of_job(found: &mut Vec<Mistake>, job: &Job, place: &str, seen: &mut Seen) {
    name(found, format!("{place}.name"), &job.name);
    if let Some(owner) = &job.owner {
        name(found, format!("{place}.owner"), owner);
    }
    if !seen.jobs.insert(job.key()) {
        twice(found, &format!("{place}.name"), &job.key());
    }
    if job.deleted.is_some_and(|deleted| deleted < job.arrival) {
        let message = "is before its arrival";
        found.push((format!("{place}.deleted"), message.to_owned()));
    }
    if job.tasks.is_empty() {
        found.push((format!("{place}.tasks"), "there are none".to_owned()));
    }
    for (index, task) in job.tasks.iter().enumerate() {
        let place = format!("{place}.tasks[{index}]");
        name(found, format!("{place}.name"), &task.name);
        // The task `b-c` of a job `a` and the task `c` of `a-b` would have pods of the same names, too.
        if !seen.pods.insert(job.pods_key(task)) {
            twice(found, &format!("{place}.name"), &job.pods_key(task));
        }
        none(found, format!("{place}.replicas"), task.replicas);
        amounts(found, &format!("{place}.requests"), &task.requests);
        if task.least() > task.replicas {
            let message = format!("is more than the {} replicas", task.replicas);
            found.push((format!("{place}.minAvailable"), message));
        }
    }
}
