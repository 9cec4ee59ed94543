//! The plugins at each extension point, merged from the defaults and a profile (S5-075, S5-076).

use super::wire::{self, Named};
use std::collections::BTreeMap;

/// An extension point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Before a pod enters the queue.
    PreEnqueue,
    /// Orders the queue.
    QueueSort,
    /// Before the filters run on nodes.
    PreFilter,
    /// For each node.
    Filter,
    /// For a pod that fits on no node.
    PostFilter,
    /// For a group that cannot be placed; of kube-scheduler 1.37 (S7-260).
    PodGroupPostFilter,
    /// Before nodes are scored.
    PreScore,
    /// For each feasible node.
    Score,
    /// After a node is chosen.
    Reserve,
    /// Permits, delays or rejects the binding.
    Permit,
    /// Prepares the binding.
    PreBind,
    /// Binds the pod.
    Bind,
    /// After the binding.
    PostBind,
    /// Proposes placements of a whole gang.
    PlacementGenerate,
    /// For each placement of a gang.
    PlacementScore,
}

impl Point {
    /// Every point, in the order of the cycle.
    pub const ALL: [Self; 15] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PodGroupPostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// Its name in a configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PodGroupPostFilter => "podGroupPostFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
            Self::PlacementGenerate => "placementGenerate",
            Self::PlacementScore => "placementScore",
        }
    }

    pub(super) const fn of(self, plugins: &wire::Plugins) -> &wire::PluginSet {
        match self {
            Self::PreEnqueue => &plugins.pre_enqueue,
            Self::QueueSort => &plugins.queue_sort,
            Self::PreFilter => &plugins.pre_filter,
            Self::Filter => &plugins.filter,
            Self::PostFilter => &plugins.post_filter,
            Self::PodGroupPostFilter => &plugins.pod_group_post_filter,
            Self::PreScore => &plugins.pre_score,
            Self::Score => &plugins.score,
            Self::Reserve => &plugins.reserve,
            Self::Permit => &plugins.permit,
            Self::PreBind => &plugins.pre_bind,
            Self::Bind => &plugins.bind,
            Self::PostBind => &plugins.post_bind,
            Self::PlacementGenerate => &plugins.placement_generate,
            Self::PlacementScore => &plugins.placement_score,
        }
    }
}

/// A plugin of kube-scheduler 1.36 with its extension points and its weight; 0 if it has no score.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) points: &'static [Point],
    weight: i64,
}

const fn built_in(name: &'static str, points: &'static [Point], weight: i64) -> BuiltIn {
    BuiltIn {
        name,
        points,
        weight,
    }
}

use Point::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PodGroupPostFilter, PostFilter,
    PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
};

const FILTERS: &[Point] = &[PreFilter, Filter];
const ALL_FOUR: &[Point] = &[PreFilter, Filter, PreScore, Score];
const BINDING: &[Point] = &[PreFilter, Filter, PreScore, Score, Reserve, PreBind];
const DEVICES: &[Point] = &[
    PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind,
];

/// The default plugins in their order (S5-076).
static DEFAULT: [BuiltIn; 20] = [
    built_in("SchedulingGates", &[PreEnqueue], 0),
    built_in("PrioritySort", &[QueueSort], 0),
    built_in("NodeUnschedulable", &[Filter], 0),
    built_in("NodeName", &[Filter], 0),
    built_in("TaintToleration", &[Filter, PreScore, Score], 3),
    built_in("NodeAffinity", ALL_FOUR, 2),
    built_in("NodePorts", FILTERS, 0),
    built_in("NodeResourcesFit", ALL_FOUR, 1),
    built_in("VolumeRestrictions", FILTERS, 0),
    built_in("NodeVolumeLimits", FILTERS, 0),
    built_in("VolumeBinding", BINDING, 0),
    built_in("VolumeZone", FILTERS, 0),
    built_in("PodTopologySpread", ALL_FOUR, 2),
    built_in("InterPodAffinity", ALL_FOUR, 2),
    built_in("DynamicResources", DEVICES, 2),
    built_in(
        "DefaultPreemption",
        &[PreEnqueue, PostFilter, PodGroupPostFilter],
        0,
    ),
    built_in("NodeResourcesBalancedAllocation", &[PreScore, Score], 1),
    built_in("ImageLocality", &[Score], 1),
    built_in("DefaultBinder", &[Bind], 0),
    built_in("NodeDeclaredFeatures", FILTERS, 0),
];

/// Plugins that read the reports of evictd's agents. A profile must enable them by name.
static OF_AGENTS: [BuiltIn; 3] = [
    built_in("EvictdPressure", &[Filter], 0),
    built_in("EvictdHeadroom", &[Score], 1),
    built_in("EvictdReturn", &[Filter], 0),
];

