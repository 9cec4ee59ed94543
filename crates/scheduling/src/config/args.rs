//! The arguments of the built-in plugins.

use super::text::{is_label_name, with_nearest};
use super::wire::{self, Named};
use super::{FieldErrors, Point, points, unknown};
use evictd_placement::plugins::{
    Ignored, InterPodAffinity, NodeResourcesBalancedAllocation, NodeResourcesFit, Strategy,
    WeightedResource,
};
use evictd_pod::duration;
use evictd_pod::selector::NodeTerm;
use evictd_pod::wire::{NodeAffinity, NodeSelectorTerm, TopologySpreadConstraint};
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// How pods are spread that say nothing about it.
#[derive(Debug, Clone, Default)]
pub enum SpreadDefaults {
    /// As Kubernetes itself wants it.
    #[default]
    System,
    /// By these constraints; none: not at all.
    List(Vec<TopologySpreadConstraint>),
}

/// The arguments of the built-in plugins that have any.
#[derive(Debug, Clone)]
pub struct Args {
    /// `NodeResourcesFitArgs`.
    pub fit: NodeResourcesFit,
    /// `NodeResourcesBalancedAllocationArgs`.
    pub balanced: NodeResourcesBalancedAllocation,
    /// `InterPodAffinityArgs`.
    pub affinity: InterPodAffinity,
    /// `NodeAffinityArgs`: what is demanded of nodes beside the pods' own affinity.
    pub added_affinity: Option<NodeAffinity>,
    /// `PodTopologySpreadArgs`.
    pub spread: SpreadDefaults,
    /// `VolumeBindingArgs`: how long volumes may take to be bound.
    pub bind_timeout_seconds: i64,
    /// `VolumeBindingArgs`: the shape of a score that is off in kube-scheduler by default, and always here.
    pub binding_shape: Vec<(i64, i64)>,
    /// `DefaultPreemptionArgs`: of how many nodes, in percent and at least, kube-scheduler looks for candidates; here of all.
    pub candidate_nodes: (i64, i64),
    /// `DynamicResourcesArgs`: how long devices may be looked for on a node; zero for as long as it takes.
    pub filter_timeout: SignedDuration,
    /// `DynamicResourcesArgs`: how long devices may take to be bound.
    pub binding_timeout: SignedDuration,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            fit: NodeResourcesFit::default(),
            balanced: NodeResourcesBalancedAllocation::default(),
            affinity: InterPodAffinity::default(),
            added_affinity: None,
            spread: SpreadDefaults::System,
            bind_timeout_seconds: 600,
            binding_shape: Vec::new(),
            candidate_nodes: (10, 100),
            filter_timeout: SignedDuration::from_secs(10),
            binding_timeout: SignedDuration::from_mins(10),
        }
    }
}

