//! Which filters and scores have a say, from the configuration (S6-135 to S6-137).

use super::binpack::Binpack;
use crate::conf::{Arguments, Plugin as Loaded, PluginName, Switch};
use crate::session::snapshot::resource::Dims;
use evictd_placement::plugins::{
    DynamicResources, ImageLocality, InterPodAffinity, NodeAffinity, NodePorts,
    NodeResourcesBalancedAllocation, NodeResourcesFit, NodeUnschedulable, NodeVolumeLimits,
    PodTopologySpread, Strategy, TaintToleration, VolumeBinding, VolumeZone, WeightedResource,
};
use evictd_placement::{Cluster, Plugin, Pod, PreFilter};

/// A score with its weight.
pub(super) struct Scorer {
    pub(super) plugin: Box<dyn Plugin>,
    pub(super) weight: f64,
    /// Whether scores are normalized over all nodes.
    pub(super) normalizes: bool,
}

/// The enabled filters and scores.
#[derive(Default)]
pub(super) struct NodePlugins {
    /// In the order of evaluation.
    pub(super) filters: Vec<Box<dyn Plugin>>,
    pub(super) scorers: Vec<Scorer>,
    pub(super) binpack: Option<Binpack>,
}

/// kube-scheduler's default resources, and the one that Volcano adds.
fn resources(names: &[&str]) -> Vec<WeightedResource> {
    names.iter().map(|name| ((*name).to_owned(), 1)).collect()
}

fn fit(strategy: Strategy) -> Box<dyn Plugin> {
    Box::new(NodeResourcesFit {
        strategy,
        resources: resources(&["cpu", "memory"]),
        ..NodeResourcesFit::default()
    })
}

impl NodePlugins {
    pub(super) fn new(tiers: &[Vec<Loaded>], dims: &Dims) -> Self {
        let mut node_plugins = Self::default();
        for plugin in tiers.iter().flatten() {
            match plugin.name {
                PluginName::Predicates if plugin.at(Switch::Predicate) => {
                    node_plugins.filters = filters(&plugin.arguments);
                }
                PluginName::NodeOrder if plugin.at(Switch::NodeOrder) => {
                    node_plugins.scorers = scorers(&plugin.arguments);
                }
                PluginName::Binpack if plugin.at(Switch::NodeOrder) => {
                    node_plugins.binpack = Binpack::new(&plugin.arguments, dims);
                }
                _ => {}
            }
        }
        node_plugins
    }

    /// The result of `PreFilter`, such as a missing claim.
    pub(super) fn refused(&self, cluster: &Cluster, pod: &Pod) -> Option<String> {
        self.filters.iter().find_map(|filter| {
            let PreFilter::Rejected(_, reason) = filter.pre_filter(cluster, pod) else {
                return None;
            };
            Some(format!(
                "plugin {} pre-predicates failed {reason}",
                filter.name()
            ))
        })
    }
}

/// The enabled filters whose result depends on the pod's spec and the node alone.
pub(crate) fn static_filters(tiers: &[Vec<Loaded>], dims: &Dims) -> Vec<Box<dyn Plugin>> {
    let mut filters = NodePlugins::new(tiers, dims).filters;
    let names = ["NodeUnschedulable", "NodeAffinity", "TaintToleration"];
    filters.retain(|filter| names.contains(&filter.name()));
    filters
}

fn filters(arguments: &Arguments) -> Vec<Box<dyn Plugin>> {
    let switched: [(&str, Box<dyn Plugin>); 10] = [
        ("", Box::new(NodeUnschedulable)),
        (
            "predicate.NodeAffinityEnable",
            Box::new(NodeAffinity::default()),
        ),
        ("predicate.TaintTolerationEnable", Box::new(TaintToleration)),
        ("predicate.NodePortsEnable", Box::new(NodePorts)),
        (
            "predicate.PodAffinityEnable",
            Box::new(InterPodAffinity::default()),
        ),
        (
            "predicate.NodeVolumeLimitsEnable",
            Box::new(NodeVolumeLimits),
        ),
        ("predicate.VolumeZoneEnable", Box::new(VolumeZone)),
        (
            "predicate.PodTopologySpreadEnable",
            Box::new(PodTopologySpread::without_defaults()),
        ),
        (
            "predicate.VolumeBindingEnable",
            Box::new(VolumeBinding::default()),
        ),
        (
            "predicate.DynamicResourceAllocationEnable",
            Box::new(DynamicResources),
        ),
    ];
    let on = switched
        .into_iter()
        .filter(|(key, _)| arguments.boolean(key, true));
    on.map(|(_, plugin)| plugin).collect()
}

fn scorers(arguments: &Arguments) -> Vec<Scorer> {
    let balanced = NodeResourcesBalancedAllocation {
        resources: resources(&["cpu", "memory", "nvidia.com/gpu"]),
    };
    // EvaluationKey, weight unless the arguments say another, whether scores are scaled.
    let all: [(&str, f64, bool, Box<dyn Plugin>); 8] = [
        (
            "leastrequested.weight",
            1.0,
            false,
            fit(Strategy::LeastAllocated),
        ),
        (
            "mostrequested.weight",
            0.0,
            false,
            fit(Strategy::MostAllocated),
        ),
        ("balancedresource.weight", 1.0, false, Box::new(balanced)),
        (
            "nodeaffinity.weight",
            2.0,
            true,
            Box::new(NodeAffinity::default()),
        ),
        ("imagelocality.weight", 1.0, false, Box::new(ImageLocality)),
        (
            "tainttoleration.weight",
            3.0,
            true,
            Box::new(TaintToleration),
        ),
        (
            "podaffinity.weight",
            2.0,
            true,
            Box::new(InterPodAffinity::default()),
        ),
        (
            "podtopologyspread.weight",
            2.0,
            true,
            Box::new(PodTopologySpread::without_defaults()),
        ),
    ];
    let scorers = all
        .into_iter()
        .map(|(key, default, normalizes, plugin)| Scorer {
            plugin,
            weight: arguments.number(key, default).trunc(),
            normalizes,
        });
    scorers.filter(|scorer| scorer.weight != 0.0).collect()
}
