//! Which plugins are asked at which point, merged from the defaults and a profile (S5-075, S5-076).

use super::wire::{self, Named};
use std::collections::BTreeMap;

/// A point of the cycle at which plugins are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Before a pod enters the queue.
    PreEnqueue,
    /// Which pod is first.
    QueueSort,
    /// Before any node is looked at.
    PreFilter,
    /// Each node.
    Filter,
    /// For a pod that fits nowhere.
    PostFilter,
    /// Before nodes are scored.
    PreScore,
    /// Each node that passed.
    Score,
    /// When a node is chosen.
    Reserve,
    /// Before it is bound: now, later or never.
    Permit,
    /// Work that must be done before.
    PreBind,
    /// Who binds.
    Bind,
    /// When it is bound.
    PostBind,
    /// Where a gang could go as a whole.
    PlacementGenerate,
    /// Each of the places where it could go.
    PlacementScore,
}

impl Point {
    /// Every point, in the order of the cycle.
    pub const ALL: [Self; 14] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
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

/// A plugin of kube-scheduler 1.36: where it takes part, and its weight among the scores, 0 where it gives none.
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
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PostFilter, PreBind, PreEnqueue,
    PreFilter, PreScore, QueueSort, Reserve, Score,
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
    built_in("DefaultPreemption", &[PreEnqueue, PostFilter], 0),
    built_in("NodeResourcesBalancedAllocation", &[PreScore, Score], 1),
    built_in("ImageLocality", &[Score], 1),
    built_in("DefaultBinder", &[Bind], 0),
    built_in("NodeDeclaredFeatures", FILTERS, 0),
];

/// Plugins that go by what evictd's agents say; no profile has them unless it names them.
static OF_AGENTS: [BuiltIn; 3] = [
    built_in("EvictdPressure", &[Filter], 0),
    built_in("EvictdHeadroom", &[Score], 1),
    built_in("EvictdReturn", &[Filter], 0),
];

/// Plugins that kube-scheduler has where its gates for gangs are on. Here they are at work in every profile, so that
/// naming one changes nothing.
static OF_GANGS: [BuiltIn; 3] = [
    built_in("GangScheduling", &[PreEnqueue, Permit], 0),
    built_in("TopologyPlacementGenerator", &[PlacementGenerate], 0),
    built_in("PodGroupPodsCount", &[PlacementScore], 1),
];

/// Every plugin that is built in.
pub(super) fn known() -> impl Iterator<Item = &'static BuiltIn> {
    DEFAULT.iter().chain(&OF_AGENTS).chain(&OF_GANGS)
}

/// The plugins of a profile at each point, in their order; those that score with their weight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Points {
    at: BTreeMap<Point, Vec<String>>,
    weights: BTreeMap<String, i64>,
}

impl Points {
    /// The plugins that are asked at a point.
    pub fn at(&self, point: Point) -> &[String] {
        self.at.get(&point).map_or(&[], Vec::as_slice)
    }

    /// How much a plugin's score counts.
    pub fn weight(&self, name: &str) -> i64 {
        self.weights.get(name).copied().unwrap_or(1)
    }

    /// Merges the defaults with what a profile says. `points_of` tells where a plugin takes part.
    pub(super) fn new(plugins: &wire::Plugins, points_of: impl Fn(&str) -> Vec<Point>) -> Self {
        let multi_point = merged(&plugins.multi_point);
        let mut points = Self::default();
        for point in Point::ALL {
            let own = point.of(plugins);
            let names = expanded(own, &multi_point, |name| points_of(name).contains(&point));
            points.at.insert(point, names);
        }
        let scores = plugins.score.enabled.iter().chain(&multi_point);
        for named in scores {
            if points.at(Point::Score).contains(&named.name) {
                let weight = named.weight.filter(|weight| *weight != 0).unwrap_or(1);
                points.weights.entry(named.name.clone()).or_insert(weight);
            }
        }
        points
    }
}

/// The defaults for all points together, with what the profile says of them.
fn merged(own: &wire::PluginSet) -> Vec<Named> {
    let disabled = |name: &str| own.disabled.iter().any(|off| off.name == name);
    let mut left: Vec<Named> = own.enabled.clone();
    let mut merged = Vec::new();
    for default in DEFAULT.iter().filter(|_| !disabled("*")) {
        if disabled(default.name) {
            continue;
        }
        // One that is configured anew keeps its place.
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

/// The plugins of one point: first those that this point configures anew, then those of all points, then those that only
/// this point has.
fn expanded(
    own: &wire::PluginSet,
    multi_point: &[Named],
    takes_part: impl Fn(&str) -> bool,
) -> Vec<String> {
    let disabled = |name: &str| own.disabled.iter().any(|off| off.name == name);
    let enabled = |name: &str| own.enabled.iter().any(|on| on.name == name);
    let names = |plugins: &[Named]| {
        plugins
            .iter()
            .map(|own| own.name.clone())
            .collect::<Vec<_>>()
    };
    if disabled("*") {
        return names(&own.enabled);
    }
    let everywhere: Vec<Named> = multi_point
        .iter()
        .filter(|named| takes_part(&named.name) && !disabled(&named.name))
        .cloned()
        .collect();
    let is_everywhere = |name: &str| everywhere.iter().any(|named| named.name == name);
    let (anew, only): (Vec<Named>, Vec<Named>) = own
        .enabled
        .iter()
        .cloned()
        .partition(|named| is_everywhere(&named.name));
    let others: Vec<Named> = everywhere
        .iter()
        .filter(|named| !enabled(&named.name))
        .cloned()
        .collect();
    [names(&anew), names(&others), names(&only)].concat()
}