impl PartialEq for Args {
    /// By what they say.
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// The arguments of a profile's plugins, and those of plugins that are not built in.
pub(super) fn read(
    field: &str,
    all: &[wire::PluginConfig],
    own: &[(&str, &[Point])],
    mistakes: &mut FieldErrors,
) -> (Args, BTreeMap<String, Value>) {
    let (mut args, mut custom_args) = (Args::default(), BTreeMap::new());
    for (index, config) in all.iter().enumerate() {
        let (name, field) = (
            config.name.as_str(),
            format!("{field}.pluginConfig[{index}]"),
        );
        if all[..index].iter().any(|other| other.name == config.name) {
            mistakes.add(
                format!("{field}.name"),
                format!("{name} is configured twice"),
            );
            continue;
        }
        let built_in = points::known().any(|own| own.name == name);
        let is_own = own.iter().any(|(own, _)| *own == name);
        if !built_in && !is_own {
            mistakes.add(format!("{field}.name"), unknown(name, own));
            continue;
        }
        let value = config
            .args
            .clone()
            .unwrap_or(Value::Object(serde_json::Map::new()));
        if is_own {
            custom_args.insert(name.to_owned(), value);
            continue;
        }
        args.read(
            name,
            &Field {
                path: format!("{field}.args"),
                value,
            },
            mistakes,
        );
    }
    (args, custom_args)
}

/// The arguments of one plugin as they are written.
struct Field {
    path: String,
    value: Value,
}

impl Field {
    /// Arguments of a kind; `None` where they cannot be read.
    fn parse<T: DeserializeOwned>(&self, kind: &str, mistakes: &mut FieldErrors) -> Option<T> {
        let named = self.value.get("kind").and_then(Value::as_str);
        if named.is_some_and(|named| named != kind) {
            mistakes.add(format!("{}.kind", self.path), format!("must be {kind}"));
        }
        let parsed = serde_path_to_error::deserialize(&self.value);
        let told = |error: serde_path_to_error::Error<serde_json::Error>| {
            let within = error.path().to_string();
            let dot = if within == "." { "" } else { "." };
            let path = format!("{}{dot}{}", self.path, within.trim_matches('.'));
            mistakes.add(path, with_nearest(&error.inner().to_string()));
        };
        parsed.map_err(told).ok()
    }
}

impl Args {
    fn read(&mut self, name: &str, field: &Field, mistakes: &mut FieldErrors) {
        match name {
            "NodeResourcesFit" => {
                if let Some(wire) = field.parse("NodeResourcesFitArgs", mistakes) {
                    self.fit = fit(&field.path, wire, mistakes);
                }
            }
            "NodeResourcesBalancedAllocation" => {
                let kind = "NodeResourcesBalancedAllocationArgs";
                if let Some(wire::BalancedArgs { resources, .. }) = field.parse(kind, mistakes)
                    && !resources.is_empty()
                {
                    let at = format!("{}.resources", field.path);
                    self.balanced.resources = weighted(&at, &resources, 1, mistakes);
                }
            }
            "InterPodAffinity" => {
                let read: Option<wire::AffinityArgs> =
                    field.parse("InterPodAffinityArgs", mistakes);
                let read = read.unwrap_or_default();
                let hard = read.hard_pod_affinity_weight.unwrap_or(1);
                mistakes.within(
                    &format!("{}.hardPodAffinityWeight", field.path),
                    hard,
                    0,
                    100,
                );
                self.affinity.hard_weight = hard;
                self.affinity.ignore_preferred_of_others =
                    read.ignore_preferred_terms_of_existing_pods;
            }
            "NodeAffinity" => {
                let read: Option<wire::NodeAffinityArgs> =
                    field.parse("NodeAffinityArgs", mistakes);
                self.added_affinity = read.and_then(|read| read.added_affinity);
                if let Some(added) = &self.added_affinity {
                    check_affinity(&format!("{}.addedAffinity", field.path), added, mistakes);
                }
            }
            "PodTopologySpread" => {
                if let Some(wire) = field.parse("PodTopologySpreadArgs", mistakes) {
                    self.spread = spread(&field.path, wire, mistakes);
                }
            }
            "DefaultPreemption" => self.candidate_nodes = preemption(field, mistakes),
            "VolumeBinding" => self.volume_binding(field, mistakes),
            "DynamicResources" => self.dynamic_resources(field, mistakes),
            // The others have none.
            _ => {}
        }
    }

    fn volume_binding(&mut self, field: &Field, mistakes: &mut FieldErrors) {
        let read: Option<wire::BindingArgs> = field.parse("VolumeBindingArgs", mistakes);
        let read = read.unwrap_or_default();
        let seconds = read.bind_timeout_seconds.unwrap_or(600);
        mistakes.within(
            &format!("{}.bindTimeoutSeconds", field.path),
            seconds,
            0,
            i64::MAX,
        );
        self.bind_timeout_seconds = seconds;
        if !read.shape.is_empty() {
            self.binding_shape = shape_of(&format!("{}.shape", field.path), &read.shape, mistakes);
        }
    }

