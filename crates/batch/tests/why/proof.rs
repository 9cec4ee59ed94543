//! Makes what was proposed, in objects of its own, and plays sessions until the job starts.

use evictd_batch::session::{Objects, Outcome, Setting, simulate};
use evictd_batch::why::{Answer, Change, State};
use evictd_batch_objects::{Compat, PodGroup, Queue, QueueState};
use evictd_pod::Node;
use evictd_pod::wire::{Pod, PodPhase};
use evictd_what_if::Suggestion;

/// The job in question, and the rules of the sessions.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Its pod group.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) compat: Compat,
}

pub(crate) const TRAIN: Asked<'_> = Asked {
    namespace: "default",
    name: "train",
    compat: Compat::EVICTD,
};

/// Each proposal starts the job; and where there is none to make, nothing has to be changed.
pub(crate) fn check(objects: &Objects, answer: &Answer) {
    check_of(objects, answer, TRAIN);
}

pub(crate) fn check_of(objects: &Objects, answer: &Answer, asked: Asked<'_>) {
    assert_eq!(
        starts(objects, asked),
        answer.state == State::Starts,
        "{answer:?}"
    );
    for proposal in &answer.soonest {
        let changes: Vec<&Change> = proposal.changes.iter().collect();
        assert!(starts_with(objects, &changes, asked), "{}", proposal.words);
    }
}

/// Whether changes start the job. The order of names decides between equal nodes, so new ones get names at the beginning,
/// beside their model and at the end.
pub(crate) fn starts_with(objects: &Objects, changes: &[&Change], asked: Asked<'_>) -> bool {
    let names: [fn(&str) -> String; 3] = [
        |_| "!new".to_owned(),
        |like| format!("{like}-new"),
        |_| "~new".to_owned(),
    ];
    names.into_iter().all(|new_node| {
        let mut cluster = objects.clone();
        for change in changes {
            apply(change, &mut cluster, new_node, asked);
        }
        starts(&cluster, asked)
    })
}

fn key(pod: &Pod) -> String {
    format!(
        "{}/{}",
        pod.metadata.namespace_or_default(),
        pod.metadata.name
    )
}

impl Asked<'_> {
    /// Whether a pod belongs to it.
    pub(crate) fn has(self, pod: &Pod) -> bool {
        let group = pod.metadata.annotations.get("scheduling.k8s.io/group-name");
        pod.metadata.namespace_or_default() == self.namespace
            && group.is_some_and(|group| group == self.name)
    }

    fn is(self, group: &PodGroup) -> bool {
        group.metadata.namespace_or_default() == self.namespace && group.metadata.name == self.name
    }
}

/// Makes a change. The function names new nodes by their model.
fn apply(change: &Change, objects: &mut Objects, new_node: fn(&str) -> String, asked: Asked<'_>) {
    let Objects {
        nodes,
        pods,
        pod_groups,
        queues,
        priority_classes,
        ..
    } = objects;
    let mut queue = |name: &str| queues.iter_mut().position(|own| own.metadata.name == name);
    match change {
        Change::JobsEnd {
            jobs, pods: gone, ..
        } => {
            pods.retain(|pod| !gone.contains(&key(pod)));
            pod_groups.retain(|group| !jobs.contains(&group.metadata.full_name()));
        }
        Change::PodsEnd { pods: ended } => {
            for pod in pods.iter_mut().filter(|pod| ended.contains(&key(pod))) {
                pod.status.phase = PodPhase::Succeeded;
            }
        }
        Change::OpenQueue {
            queue: opened_last,
            parents,
        } => {
            let opened = |queue: &&mut Queue| {
                let name = &queue.metadata.name;
                name == opened_last || parents.contains(name)
            };
            for queue in queues.iter_mut().filter(opened) {
                queue.status.state = QueueState::Open.into();
            }
        }
        Change::MakeQueue { queue } => {
            let made = serde_json::json!({"metadata": {"name": queue}, "spec": {"weight": 1}, "status": {"state": "Open"}});
            queues.push(serde_json::from_value(made).unwrap());
        }
        Change::Capability {
            queue: name,
            resource,
            to,
            ..
        } => {
            let at = queue(name).unwrap();
            queues[at].spec.capability.insert(resource.as_str(), *to);
        }
        Change::Weight {
            queue: name, to, ..
        } => {
            let at = queue(name).unwrap();
            queues[at].spec.weight = *to;
        }
        Change::Node {
            node, suggestion, ..
        } => {
            let node = nodes
                .iter_mut()
                .find(|own| own.metadata.name == *node)
                .unwrap();
            if let Suggestion::RemovePods(_) = suggestion {
                panic!("nobody is sent away");
            }
            for pod in pods.iter_mut().filter(|pod| asked.has(pod)) {
                suggestion.apply(&mut node.clone(), pod);
            }
            suggestion.apply(node, &mut Pod::default());
        }
        Change::MoreNodes { like, count } => add_nodes(nodes, like, *count, new_node),
        Change::RemoveGates { .. } => {
            for pod in pods.iter_mut().filter(|pod| asked.has(pod)) {
                pod.spec.scheduling_gates.clear();
            }
        }
        Change::MinMember { to, .. } => {
            let mut groups = pod_groups.iter_mut();
            let group = groups.find(|group| asked.is(group)).unwrap();
            group.spec.min_member = *to;
            group.spec.min_task_member.clear();
        }
        Change::Priority { to, .. } => {
            let class = serde_json::json!({"metadata": {"name": "first"}, "value": to});
            priority_classes.push(serde_json::from_value(class).unwrap());
            let mut groups = pod_groups.iter_mut();
            let group = groups.find(|group| asked.is(group)).unwrap();
            "first".clone_into(&mut group.spec.priority_class_name);
            for pod in pods.iter_mut().filter(|pod| asked.has(pod)) {
                pod.spec.priority = Some(*to);
            }
        }
    }
}

