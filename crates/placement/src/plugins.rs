//! The filter and score plugins of kube-scheduler 1.36 (S5-076).

use crate::cluster::Cluster;
use crate::filter::{self, Code, Filter};
use crate::id::NodeId;
use crate::invalid_object::InvalidObject;
use crate::plugin::{Plugin, PreFilter, Score};
use crate::pod::Pod;
use crate::score;
use crate::selector::NodeSelector;
use crate::template::{self, Spread};
use evictd_pod::wire;

pub use crate::filter::Ignored;
pub use crate::score::resources::{Strategy, WeightedResource};

/// Cordoned nodes accept only pods that tolerate the taint.
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

/// The pod names its node in its spec.
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

/// Taints that forbid a node, and soft taints that lower its score.
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

/// Required and preferred node affinity.
#[derive(Debug, Default)]
pub struct NodeAffinity {
    added: Option<NodeSelector>,
    added_preferred: Box<[(i64, NodeSelector)]>,
}

impl NodeAffinity {
    /// `added` is the profile's `addedAffinity`, which applies to all its pods.
    pub fn new(
        cluster: &mut Cluster,
        added: Option<&wire::NodeAffinity>,
    ) -> Result<Self, InvalidObject> {
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
                    .map_err(|error| InvalidObject::new(field.to_owned(), error))?,
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

/// Optional kubelet features that a pod needs.
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

/// Host ports.
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

/// The node has enough of every resource; the score depends on its utilization.
#[derive(Debug, Clone)]
pub struct NodeResourcesFit {
    /// Resources that the filter ignores.
    pub ignored: Ignored,
    /// The scoring strategy.
    pub strategy: Strategy,
    /// The resources to score.
    pub resources: Vec<WeightedResource>,
}

/// The default resources, with equal weights.
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

/// Disks that pods on one node cannot share, and `ReadWriteOncePod` claims.
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

/// How many volumes of a driver a node can attach.
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

/// Volumes that only some nodes reach, and claims that are bound when their pod is scheduled.
#[derive(Debug, Clone)]
pub struct VolumeBinding {
    /// The score from 0 to 10 by the share of storage that is used, in percent.
    pub shape: Vec<(i64, i64)>,
}

impl Default for VolumeBinding {
    fn default() -> Self {
        Self {
            shape: vec![(0, 10), (100, 0)],
        }
    }
}

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

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        score::volume_binding::new(cluster, pod, &self.shape)
    }
}

/// Zone labels of volumes.
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

/// No node fits, and evicting pods does not help.
fn unresolvable(reason: Option<String>) -> PreFilter {
    reason.map_or(PreFilter::Pass, |reason| {
        PreFilter::Rejected(Code::UnschedulableAndUnresolvable, reason)
    })
}

/// Topology spread constraints.
#[derive(Debug)]
pub struct PodTopologySpread {
    /// Default constraints of kind `DoNotSchedule`. Their selector comes from the pod's services and owner.
    hard: Box<[Spread]>,
    soft: Box<[Spread]>,
    /// Whether the default constraints ignore nodes that lack a topology key.
    all_keys: bool,
}

impl PodTopologySpread {
    /// Without default constraints.
    pub fn without_defaults() -> Self {
        Self {
            hard: Box::new([]),
            soft: Box::new([]),
            all_keys: true,
        }
    }

    /// With the default constraints of Kubernetes (S5-091).
    pub fn of_system(cluster: &mut Cluster) -> Self {
        let soft = cluster.compile_for_good(|symbols| {
            let keys = [
                ("kubernetes.io/hostname", 3),
                ("topology.kubernetes.io/zone", 5),
            ];
            let spread = keys.map(|(key, skew)| Spread::soft(symbols.intern(key), skew));
            Ok(spread.into())
        });
        let plugin = Self {
            hard: Box::default(),
            // The built-in constraints are valid.
            soft: soft.unwrap_or_default(),
            all_keys: false,
        };
        plugin.keep_topologies(cluster);
        plugin
    }

    /// With the default constraints of the profile.
    pub fn of_list(
        cluster: &mut Cluster,
        constraints: &[wire::TopologySpreadConstraint],
    ) -> Result<Self, InvalidObject> {
        let plugin = cluster.compile_for_good(|symbols| {
            let (mut hard, mut soft) = (Vec::new(), Vec::new());
            for (index, wire) in constraints.iter().enumerate() {
                let field = || format!("defaultConstraints[{index}]");
                let spread = Spread::of_profile(symbols, wire);
                let spread = spread.map_err(|error| InvalidObject::new(field(), error))?;
                match wire.when_unsatisfiable.as_str() {
                    "ScheduleAnyway" => soft.push(spread),
                    _ => hard.push(spread),
                }
            }
            Ok(Self {
                hard: hard.into(),
                soft: soft.into(),
                all_keys: true,
            })
        });
        plugin.inspect(|plugin: &Self| plugin.keep_topologies(cluster))
    }

    fn keep_topologies(&self, cluster: &mut Cluster) {
        for spread in self.hard.iter().chain(&self.soft) {
            cluster.keep_topology(spread.topology_key);
        }
    }

    /// The pod's constraints, or the default ones if it has none of either kind.
    fn of_pod(
        cluster: &Cluster,
        pod: &Pod,
        constraints: &[Spread],
        default: &[Spread],
    ) -> Box<[Spread]> {
        let template = cluster.template(pod);
        if !(template.spread.is_empty() && template.soft_spread.is_empty()) || default.is_empty() {
            return constraints.into();
        }
        let spread_sources = cluster.spread_sources();
        let selector = spread_sources.selector(cluster.symbols(), template, pod.labels());
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
        let constraints = &cluster.template(pod).spread;
        let spread = Self::of_pod(cluster, pod, constraints, &self.hard);
        filter::topology_spread::new(cluster, pod, &spread)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        let template = cluster.template(pod);
        let has_constraints = !(template.spread.is_empty() && template.soft_spread.is_empty());
        let spread = Self::of_pod(cluster, pod, &template.soft_spread, &self.soft);
        let all_keys = has_constraints || self.all_keys;
        score::topology_spread::new(cluster, pod, nodes, &spread, all_keys)
    }
}

/// Inter-pod affinity and anti-affinity, in both directions.
#[derive(Debug, Clone, Copy)]
pub struct InterPodAffinity {
    /// The weight of a required affinity term of an existing pod.
    pub hard_weight: i64,
    /// Whether preferred terms of existing pods count only for pods with preferred terms of their own.
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
    /// The resources to score; their weights do not count.
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

/// Nodes that already have the pod's images.
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

/// Devices that claims request. A pod without claims passes on every node with the same score.
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

/// The compiled filters of the default profile for this pod. The claims come first, because without them no node is
/// filtered.
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
        &VolumeBinding::default(),
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
