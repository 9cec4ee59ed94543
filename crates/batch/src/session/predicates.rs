//! kube-scheduler's filters that plugin predicates enables (S6-135).

use crate::conf::{Arguments, Plugin as Loaded, PluginName, Switch};
use evictd_placement::Plugin;
use evictd_placement::plugins::{
    DynamicResources, InterPodAffinity, NodeAffinity, NodePorts, NodeUnschedulable,
    NodeVolumeLimits, PodTopologySpread, TaintToleration, VolumeBinding, VolumeZone,
};

/// In the order of evaluation; none without the plugin.
pub(crate) fn filters(tiers: &[Vec<Loaded>]) -> Vec<Box<dyn Plugin>> {
    let mut loaded = tiers.iter().flatten();
    let last = loaded
        .rfind(|plugin| plugin.name == PluginName::Predicates && plugin.at(Switch::Predicate));
    last.map(|plugin| enabled(&plugin.arguments))
        .unwrap_or_default()
}

/// Those whose result depends on the pod's spec and the node alone.
pub(crate) fn of_specs(tiers: &[Vec<Loaded>]) -> Vec<Box<dyn Plugin>> {
    let mut filters = filters(tiers);
    let names = ["NodeUnschedulable", "NodeAffinity", "TaintToleration"];
    filters.retain(|filter| names.contains(&filter.name()));
    filters
}

fn enabled(arguments: &Arguments) -> Vec<Box<dyn Plugin>> {
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