/// Adds nodes like this one, each with a name of its own.
fn add_nodes(nodes: &mut Vec<Node>, like: &str, count: usize, new_node: fn(&str) -> String) {
    let mut models = nodes.iter();
    let like = models.find(|node| node.metadata.name == like).unwrap();
    let like = like.clone();
    for index in 0..count {
        let mut node = like.clone();
        node.metadata.name = format!("{}-{index}", new_node(&like.metadata.name));
        let (hostname, name) = ("kubernetes.io/hostname", node.metadata.name.clone());
        if node.metadata.labels.contains_key(hostname) {
            node.metadata.labels.insert(hostname, name);
        }
        nodes.push(node);
    }
}

/// Whether sessions start the job, if the decisions of each are carried out.
pub(crate) fn starts(objects: &Objects, asked: Asked<'_>) -> bool {
    let mut objects = objects.clone();
    for _ in 0..4 {
        let (outcome, _) = simulate(&objects, &Setting::default(), asked.compat).unwrap();
        if is_started(&objects, &outcome, asked) {
            return true;
        }
        carry_out(&mut objects, &outcome);
    }
    false
}

fn is_started(objects: &Objects, outcome: &Outcome, asked: Asked<'_>) -> bool {
    let mut groups = objects.pod_groups.iter();
    let Some(group) = groups.find(|group| asked.is(group)) else {
        return false;
    };
    let Some(report) = outcome.pod_groups.get(&group.metadata.full_name()) else {
        return false;
    };
    let count = |status: &str| report.tasks.get(status).copied().unwrap_or(0);
    let there: i32 = ["Binding", "Bound", "Running", "Succeeded"]
        .map(count)
        .iter()
        .sum();
    count("Binding") > 0 && there >= group.spec.min_member
}

fn carry_out(objects: &mut Objects, outcome: &Outcome) {
    objects
        .pods
        .retain(|pod| pod.metadata.deletion_timestamp.is_none());
    for pod in &mut objects.pods {
        let key = key(pod);
        if let Some(node) = outcome.binds.get(&key) {
            pod.spec.node_name.clone_from(node);
            pod.status.phase = PodPhase::Running;
            pod.status.nominated_node_name.clear();
        }
        let condition = outcome.pod_conditions.get(&key);
        if let Some(node) = condition.and_then(|own| own.nominated_node_name.as_ref()) {
            pod.status.nominated_node_name.clone_from(node);
        }
        if outcome.evicted.iter().any(|own| own.pod == key) {
            pod.spec.node_name.clear();
            pod.status.phase = PodPhase::Pending;
            pod.metadata.uid = format!("{}+", pod.metadata.uid).into();
        }
    }
    for group in &mut objects.pod_groups {
        let key = format!(
            "{}/{}",
            group.metadata.namespace_or_default(),
            group.metadata.name
        );
        if let Some(own) = outcome.pod_groups.get(&key).filter(|own| own.written) {
            group.status = own.status.clone();
        }
    }
}
