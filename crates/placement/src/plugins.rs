//! The plugins of kube-scheduler 1.36 that decide where a pod may be and where it is best (S5-076).

use crate::cluster::Cluster;
use crate::filter::{self, Code, Filter};
use crate::id::NodeId;
use crate::mistake::Mistake;
use crate::plugin::{Plugin, PreFilter, Score};
use crate::pod::Pod;
use crate::score;
use crate::selector::NodeSelector;
use crate::template::{self, Spread};
use evictd_pod::wire;

pub use crate::filter::Ignored;
pub use crate::score::resources::{Strategy, WeightedResource};

/// Cordoned nodes take only pods that tolerate it.
#[derive(Debug, Clone, Copy)]
pub struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::unschedulable::new(cluster, pod)
    }
}

/// A pod that names its node.
#[derive(Debug, Clone, Copy)]
pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::node_name::new(cluster, pod)
    }
}

/// Taints that forbid, and those that had better be avoided.
#[derive(Debug, Clone, Copy)]
pub struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::taints::new(cluster, pod)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        Some(score::taints::new(cluster, pod))
    }
}

/// Nodes that a pod must be on, and those that it would rather be on.
#[derive(Debug, Default)]
pub struct NodeAffinity {
    added: Option<NodeSelector>,
    added_preferred: Box<[(i64, NodeSelector)]>,
}

impl NodeAffinity {
    /// With what a profile demands of all its pods beside their own affinity.
    pub fn new(cluster: &mut Cluster, added: Option<&wire::NodeAffinity>) -> Result<Self, Mistake> {
        let Some(added) = added else {
            return Ok(Self::default());
        };
        cluster.compile_for_good(|symbols| {
            let required = added.required.as_ref();
            let required = required.map(|required| NodeSelector::new(symbols, required));
            let field = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution";
            Ok(Self {
                added: required
                    .transpose()
                    .map_err(|error| Mistake::new(field.to_owned(), error))?,
                added_preferred: template::preferred_nodes(symbols, added)?,
            })
        })
    }
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilter {
        let affinity = cluster.template(pod).node_affinity.as_ref();
        match affinity.and_then(NodeSelector::names) {
            None => PreFilter::Pass,
            Some(names) if names.is_empty() => PreFilter::Rejected(
                Code::UnschedulableAndUnresolvable,
                "pod affinity terms conflict".to_owned(),
            ),
            Some(names) => PreFilter::Nodes(names),
        }
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::node_affinity::new(cluster, pod, self.added.as_ref())
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        score::node_affinity::new(cluster, pod, &self.added_preferred)
    }
}

/// Optional features of the kubelet that a pod needs.
#[derive(Debug, Clone, Copy)]
pub struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatures"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::declared_features::new(cluster, pod)
    }
}

/// Ports of the node.
#[derive(Debug, Clone, Copy)]
pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::ports::new(cluster, pod)
    }
}

/// Enough of every resource, and how full the node becomes.
#[derive(Debug, Clone)]
pub struct NodeResourcesFit {
    /// Resources that do not keep a pod off a node.
    pub ignored: Ignored,
    /// How fullness is scored.
    pub strategy: Strategy,
    /// Which resources count.
    pub resources: Vec<WeightedResource>,
}

/// Processor time and memory, equally.
fn cpu_and_memory() -> Vec<WeightedResource> {
    vec![("cpu".to_owned(), 1), ("memory".to_owned(), 1)]
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        Self {
            ignored: Ignored::default(),
            strategy: Strategy::LeastAllocated,
            resources: cpu_and_memory(),
        }
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::fit::new(cluster, pod, &self.ignored)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        let strategy = &self.strategy;
        Some(score::resources::fit(
            cluster,
            pod,
            strategy,
            &self.resources,
        ))
    }
}

/// Disks that pods of one node cannot share, and claims that one pod alone may use.
#[derive(Debug, Clone, Copy)]
pub struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilter {
        unresolvable(filter::claims::missing(cluster, pod))
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::volume_restrictions::new(cluster, pod)
    }
}

/// How many volumes of a driver a node attaches.
#[derive(Debug, Clone, Copy)]
pub struct NodeVolumeLimits;

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::volume_limits::new(cluster, pod)
    }
}

/// Volumes that cannot be reached from everywhere, and claims that get theirs where the pod goes.
#[derive(Debug, Clone, Copy)]
pub struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilter {
        unresolvable(filter::claims::unusable(cluster, pod))
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::volume_binding::new(cluster, pod)
    }
}

/// The labels in which volumes tell their zone.
#[derive(Debug, Clone, Copy)]
pub struct VolumeZone;

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilter {
        unresolvable(filter::claims::unreachable(cluster, pod))
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::volume_zone::new(cluster, pod)
    }
}

/// No node will do, for a reason that no pod that leaves can change.
fn unresolvable(reason: Option<String>) -> PreFilter {
    reason.map_or(PreFilter::Pass, |reason| {
        PreFilter::Rejected(Code::UnschedulableAndUnresolvable, reason)
    })
}

/// How evenly pods must, and had better, be spread.
#[derive(Debug)]
pub struct PodTopologySpread {
    /// For pods that say nothing: without the selector, which follows from their services and owners.
    forbidding: Box<[Spread]>,
    advising: Box<[Spread]>,
    /// Whether a node that lacks a label is left out also for pods that say nothing.
    all_keys: bool,
}

impl PodTopologySpread {
    /// Pods that say nothing are not spread.
    pub fn without_defaults() -> Self {
        Self {
            forbidding: Box::new([]),
            advising: Box::new([]),
            all_keys: true,
        }
    }

