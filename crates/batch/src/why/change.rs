//! One change that could start a job, its application, and its description.

use super::subject::Subject;
use super::what_if::WhatIf;
use evictd_batch_objects::{PodGroup, Queue, QueueState};
use evictd_pod::resources::{self, units};
use evictd_pod::wire::{Pod, PodPhase};
use evictd_pod::{Node, Quantity};
use evictd_what_if::Suggestion;
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
        /// The closed queues above it, which are opened first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        parents: Vec<String>,
    },
    /// A queue is created.
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
    /// A change of a node, or a toleration for its pods.
    Node {
        /// Its name.
        node: String,
        /// The description.
        change: String,
        /// The same.
        #[serde(skip)]
        suggestion: Suggestion,
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

/// Where the names of new nodes come in the order of all names. Among equal nodes a session takes the first name, so a
/// proposal of more nodes is one only if their names do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeNames {
    First,
    BesideModel,
    Last,
}

impl NodeNames {
    pub(super) const ALL: [Self; 3] = [Self::First, Self::BesideModel, Self::Last];

    fn name(self, like: &str, index: usize) -> String {
        match self {
            // No node can have these characters in its name.
            Self::First => format!("!{index}"),
            Self::BesideModel => format!("{like}-more-{index}"),
            Self::Last => format!("~{index}"),
        }
    }
}

impl Change {
    /// A change of a node or of the job's pods.
    pub(super) fn of(node: &str, suggestion: Suggestion) -> Self {
        Self::Node {
            node: node.to_owned(),
            change: suggestion.to_string(),
            suggestion,
        }
    }

    /// The same change of another size: how much a limit is raised or lowered, or how many nodes are added.
    pub(super) fn of_size(&self, size: i64) -> Self {
        let mut change = self.clone();
        match &mut change {
            Self::Capability {
                resource, from, to, ..
            } => {
                let raised = units(resource, *from).saturating_add(size);
                *to = resources::quantity(resource, raised);
            }
            Self::Weight { from, to, .. } => {
                *to = i32::try_from(i64::from(*from) + size).unwrap_or(i32::MAX);
            }
            Self::MinMember { from, to } => {
                *to = i32::try_from(i64::from(*from) - size).unwrap_or(*from);
            }
            Self::MoreNodes { count, .. } => *count = usize::try_from(size).unwrap_or(0),
            _ => {}
        }
        change
    }

    /// Writes neighbours that end jobs, or pods, as one change.
    pub(super) fn joined(changes: Vec<Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for change in changes {
            match (joined.last_mut(), change) {
                (
                    Some(Self::JobsEnd { jobs, groups, pods }),
                    Self::JobsEnd {
                        jobs: more_jobs,
                        groups: more_groups,
                        pods: more_pods,
                    },
                ) => {
                    jobs.extend(more_jobs);
                    groups.extend(more_groups);
                    pods.extend(more_pods);
                }
                (Some(Self::PodsEnd { pods }), Self::PodsEnd { pods: more }) => pods.extend(more),
                (_, change) => joined.push(change),
            }
        }
        joined
    }

    /// Makes the change. New nodes get names of this kind.
    pub(super) fn apply(&self, what_if: &mut WhatIf<'_>, subject: &Subject, names: NodeNames) {
        match self {
            Self::JobsEnd { groups, pods, .. } => {
                for pod in pods {
                    what_if.set::<Pod>(pod, None);
                }
                for group in groups {
                    what_if.set::<PodGroup>(group, None);
                }
            }
            Self::PodsEnd { pods } => {
                for pod in pods {
                    what_if.change(pod, |pod: &mut Pod| {
                        pod.status.phase = PodPhase::Succeeded;
                    });
                }
            }
            Self::OpenQueue { queue, parents } => {
                for queue in parents.iter().chain([queue]) {
                    what_if.change(queue, |queue: &mut Queue| {
                        queue.status.state = QueueState::Open.into();
                    });
                }
            }
            Self::MakeQueue { queue } => make_queue(what_if, queue),
            Self::Capability {
                queue,
                resource,
                to,
                ..
            } => what_if.change(queue, |queue: &mut Queue| {
                queue.spec.capability.insert(resource.as_str(), *to);
            }),
            Self::Weight { queue, to, .. } => {
                what_if.change(queue, |queue: &mut Queue| queue.spec.weight = *to);
            }
            Self::Node {
                node, suggestion, ..
            } => change_node(what_if, subject, node, suggestion),
            Self::MoreNodes { like, count } => more_nodes(what_if, like, *count, names),
            Self::MinMember { to, .. } => smaller_gang(what_if, subject, *to),
            Self::Priority { to, .. } => raise(what_if, subject, *to),
            Self::RemoveGates { .. } => {
                for pod in own_pods(what_if, subject) {
                    what_if.change(&pod, |pod: &mut Pod| pod.spec.scheduling_gates.clear());
                }
            }
        }
    }
}

