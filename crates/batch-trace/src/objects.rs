//! The objects of a trace, as a cluster would have them.

use super::wire::{Job, Nodes, Queue, Task, Trace};
use evictd_batch_objects::{
    self, GROUP_NAME, PodGroup, PodGroupSpec, QueueState, TASK_SPEC, times,
};
use evictd_hyper_nodes::{ExactMatch, HyperNode, Member, MemberKind, MemberSelector};
use evictd_pod::resources::PODS;
use evictd_pod::wire::{
    Container, Metadata, Pod, PodPhase, PriorityClass, ResourceList, TextMap, Time,
};
use evictd_pod::{Node, Quantity};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The beginning of every trace: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600_000;
/// Room for pods on a node that does not say, as with the kubelet.
const PODS_OF_NODE: i64 = 110;

/// The default mode of a network topology.
pub(super) const HARD: &str = "hard";

/// A point in time of a trace.
pub(super) fn timestamp(millis: u64) -> Option<Timestamp> {
    let millis = i64::try_from(millis).ok()?;
    Timestamp::from_millisecond(BEGINNING.checked_add(millis)?).ok()
}

/// The milliseconds from a trace's beginning to a point in time.
pub(super) fn millis(time: Timestamp) -> Option<u64> {
    let millis = time.as_millisecond().checked_sub(BEGINNING)?;
    u64::try_from(millis).ok()
}

impl Nodes {
    /// The names of its nodes.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let names = |index| match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{index}", self.name),
        };
        (0..self.count).map(names)
    }

    /// The objects of its nodes.
    pub(super) fn objects(&self) -> impl Iterator<Item = Node> {
        let mut allocatable = self.allocatable.clone();
        if !allocatable.contains_key(PODS) {
            allocatable.insert(PODS, Quantity::count(PODS_OF_NODE));
        }
        self.names().map(move |name| {
            let mut node = Node::default();
            let hostname = ("kubernetes.io/hostname".to_owned(), name.clone());
            let labels = self.labels.clone().into_iter();
            node.metadata.labels = labels.chain([hostname]).collect();
            node.metadata.name = name;
            node.status.allocatable = allocatable.clone();
            node
        })
    }
}

impl Trace {
    /// Its HyperNodes.
    pub(super) fn hyper_node_objects(&self) -> Vec<HyperNode> {
        let hyper_nodes = self.hyper_nodes.iter().map(|traced| {
            let nodes = traced.nodes.iter().flat_map(|name| self.nodes_of(name));
            let nodes = nodes.map(|name| member(MemberKind::Node, name));
            let groups = traced.hyper_nodes.iter();
            let groups = groups.map(|name| member(MemberKind::HyperNode, name.clone()));
            let mut object = HyperNode::default();
            object.metadata.name.clone_from(&traced.name);
            object.spec.tier = traced.tier;
            object.spec.tier_name.clone_from(&traced.tier_name);
            object.spec.members = nodes.chain(groups).collect();
            object
        });
        hyper_nodes.collect()
    }

    /// The nodes of this name, which one node or several that are alike have.
    pub(super) fn nodes_of(&self, name: &str) -> Vec<String> {
        let alike = self.nodes.iter().find(|nodes| nodes.name == name);
        if let Some(nodes) = alike {
            return nodes.names().collect();
        }
        let mut all = self.nodes.iter().flat_map(Nodes::names);
        all.find(|node| node == name).into_iter().collect()
    }

    /// Its queues; without any a single one.
    pub(super) fn queue_list(&self) -> Vec<Queue> {
        if self.queues.is_empty() {
            return vec![Queue {
                name: "default".to_owned(),
                weight: 1,
                ..Queue::default()
            }];
        }
        self.queues.clone()
    }

    /// A class for each priority.
    pub(super) fn classes(&self) -> impl Iterator<Item = PriorityClass> {
        let values: std::collections::BTreeSet<i32> =
            self.jobs.iter().map(|job| job.priority).collect();
        values.into_iter().map(|value| {
            let mut class = PriorityClass::default();
            class.metadata.name = class_name(value);
            class.value = value;
            class
        })
    }
}

