//! One change that could start a job, how it is made, and what it is called.

use super::subject::Subject;
use super::world::World;
use evictd_pod::{Node, Quantity};
use evictd_scheduling::Remedy;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Something that would have to be different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Change {
    /// Jobs end, and their pods with them.
    JobsEnd {
        /// `namespace/name`; the owners of pods that belong to none.
        jobs: Vec<String>,
        /// Their pod groups.
        #[serde(skip)]
        groups: Vec<String>,
        /// Their pods that hold room.
        pods: Vec<String>,
    },
    /// Pods end.
    PodsEnd {
        /// `namespace/name`.
        pods: Vec<String>,
    },
    /// A queue is opened.
    OpenQueue {
        /// Its name.
        queue: String,
    },
    /// A queue is made.
    MakeQueue {
        /// Its name.
        queue: String,
    },
    /// A queue may have more.
    Capability {
        /// Its name.
        queue: String,
        /// The resource.
        resource: String,
        /// The capability now.
        from: Quantity,
        /// The capability that is enough.
        to: Quantity,
    },
    /// A queue deserves a larger part.
    Weight {
        /// Its name.
        queue: String,
        /// The weight now.
        from: i32,
        /// The weight that is enough.
        to: i32,
    },
    /// A node is changed, or its pods are told to tolerate it.
    Node {
        /// Its name.
        node: String,
        /// What changes, for people.
        change: String,
        /// The same.
        #[serde(skip)]
        remedy: Remedy,
    },
    /// Nodes are added.
    MoreNodes {
        /// The node that they are like.
        like: String,
        /// How many.
        count: usize,
    },
    /// The job needs fewer pods to start.
    MinMember {
        /// How many it needs now.
        from: i32,
        /// How few do.
        to: i32,
    },
    /// The job is of a class with a higher priority.
    Priority {
        /// Its priority now.
        from: i32,
        /// The priority that is enough.
        to: i32,
    },
    /// The pods' scheduling gates are removed.
    RemoveGates {
        /// Their names.
        gates: Vec<String>,
    },
}

impl Change {
    /// A change of a node or of the job's pods.
    pub(super) fn of(node: &str, remedy: Remedy) -> Self {
        Self::Node {
            node: node.to_owned(),
            change: remedy.to_string(),
            remedy,
        }
    }

    /// Makes the change.
    pub(super) fn apply(&self, world: &mut World<'_>, subject: &Subject) {
        match self {
            Self::JobsEnd { groups, pods, .. } => {
                for pod in pods {
                    world.set_pod(pod, None);
                }
                for group in groups {
                    world.set_group(group, None);
                }
            }
            Self::PodsEnd { pods } => {
                for pod in pods {
                    world.change_pod(pod, |pod| {
                        "Succeeded".clone_into(&mut pod.status.phase);
                    });
                }
            }
            Self::OpenQueue { queue } => world.change_queue(queue, |queue| {
                "Open".clone_into(&mut queue.status.state);
            }),
            Self::MakeQueue { queue } => make_queue(world, queue),
            Self::Capability {
                queue,
                resource,
                to,
                ..
            } => world.change_queue(queue, |queue| {
                queue.spec.capability.insert(resource.as_str(), *to);
            }),
            Self::Weight { queue, to, .. } => {
                world.change_queue(queue, |queue| queue.spec.weight = *to);
            }
            Self::Node { node, remedy, .. } => change_node(world, subject, node, remedy),
            Self::MoreNodes { like, count } => more_nodes(world, like, *count),
            Self::MinMember { to, .. } => smaller_gang(world, subject, *to),
            Self::Priority { to, .. } => raise(world, subject, *to),
            Self::RemoveGates { .. } => {
                for pod in own_pods(world, subject) {
                    world.change_pod(&pod, |pod| pod.spec.scheduling_gates.clear());
                }
            }
        }
    }
}

fn own_pods(world: &World<'_>, subject: &Subject) -> Vec<String> {
    subject.pods(world).map(|(key, _)| key.clone()).collect()
}

fn make_queue(world: &mut World<'_>, name: &str) {
    let mut queue = crate::wire::Queue::default();
    name.clone_into(&mut queue.metadata.name);
    queue.spec.weight = 1;
    "Open".clone_into(&mut queue.status.state);
    world.set_queue(name, Some(Arc::new(queue)));
}