    /// With the constraints of Kubernetes itself for pods that say nothing (S5-091).
    pub fn of_system(cluster: &mut Cluster) -> Self {
        let advising = cluster.compile_for_good(|symbols| {
            let keys = [
                ("kubernetes.io/hostname", 3),
                ("topology.kubernetes.io/zone", 5),
            ];
            let spread = keys.map(|(key, skew)| Spread::advice(symbols.intern(key), skew));
            Ok(spread.into())
        });
        let own = Self {
            forbidding: Box::default(),
            // Nothing in it can be wrong.
            advising: advising.unwrap_or_default(),
            all_keys: false,
        };
        own.keep_topologies(cluster);
        own
    }

    /// With these constraints for pods that say nothing.
    pub fn of_list(
        cluster: &mut Cluster,
        constraints: &[wire::TopologySpreadConstraint],
    ) -> Result<Self, Mistake> {
        let own = cluster.compile_for_good(|symbols| {
            let (mut forbidding, mut advising) = (Vec::new(), Vec::new());
            for (index, wire) in constraints.iter().enumerate() {
                let field = || format!("defaultConstraints[{index}]");
                let spread = Spread::of_profile(symbols, wire);
                let spread = spread.map_err(|error| Mistake::new(field(), error))?;
                match wire.when_unsatisfiable.as_str() {
                    "ScheduleAnyway" => advising.push(spread),
                    _ => forbidding.push(spread),
                }
            }
            Ok(Self {
                forbidding: forbidding.into(),
                advising: advising.into(),
                all_keys: true,
            })
        });
        own.inspect(|own: &Self| own.keep_topologies(cluster))
    }

    fn keep_topologies(&self, cluster: &mut Cluster) {
        for spread in self.forbidding.iter().chain(&self.advising) {
            cluster.keep_topology(spread.topology_key);
        }
    }

    /// A pod's own constraints, or the default ones if it says nothing at all.
    fn of_pod(cluster: &Cluster, pod: &Pod, own: &[Spread], default: &[Spread]) -> Box<[Spread]> {
        let template = cluster.template(pod);
        if !(template.spread.is_empty() && template.soft_spread.is_empty()) || default.is_empty() {
            return own.into();
        }
        let spreaders = cluster.spreaders();
        let selector = spreaders.selector(cluster.symbols(), template, pod.labels());
        let spread = selector.into_iter().flat_map(|selector| {
            default.iter().map(move |spread| Spread {
                selector: selector.clone(),
                ..spread.clone()
            })
        });
        spread.collect()
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        let own = &cluster.template(pod).spread;
        let spread = Self::of_pod(cluster, pod, own, &self.forbidding);
        filter::topology_spread::new(cluster, pod, &spread)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        let template = cluster.template(pod);
        let says = !(template.spread.is_empty() && template.soft_spread.is_empty());
        let spread = Self::of_pod(cluster, pod, &template.soft_spread, &self.advising);
        let all_keys = says || self.all_keys;
        score::topology_spread::new(cluster, pod, nodes, &spread, all_keys)
    }
}

/// Pods that a pod must or would rather be near or away from, and pods that say so of it.
#[derive(Debug, Clone, Copy)]
pub struct InterPodAffinity {
    /// How much a required affinity of another pod counts.
    pub hard_weight: i64,
    /// Whether preferences of other pods count only for pods that have some themselves.
    pub ignore_preferred_of_others: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self {
            hard_weight: 1,
            ignore_preferred_of_others: false,
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::inter_pod_affinity::new(cluster, pod)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        let ignore = self.ignore_preferred_of_others;
        score::inter_pod_affinity::new(cluster, pod, self.hard_weight, ignore)
    }
}

/// How evenly a node's resources are used.
#[derive(Debug, Clone)]
pub struct NodeResourcesBalancedAllocation {
    /// Which resources count; weights do not.
    pub resources: Vec<WeightedResource>,
}

impl Default for NodeResourcesBalancedAllocation {
    fn default() -> Self {
        Self {
            resources: cpu_and_memory(),
        }
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        score::resources::balanced(cluster, pod, &self.resources)
    }
}

/// Nodes that have the pod's images already.
#[derive(Debug, Clone, Copy)]
pub struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        Some(score::image_locality::new(cluster, pod))
    }
}

/// Devices that claims ask for. For a pod without claims every node passes and gets the same score.
#[derive(Debug, Clone, Copy)]
pub struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilter {
        match filter::devices::demand(cluster, pod) {
            Ok(_) => PreFilter::Pass,
            Err(reason) => PreFilter::Rejected(Code::UnschedulableAndUnresolvable, reason),
        }
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        filter::devices::new(cluster, pod)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        Some(score::devices::new(cluster, pod))
    }
}

/// The filters of the default profile that have something to check for this pod. Claims come before all, for a pod whose
/// claims cannot be had is not tried anywhere.
pub(crate) fn default_filters(cluster: &Cluster, pod: &Pod) -> Vec<Box<dyn Filter>> {
    let (fit, node_affinity) = (NodeResourcesFit::default(), NodeAffinity::default());
    let spread = PodTopologySpread::without_defaults();
    let plugins: [&dyn Plugin; 14] = [
        &NodeUnschedulable,
        &NodeName,
        &TaintToleration,
        &node_affinity,
        &NodePorts,
        &fit,
        &VolumeRestrictions,
        &NodeVolumeLimits,
        &VolumeBinding,
        &VolumeZone,
        &spread,
        &InterPodAffinity::default(),
        &DynamicResources,
        &NodeDeclaredFeatures,
    ];
    let filters = plugins
        .iter()
        .filter_map(|plugin| plugin.filter(cluster, pod));
    filter::claims::new(cluster, pod)
        .into_iter()
        .chain(filters)
        .collect()
}