    fn dynamic_resources(&mut self, field: &Field, mistakes: &mut FieldErrors) {
        let read: Option<wire::DynamicResourcesArgs> =
            field.parse("DynamicResourcesArgs", mistakes);
        let read = read.unwrap_or_default();
        let mut within = |name: &str, text: Option<String>, least: i64, default| {
            let Some(text) = text else { return default };
            let least = SignedDuration::from_secs(least);
            duration::parse(&text)
                .ok()
                .filter(|parsed| *parsed >= least)
                .unwrap_or_else(|| {
                    let message =
                        format!("{text:?}: must be a duration like 10s, at least {least:#}");
                    mistakes.add(format!("{}.{name}", field.path), message);
                    default
                })
        };
        self.filter_timeout = within("filterTimeout", read.filter_timeout, 0, self.filter_timeout);
        self.binding_timeout = within(
            "bindingTimeout",
            read.binding_timeout,
            1,
            self.binding_timeout,
        );
    }
}

/// Notes requirements that no selector of nodes can have.
fn check_affinity(field: &str, added: &NodeAffinity, mistakes: &mut FieldErrors) {
    let required = added
        .required
        .iter()
        .flat_map(|own| &own.node_selector_terms)
        .enumerate()
        .map(|(index, term)| {
            let list = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
            (format!("{field}.{list}[{index}]"), term)
        });
    let preferred = added.preferred.iter().enumerate().map(|(index, own)| {
        let list = "preferredDuringSchedulingIgnoredDuringExecution";
        (
            format!("{field}.{list}[{index}].preference"),
            &own.preference,
        )
    });
    let terms: Vec<(String, &NodeSelectorTerm)> = required.chain(preferred).collect();
    for (at, term) in terms {
        if let Err(error) = NodeTerm::<&str>::new(term, &mut |text| text) {
            mistakes.add(at, error.to_string());
        }
    }
}

/// How many candidates are enough is checked, though here all nodes are tried.
fn preemption(field: &Field, mistakes: &mut FieldErrors) -> (i64, i64) {
    let read: Option<wire::PreemptionArgs> = field.parse("DefaultPreemptionArgs", mistakes);
    let read = read.unwrap_or_default();
    let percent = read.min_candidate_nodes_percentage.unwrap_or(10);
    let absolute = read.min_candidate_nodes_absolute.unwrap_or(100);
    let path = &field.path;
    mistakes.within(
        &format!("{path}.minCandidateNodesPercentage"),
        percent,
        0,
        100,
    );
    mistakes.within(
        &format!("{path}.minCandidateNodesAbsolute"),
        absolute,
        0,
        i64::MAX,
    );
    if percent == 0 && absolute == 0 {
        mistakes.add(
            path,
            "minCandidateNodesPercentage and minCandidateNodesAbsolute must not both be 0",
        );
    }
    (percent, absolute)
}

/// Resources with their weights; 0 stands for 1.
fn weighted(
    field: &str,
    resources: &[Named],
    most: i64,
    mistakes: &mut FieldErrors,
) -> Vec<WeightedResource> {
    let mut weighted: Vec<WeightedResource> = Vec::new();
    for (index, own) in resources.iter().enumerate() {
        let weight = own.weight.filter(|weight| *weight != 0).unwrap_or(1);
        mistakes.within(&format!("{field}[{index}].weight"), weight, 1, most);
        if own.name.is_empty() {
            mistakes.add(format!("{field}[{index}].name"), "is missing");
        }
        if weighted.iter().any(|(name, _)| *name == own.name) {
            mistakes.add(
                format!("{field}[{index}].name"),
                format!("{} is there twice", own.name),
            );
        }
        weighted.push((own.name.clone(), weight));
    }
    weighted
}

fn fit(field: &str, wire: wire::FitArgs, mistakes: &mut FieldErrors) -> NodeResourcesFit {
    let mut fit = NodeResourcesFit {
        ignored: Ignored {
            resources: wire.ignored_resources,
            groups: wire.ignored_resource_groups,
        },
        ..NodeResourcesFit::default()
    };
    for (index, resource) in fit.ignored.resources.iter().enumerate() {
        if !is_label_name(resource) {
            mistakes.add(
                format!("{field}.ignoredResources[{index}]"),
                format!("{resource:?}: is no name of a resource, like example.com/gpu"),
            );
        }
    }
    for (index, group) in fit.ignored.groups.iter().enumerate() {
        if group.contains('/') || !is_label_name(group) {
            mistakes.add(
                format!("{field}.ignoredResourceGroups[{index}]"),
                format!("{group:?}: must be what stands before the slash, like example.com"),
            );
        }
    }
    let Some(strategy) = wire.scoring_strategy else {
        return fit;
    };
    let at = format!("{field}.scoringStrategy");
    if !strategy.resources.is_empty() {
        fit.resources = weighted(
            &format!("{at}.resources"),
            &strategy.resources,
            100,
            mistakes,
        );
    }
    let ratio = format!("{at}.requestedToCapacityRatio");
    let kind = strategy.kind.unwrap_or_default();
    if kind != "RequestedToCapacityRatio" && strategy.requested_to_capacity_ratio.is_some() {
        mistakes.add(
            &ratio,
            "must be absent unless type is RequestedToCapacityRatio",
        );
    }
    fit.strategy = match kind.as_str() {
        "LeastAllocated" => Strategy::LeastAllocated,
        "MostAllocated" => Strategy::MostAllocated,
        "RequestedToCapacityRatio" => {
            let shape = strategy.requested_to_capacity_ratio.unwrap_or_default();
            let shape = shape_of(&format!("{ratio}.shape"), &shape.shape, mistakes);
            Strategy::RequestedToCapacityRatio(shape)
        }
        other => {
            mistakes.add(
                format!("{at}.type"),
                format!(
                    "{other:?}: must be LeastAllocated, MostAllocated or RequestedToCapacityRatio"
                ),
            );
            Strategy::LeastAllocated
        }
    };
    fit
}

/// The points of the line, from left to right.
fn shape_of(field: &str, shape: &[wire::Point], mistakes: &mut FieldErrors) -> Vec<(i64, i64)> {
    if shape.is_empty() {
        mistakes.add(field, "at least one point is needed");
    }
    for (index, point) in shape.iter().enumerate() {
        mistakes.within(
            &format!("{field}[{index}].utilization"),
            point.utilization,
            0,
            100,
        );
        mistakes.within(&format!("{field}[{index}].score"), point.score, 0, 10);
        if index > 0 && shape[index - 1].utilization >= point.utilization {
            mistakes.add(
                format!("{field}[{index}].utilization"),
                "must be above that of the point before",
            );
        }
    }
    shape
        .iter()
        .map(|point| (point.utilization, point.score))
        .collect()
}

fn spread(field: &str, wire: wire::SpreadArgs, mistakes: &mut FieldErrors) -> SpreadDefaults {
    let at = format!("{field}.defaultConstraints");
    match wire.defaulting_type.as_deref() {
        None | Some("" | "System") => {
            if !wire.default_constraints.is_empty() {
                mistakes.add(at, "needs defaultingType: List");
            }
            SpreadDefaults::System
        }
        Some("List") => {
            check_constraints(&at, &wire.default_constraints, mistakes);
            SpreadDefaults::List(wire.default_constraints)
        }
        Some(other) => {
            mistakes.add(
                format!("{field}.defaultingType"),
                format!("{other:?}: must be System or List"),
            );
            SpreadDefaults::System
        }
    }
}

fn check_constraints(
    field: &str,
    constraints: &[TopologySpreadConstraint],
    mistakes: &mut FieldErrors,
) {
    for (index, own) in constraints.iter().enumerate() {
        let at = format!("{field}[{index}]");
        mistakes.within(
            &format!("{at}.maxSkew"),
            i64::from(own.max_skew),
            1,
            i64::MAX,
        );
        if !is_label_name(&own.topology_key) {
            mistakes.add(
                format!("{at}.topologyKey"),
                format!("{:?}: must be the key of a label", own.topology_key),
            );
        }
        let action = own.when_unsatisfiable.as_str();
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            mistakes.add(
                format!("{at}.whenUnsatisfiable"),
                format!("{action:?}: must be DoNotSchedule or ScheduleAnyway"),
            );
        }
        if own.label_selector.is_some() {
            mistakes.add(
                format!("{at}.labelSelector"),
                "must be absent: it follows from services and owners",
            );
        }
        let same = |other: &TopologySpreadConstraint| {
            (&other.topology_key, &other.when_unsatisfiable)
                == (&own.topology_key, &own.when_unsatisfiable)
        };
        if constraints[..index].iter().any(same) {
            mistakes.add(at, "another one has this topologyKey and whenUnsatisfiable");
        }
    }
}