/// A remedy changes a node, the pods of the job that wait, or both.
fn change_node(world: &mut World<'_>, subject: &Subject, name: &str, remedy: &Remedy) {
    let Some(mut node) = world.nodes.get(name).cloned() else {
        return;
    };
    for key in own_pods(world, subject) {
        let mut scratch = (*node).clone();
        let waits = |pod: &evictd_pod::wire::Pod| pod.spec.node_name.is_empty();
        if world.pods.get(&key).is_some_and(|pod| waits(pod)) {
            world.change_pod(&key, |pod| remedy.apply(&mut scratch, pod));
        }
    }
    remedy.apply(
        Arc::make_mut(&mut node),
        &mut evictd_pod::wire::Pod::default(),
    );
    world.set_node(name, Some(node));
}

/// What its tasks need alone is lowered, too.
fn smaller_gang(world: &mut World<'_>, subject: &Subject, to: i32) {
    world.change_group(&subject.group, |group| {
        group.spec.min_member = to;
        group.spec.min_task_member.clear();
    });
}

/// The job, and its pods that wait, are of a class of their own.
fn raise(world: &mut World<'_>, subject: &Subject, to: i32) {
    // No class can have this name.
    let class = "(the job asked about)";
    world.add_class(class, to);
    world.change_group(&subject.group, |group| {
        class.clone_into(&mut group.spec.priority_class_name);
    });
    for pod in own_pods(world, subject) {
        world.change_pod(&pod, |pod| pod.spec.priority = Some(to));
    }
}

fn more_nodes(world: &mut World<'_>, like: &str, count: usize) {
    let Some(model) = world.nodes.get(like).cloned() else {
        return;
    };
    for index in 1..=count {
        let mut node: Node = (*model).clone();
        let name = format!("{like}-more-{index}");
        let hostname = "kubernetes.io/hostname";
        if node.metadata.labels.contains_key(hostname) {
            node.metadata.labels.insert(hostname, &name);
        }
        node.metadata.name.clone_from(&name);
        world.set_node(&name, Some(Arc::new(node)));
    }
}

/// A few names, and how many more there are.
pub(super) fn named(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `1 pod`, `2 pods`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobsEnd { jobs, pods, .. } => {
                let ends = if jobs.len() == 1 { "ends" } else { "end" };
                let pods = counted(pods.len(), "pod");
                write!(f, "{} {ends} ({pods})", named(jobs))
            }
            Self::PodsEnd { pods } if pods.len() == 1 => write!(f, "pod {} ends", named(pods)),
            Self::PodsEnd { pods } => write!(f, "{} pods end: {}", pods.len(), named(pods)),
            Self::OpenQueue { queue } => write!(
                f,
                "queue {queue} is opened: evictd-batch queue operate -n {queue} -a open"
            ),
            Self::MakeQueue { queue } => write!(
                f,
                "queue {queue} is made: evictd-batch queue create -n {queue} -w 1"
            ),
            Self::Capability {
                queue,
                resource,
                from,
                to,
            } => write!(
                f,
                "queue {queue}'s capability is raised to {resource} {to} (from {from})"
            ),
            Self::Weight { queue, from, to } => {
                write!(f, "queue {queue}'s weight is raised to {to} (from {from})")
            }
            Self::Node { node, remedy, .. } => match remedy {
                Remedy::Uncordon => write!(f, "node {node} is uncordoned"),
                Remedy::Label { key, value } => {
                    write!(f, "node {node} gets the label {key}={value}")
                }
                Remedy::NoLabel(key) => write!(f, "node {node} loses the label {key}"),
                Remedy::Toleration(_) => write!(f, "its pods have {remedy} (node {node})"),
                Remedy::NoSelector(_) | Remedy::NoNodeAffinity => {
                    write!(f, "there is {remedy} (node {node})")
                }
                Remedy::More { .. } => write!(f, "node {node} has {remedy}"),
                Remedy::Away(pods) => write!(f, "{} leave node {node}", named(pods)),
            },
            Self::MoreNodes { like, count } => {
                write!(f, "{} like {like} added", counted(*count, "more node"))
            }
            Self::MinMember { from, to } => {
                write!(
                    f,
                    "its minAvailable is lowered to {to} (from {from}), and those of its tasks"
                )
            }
            Self::Priority { from, to } => {
                write!(f, "its priority is {to} (in place of {from})")
            }
            Self::RemoveGates { gates } => {
                write!(
                    f,
                    "the pods' scheduling gates are removed: {}",
                    named(gates)
                )
            }
        }
    }
}