fn own_pods(what_if: &WhatIf<'_>, subject: &Subject) -> Vec<String> {
    subject.pods(what_if).map(|(key, _)| key.clone()).collect()
}

fn make_queue(what_if: &mut WhatIf<'_>, name: &str) {
    let mut queue = Queue::default();
    name.clone_into(&mut queue.metadata.name);
    queue.spec.weight = 1;
    queue.status.state = QueueState::Open.into();
    what_if.set(name, Some(Arc::new(queue)));
}

/// A suggestion changes a node, the pods of the job that wait, or both.
fn change_node(what_if: &mut WhatIf<'_>, subject: &Subject, name: &str, suggestion: &Suggestion) {
    let Some(mut node) = what_if.nodes.get(name).cloned() else {
        return;
    };
    for key in own_pods(what_if, subject) {
        // A suggestion changes a node and a pod at once. Here only the pod counts, below only the node.
        let mut scratch = (*node).clone();
        let waits = |pod: &evictd_pod::wire::Pod| pod.spec.node_name.is_empty();
        if what_if.pods.get(&key).is_some_and(|pod| waits(pod)) {
            what_if.change(&key, |pod: &mut Pod| suggestion.apply(&mut scratch, pod));
        }
    }
    suggestion.apply(
        Arc::make_mut(&mut node),
        &mut evictd_pod::wire::Pod::default(),
    );
    what_if.set(name, Some(node));
}

/// The minima of its tasks are lowered, too.
fn smaller_gang(what_if: &mut WhatIf<'_>, subject: &Subject, to: i32) {
    what_if.change(&subject.group, |group: &mut PodGroup| {
        group.spec.min_member = to;
        // The minima of tasks could still keep a smaller gang from starting.
        group.spec.min_task_member.clear();
    });
}

/// The job, and its pods that wait, are of a class of their own.
fn raise(what_if: &mut WhatIf<'_>, subject: &Subject, to: i32) {
    // No class can have this name.
    let class = "(the job asked about)";
    what_if.add_class(class, to);
    what_if.change(&subject.group, |group: &mut PodGroup| {
        class.clone_into(&mut group.spec.priority_class_name);
    });
    for pod in own_pods(what_if, subject) {
        what_if.change(&pod, |pod: &mut Pod| pod.spec.priority = Some(to));
    }
}

fn more_nodes(what_if: &mut WhatIf<'_>, like: &str, count: usize, names: NodeNames) {
    let Some(model) = what_if.nodes.get(like).cloned() else {
        return;
    };
    for index in 1..=count {
        let mut node: Node = (*model).clone();
        let name = names.name(like, index);
        let hostname = "kubernetes.io/hostname";
        // Selectors and spread rules read this label, so each node needs a value of its own.
        if node.metadata.labels.contains_key(hostname) {
            node.metadata.labels.insert(hostname, &name);
        }
        node.metadata.name.clone_from(&name);
        what_if.set(&name, Some(Arc::new(node)));
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
            Self::OpenQueue { queue, parents } => {
                let all: Vec<&String> = parents.iter().chain([queue]).collect();
                let names: Vec<String> = all.iter().map(|queue| format!("queue {queue}")).collect();
                let commands: Vec<String> = all
                    .iter()
                    .map(|queue| format!("evictd-batch queue operate -n {queue} -a open"))
                    .collect();
                let is = if all.len() == 1 { "is" } else { "are" };
                let (names, commands) = (names.join(" and then "), commands.join("; "));
                write!(f, "{names} {is} opened: {commands}")
            }
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
            Self::Node {
                node, suggestion, ..
            } => match suggestion {
                Suggestion::Uncordon => write!(f, "node {node} is uncordoned"),
                Suggestion::AddLabel { key, value } => {
                    write!(f, "node {node} gets the label {key}={value}")
                }
                Suggestion::RemoveLabel(key) => write!(f, "node {node} loses the label {key}"),
                Suggestion::Recover(taint) => {
                    write!(f, "node {node} recovers from {}", taint.key)
                }
                Suggestion::AddToleration(_) | Suggestion::Spread { .. } => {
                    write!(f, "its pods have {suggestion} (node {node})")
                }
                Suggestion::RemoveNodeSelector(_) | Suggestion::RemoveNodeAffinity => {
                    write!(f, "there is {suggestion} (node {node})")
                }
                Suggestion::AddCapacity { .. } => write!(f, "node {node} has {suggestion}"),
                Suggestion::RemovePods(pods) => write!(f, "{} leave node {node}", named(pods)),
                Suggestion::AwaitPods(pods) => write!(f, "{} end", named(pods)),
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
