//! Which filters and scores decide, from the configuration (S6-136, S6-137).

use super::binpack::Binpack;
use crate::conf::{Arguments, Plugin as Loaded, PluginName, Switch};
use crate::session::predicates;
use crate::session::snapshot::resource::Dims;
use evictd_placement::plugins::{
    ImageLocality, InterPodAffinity, NodeAffinity, NodeResourcesBalancedAllocation,
    NodeResourcesFit, PodTopologySpread, Strategy, TaintToleration, WeightedResource,
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
        let mut node_plugins = Self {
            filters: predicates::filters(tiers),
            ..Self::default()
        };
        for plugin in tiers.iter().flatten() {
            match plugin.name {
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
            weight: arguments.whole(key, default),
            normalizes,
        });
    scorers.filter(|scorer| scorer.weight != 0.0).collect()
}