/// Plugins that kube-scheduler has with its feature gates for gangs. Here they are part of every profile, and enabling one has
/// no effect.
static OF_GANGS: [BuiltIn; 3] = [
    built_in("GangScheduling", &[PreEnqueue, Permit], 0),
    built_in("TopologyPlacementGenerator", &[PlacementGenerate], 0),
    built_in("PodGroupPodsCount", &[PlacementScore], 1),
];

/// Every built-in plugin.
pub(super) fn known() -> impl Iterator<Item = &'static BuiltIn> {
    DEFAULT.iter().chain(&OF_AGENTS).chain(&OF_GANGS)
}

/// The plugins of a profile at each extension point, in their order, and the weights of their scores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Points {
    at: BTreeMap<Point, Vec<String>>,
    weights: BTreeMap<String, i64>,
}

impl Points {
    /// The plugins at a point, in their order.
    pub fn at(&self, point: Point) -> &[String] {
        self.at.get(&point).map_or(&[], Vec::as_slice)
    }

    /// The plugins that only single pods have after a failure, since 1.37 has another point for groups (S7-264). Claims of groups
    /// are given back without a plugin there.
    pub fn post_filters_without_groups(&self) -> impl Iterator<Item = &str> {
        let of_groups = self.at(Point::PodGroupPostFilter);
        let names = self.at(Point::PostFilter).iter();
        let alone = names.filter(|name| *name != "DynamicResources" && !of_groups.contains(name));
        alone.map(String::as_str)
    }

    /// The weight of a plugin's score.
    pub fn weight(&self, name: &str) -> i64 {
        self.weights.get(name).copied().unwrap_or(1)
    }

    /// Merges the defaults with a profile. `points_of` returns the extension points of a plugin.
    pub(super) fn new(plugins: &wire::Plugins, points_of: impl Fn(&str) -> Vec<Point>) -> Self {
        let multi_point = merged(&plugins.multi_point);
        let mut points = Self::default();
        for point in Point::ALL {
            let set = point.of(plugins);
            let names = expanded(set, &multi_point, |name| points_of(name).contains(&point));
            points.at.insert(point, names);
        }
        let scores = plugins.score.enabled.iter().chain(&multi_point);
        for named in scores {
            if points.at(Point::Score).contains(&named.name) {
                // The first one wins: the weight of the point precedes that of multiPoint.
                let weight = named.weight.filter(|weight| *weight != 0).unwrap_or(1);
                points.weights.entry(named.name.clone()).or_insert(weight);
            }
        }
        points
    }
}

/// The default plugins, merged with the `multiPoint` of a profile.
fn merged(set: &wire::PluginSet) -> Vec<Named> {
    let disabled = |name: &str| set.disabled.iter().any(|plugin| plugin.name == name);
    let mut left: Vec<Named> = set.enabled.clone();
    let mut merged = Vec::new();
    for default in DEFAULT.iter().filter(|_| !disabled("*")) {
        if disabled(default.name) {
            continue;
        }
        // A default that is enabled again, with another weight, keeps its position.
        let again = left.iter().position(|named| named.name == default.name);
        merged.push(match again {
            Some(index) => left.remove(index),
            None => Named {
                name: default.name.to_owned(),
                weight: Some(default.weight),
            },
        });
    }
    merged.extend(left);
    merged
}

/// The plugins of one point: first those of all points that this point enables again, then the others of all points, then those
/// that only this point enables.
fn expanded(
    set: &wire::PluginSet,
    multi_point: &[Named],
    takes_part: impl Fn(&str) -> bool,
) -> Vec<String> {
    let disabled = |name: &str| set.disabled.iter().any(|plugin| plugin.name == name);
    let enabled = |name: &str| set.enabled.iter().any(|plugin| plugin.name == name);
    let names = |plugins: &[Named]| {
        plugins
            .iter()
            .map(|plugin| plugin.name.clone())
            .collect::<Vec<_>>()
    };
    // Then neither the defaults nor multiPoint count at this point.
    if disabled("*") {
        return names(&set.enabled);
    }
    let everywhere: Vec<Named> = multi_point
        .iter()
        .filter(|named| takes_part(&named.name) && !disabled(&named.name))
        .cloned()
        .collect();
    let is_everywhere = |name: &str| everywhere.iter().any(|named| named.name == name);
    let (again, only): (Vec<Named>, Vec<Named>) = set
        .enabled
        .iter()
        .cloned()
        .partition(|named| is_everywhere(&named.name));
    let others: Vec<Named> = everywhere
        .iter()
        .filter(|named| !enabled(&named.name))
        .cloned()
        .collect();
    [names(&again), names(&others), names(&only)].concat()
}