fn member(kind: MemberKind, name: String) -> Member {
    let selector = MemberSelector {
        exact_match: Some(ExactMatch { name }),
        ..MemberSelector::default()
    };
    Member { selector, kind }
}

fn class_name(priority: i32) -> String {
    format!("priority-{priority}")
}

/// A queue that is open.
pub(super) fn queue(traced: &Queue) -> evictd_batch_objects::Queue {
    let mut queue = evictd_batch_objects::Queue::default();
    queue.metadata.name.clone_from(&traced.name);
    queue.metadata.creation_timestamp = timestamp(0).map(Time::from);
    queue.spec.weight = i32::try_from(traced.weight).unwrap_or(i32::MAX);
    queue.spec.priority = traced.priority;
    queue.spec.parent.clone_from(&traced.parent);
    queue.spec.deserved = traced.deserved.clone();
    queue.spec.capability = traced.capability.clone();
    queue.spec.guarantee.resource = traced.guarantee.clone();
    queue.spec.reclaimable = traced.reclaimable;
    queue.spec.affinity.clone_from(&traced.affinity);
    queue.status.state = QueueState::Open.into();
    queue
}

impl Job {
    /// The shared parts of a task's pods: `namespace/job-task`.
    pub(super) fn pods_key(&self, task: &Task) -> String {
        format!("{}/{}-{}", self.namespace(), self.name, task.name)
    }

    /// Its pod group, as the controllers make it.
    pub(super) fn group(&self, now: u64) -> PodGroup {
        let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let members = self.tasks.iter();
        let members: BTreeMap<String, i32> = members
            .map(|task| (task.name.clone(), count(task.least())))
            .collect();
        let mut metadata = self.metadata(self.name.clone(), now);
        metadata.annotations = self.annotations.clone().into_iter().collect();
        PodGroup {
            metadata,
            spec: PodGroupSpec {
                min_member: count(self.least()),
                min_task_member: members,
                queue: self.queue_name().to_owned(),
                priority_class_name: class_name(self.priority),
                min_resources: Some(self.least_resources()),
                network_topology: self.network_topology.clone().map(|mut topology| {
                    // As the definition of pod groups has it.
                    if topology.mode.is_empty() {
                        HARD.clone_into(&mut topology.mode);
                    }
                    topology
                }),
                ..PodGroupSpec::default()
            },
            ..PodGroup::default()
        }
    }

    fn metadata(&self, name: String, now: u64) -> Metadata {
        Metadata {
            name,
            namespace: self.namespace().to_owned().into(),
            creation_timestamp: timestamp(now).map(Time::from),
            ..Metadata::default()
        }
    }

    /// The request of the pods that start together.
    fn least_resources(&self) -> ResourceList {
        let mut sum = ResourceList::default();
        for task in &self.tasks {
            for (name, amount) in task.requests.iter() {
                let more = times(*amount, i64::from(task.least()));
                let known = sum.get(name).copied().unwrap_or_default();
                sum.insert(name, known + more);
            }
        }
        sum
    }

    /// A pod that waits; `number` is different for each that was ever made.
    pub(super) fn pod(&self, task: &Task, index: u32, now: u64, number: u64) -> Pod {
        let name = format!("{}-{}-{index}", self.name, task.name);
        let mut metadata = self.metadata(name, now);
        metadata.uid = format!("pod-{number}").into();
        let annotations = [(GROUP_NAME, &self.name), (TASK_SPEC, &task.name)];
        let annotations = annotations.map(|(key, text)| (key.to_owned(), text.clone()));
        let all = self.annotations.clone().into_iter().chain(annotations);
        metadata.annotations = all.collect::<TextMap>();
        let mut container = Container {
            name: task.name.clone(),
            ..Container::default()
        };
        container.resources.requests = task.requests.clone();
        let mut pod = Pod {
            metadata,
            ..Pod::default()
        };
        "volcano".clone_into(&mut pod.spec.scheduler_name);
        pod.spec.priority = Some(self.priority);
        pod.spec.priority_class_name = class_name(self.priority);
        pod.spec.containers.push(container);
        pod.spec.node_selector = task.node_selector.clone().into_iter().collect();
        pod.status.phase = PodPhase::Pending;
        pod
    }
}
