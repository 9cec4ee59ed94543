//! One change of a node, of a pod or of the pods on a node.

use evictd_pod::wire::Taint;
use evictd_pod::wire::{Pod, Toleration};
use evictd_pod::{Node, Quantity};
use std::fmt;

/// A change that is needed before a pod fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// Uncordon the node.
    Uncordon,
    /// Add a toleration of this taint to the pod.
    AddToleration(Taint),
    /// The node recovers from the state that sets this taint, and others with its key.
    Recover(Taint),
    /// Add this label to the node.
    AddLabel {
        /// The key.
        key: String,
        /// One of the possible values.
        value: String,
    },
    /// Remove the label with this key from the node.
    RemoveLabel(String),
    /// Remove this key from the node selector of the pod.
    RemoveNodeSelector(String),
    /// Remove the required node affinity of the pod.
    RemoveNodeAffinity,
    /// Add an amount of a resource to the node.
    AddCapacity {
        /// The resource; `pods` is the number of pods.
        resource: String,
        /// The amount.
        amount: Quantity,
    },
    /// Remove these pods, `namespace/name`, from the node.
    RemovePods(Vec<String>),
    /// Wait until these pods, `namespace/name`, have ended, which terminate already. They may be on other nodes.
    AwaitPods(Vec<String>),
    /// Change the hard spread constraints of the pod with this topology key.
    Spread {
        /// The topology key.
        key: String,
        /// The change.
        change: SpreadChange,
    },
}

/// A change of a hard spread constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadChange {
    /// Nodes whose taints the pod does not tolerate count no more.
    HonorTaints,
    /// A larger `maxSkew`.
    MaxSkew(i32),
    /// No `minDomains`.
    NoMinDomains,
    /// The constraint only orders the nodes.
    ScheduleAnyway,
}

impl SpreadChange {
    fn apply(self, key: &str, pod: &mut Pod) {
        let constraints = pod.spec.topology_spread_constraints.iter_mut();
        let hard = constraints.filter(|constraint| {
            constraint.topology_key == key && constraint.when_unsatisfiable == "DoNotSchedule"
        });
        for constraint in hard {
            match self {
                Self::HonorTaints => "Honor".clone_into(&mut constraint.node_taints_policy),
                Self::MaxSkew(skew) => constraint.max_skew = skew,
                Self::NoMinDomains => constraint.min_domains = None,
                Self::ScheduleAnyway => {
                    "ScheduleAnyway".clone_into(&mut constraint.when_unsatisfiable);
                }
            }
        }
    }
}

impl Suggestion {
    /// Applies the change to the node and the pod. [`Self::RemovePods`] and [`Self::AwaitPods`] change neither.
    pub fn apply(&self, node: &mut Node, pod: &mut Pod) {
        match self {
            Self::Uncordon => {
                node.spec.unschedulable = false;
                let cordoned = "node.kubernetes.io/unschedulable";
                node.spec.taints.retain(|taint| taint.key != cordoned);
            }
            Self::AddToleration(taint) => pod.spec.tolerations.push(Toleration {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
                ..Toleration::default()
            }),
            Self::Recover(taint) => node.spec.taints.retain(|known| known.key != taint.key),
            Self::AddLabel { key, value } => {
                node.metadata.labels.insert(key.clone(), value.clone());
            }
            Self::RemoveLabel(key) => {
                node.metadata.labels.remove(key);
            }
            Self::RemoveNodeSelector(key) => {
                pod.spec.node_selector.remove(key);
            }
            Self::RemoveNodeAffinity => {
                if let Some(affinity) = &mut pod.spec.affinity {
                    affinity.node_affinity.required = None;
                }
            }
            Self::AddCapacity { resource, amount } => {
                let list = &mut node.status.allocatable;
                let there = list.get(resource).copied().unwrap_or(Quantity::ZERO);
                let sum = if resource == evictd_pod::resources::CPU {
                    Quantity::milli(there.milli_value().saturating_add(amount.milli_value()))
                } else {
                    Quantity::new(
                        there.value().saturating_add(amount.value()),
                        amount.format(),
                    )
                };
                list.insert(resource.as_str(), sum);
            }
            Self::Spread { key, change } => change.apply(key, pod),
            Self::RemovePods(_) | Self::AwaitPods(_) => {}
        }
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncordon => write!(f, "the node uncordoned"),
            Self::AddToleration(taint) => {
                let equals = if taint.value.is_empty() { "" } else { "=" };
                let Taint {
                    key, value, effect, ..
                } = taint;
                write!(f, "a toleration of {key}{equals}{value}:{effect}")
            }
            Self::Recover(taint) => write!(f, "the node recovered from {}", taint.key),
            Self::AddLabel { key, value } => write!(f, "the label {key}={value} on the node"),
            Self::RemoveLabel(key) => write!(f, "no label {key} on the node"),
            Self::RemoveNodeSelector(key) => write!(f, "no {key} in the pod's nodeSelector"),
            Self::RemoveNodeAffinity => write!(f, "no required node affinity of the pod"),
            Self::AddCapacity { resource, amount } if resource == evictd_pod::resources::PODS => {
                write!(f, "room for {amount} more of the pods")
            }
            Self::AddCapacity { resource, amount } => write!(f, "{amount} more {resource}"),
            Self::RemovePods(pods) => write!(f, "{} gone from the node", pods.join(", ")),
            Self::AwaitPods(pods) => write!(f, "the end of {}", pods.join(", ")),
            Self::Spread { key, change } => match change {
                SpreadChange::HonorTaints => write!(f, "nodeTaintsPolicy: Honor for {key}"),
                SpreadChange::MaxSkew(skew) => write!(f, "maxSkew: {skew} for {key}"),
                SpreadChange::NoMinDomains => write!(f, "no minDomains for {key}"),
                SpreadChange::ScheduleAnyway => {
                    write!(f, "whenUnsatisfiable: ScheduleAnyway for {key}")
                }
            },
        }
    }
}
