//! The arguments of the built-in plugins.

use super::file::ENOUGH;
use super::text::is_label_name;
use super::wire::{self, Named};
use super::{FieldErrors, Point, points, unknown};
use evictd_configuration::{WrongField, joined, read_typed};
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

/// The topology spread constraints of pods that have none.
#[derive(Debug, Clone, Default)]
pub enum SpreadDefaults {
    /// The defaults of kube-scheduler.
    #[default]
    System,
    /// These constraints. An empty list spreads no pod.
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
    /// `NodeAffinityArgs`: the affinity that is added to that of every pod.
    pub added_affinity: Option<NodeAffinity>,
    /// `PodTopologySpreadArgs`.
    pub spread: SpreadDefaults,
    /// `VolumeBindingArgs`: the timeout of a volume binding.
    pub bind_timeout_seconds: i64,
    /// `VolumeBindingArgs`: the score by the share of storage that is used; empty means the default. The gate
    /// `StorageCapacityScoring` turns the score on.
    pub binding_shape: Vec<(i64, i64)>,
    /// `DefaultPreemptionArgs`: on how many nodes, in percent and at least, kube-scheduler looks for candidates. Here it is all.
    pub candidate_nodes: (i64, i64),
    /// `DefaultPreemptionArgs`: whether pods are evicted for their devices where no other eviction helps. kube-scheduler has no such
    /// field.
    pub frees_devices: bool,
    /// `DynamicResourcesArgs`: the timeout of the search for devices on a node; zero for none.
    pub filter_timeout: SignedDuration,
    /// `DynamicResourcesArgs`: the timeout of a device binding.
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
            frees_devices: false,
            filter_timeout: SignedDuration::from_secs(10),
            binding_timeout: SignedDuration::from_mins(10),
        }
    }
}

impl PartialEq for Args {
    fn eq(&self, other: &Self) -> bool {
        // The plugins in it have no equality.
        format!("{self:?}") == format!("{other:?}")
    }
}

/// The arguments of the built-in plugins of a profile, and those of the custom ones by name.
pub(super) fn read(
    field: &str,
    all: &[wire::PluginConfig],
    custom: &[(&str, &[Point])],
    errors: &mut FieldErrors,
) -> (Args, BTreeMap<String, Value>) {
    let (mut args, mut custom_args) = (Args::default(), BTreeMap::new());
    for (index, config) in all.iter().enumerate() {
        let (name, field) = (
            config.name.as_str(),
            format!("{field}.pluginConfig[{index}]"),
        );
        // As kube-scheduler: the second one would silently replace the first.
        if all[..index].iter().any(|other| other.name == config.name) {
            errors.add(
                format!("{field}.name"),
                format!("{name} is configured twice"),
            );
            continue;
        }
        let is_built_in = points::known().any(|plugin| plugin.name == name);
        let is_custom = custom.iter().any(|(plugin, _)| *plugin == name);
        if !is_built_in && !is_custom {
            errors.add(format!("{field}.name"), unknown(name, custom));
            continue;
        }
        let value = config
            .args
            .clone()
            .unwrap_or(Value::Object(serde_json::Map::new()));
        if is_custom {
            // Only the plugin itself can check them.
            custom_args.insert(name.to_owned(), value);
            continue;
        }
        args.read(
            name,
            &Field {
                path: format!("{field}.args"),
                value,
            },
            errors,
        );
    }
    (args, custom_args)
}

/// The unparsed arguments of one plugin.
struct Field {
    path: String,
    value: Value,
}

impl Field {
    /// `None` if they cannot be read.
    fn parse<T: DeserializeOwned>(&self, kind: &str, errors: &mut FieldErrors) -> Option<T> {
        let named = self.value.get("kind").and_then(Value::as_str);
        if named.is_some_and(|named| named != kind) {
            errors.add(format!("{}.kind", self.path), format!("must be {kind}"));
        }
        let (read, wrong) = read_typed(self.value.clone(), ENOUGH);
        let is_whole = wrong.is_empty();
        for WrongField { key, message, .. } in wrong {
            errors.add(joined(&self.path, &key), message);
        }
        read.filter(|_| is_whole)
    }
}

impl Args {
    fn read(&mut self, name: &str, field: &Field, errors: &mut FieldErrors) {
        match name {
            "NodeResourcesFit" => {
                if let Some(wire) = field.parse("NodeResourcesFitArgs", errors) {
                    self.fit = fit(&field.path, wire, errors);
                }
            }
            "NodeResourcesBalancedAllocation" => {
                let kind = "NodeResourcesBalancedAllocationArgs";
                if let Some(wire::BalancedArgs { resources, .. }) = field.parse(kind, errors)
                    && !resources.is_empty()
                {
                    let at = format!("{}.resources", field.path);
                    self.balanced.resources = weighted(&at, &resources, 1, errors);
                }
            }
            "InterPodAffinity" => {
                let read: Option<wire::AffinityArgs> = field.parse("InterPodAffinityArgs", errors);
                let read = read.unwrap_or_default();
                let hard = read.hard_pod_affinity_weight.unwrap_or(1);
                errors.within(
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
                let read: Option<wire::NodeAffinityArgs> = field.parse("NodeAffinityArgs", errors);
                self.added_affinity = read.and_then(|read| read.added_affinity);
                if let Some(added) = &self.added_affinity {
                    check_affinity(&format!("{}.addedAffinity", field.path), added, errors);
                }
            }
            "PodTopologySpread" => {
                if let Some(wire) = field.parse("PodTopologySpreadArgs", errors) {
                    self.spread = spread(&field.path, wire, errors);
                }
            }
            "DefaultPreemption" => {
                let read = field.parse("DefaultPreemptionArgs", errors);
                let read: wire::PreemptionArgs = read.unwrap_or_default();
                self.frees_devices = read.frees_devices;
                self.candidate_nodes = preemption(&field.path, &read, errors);
            }
            "VolumeBinding" => self.volume_binding(field, errors),
            "DynamicResources" => self.dynamic_resources(field, errors),
            // The other plugins have no arguments.
            _ => {}
        }
    }

    fn volume_binding(&mut self, field: &Field, errors: &mut FieldErrors) {
        let read: Option<wire::BindingArgs> = field.parse("VolumeBindingArgs", errors);
        let read = read.unwrap_or_default();
        let seconds = read.bind_timeout_seconds.unwrap_or(600);
        errors.within(
            &format!("{}.bindTimeoutSeconds", field.path),
            seconds,
            0,
            i64::MAX,
        );
        self.bind_timeout_seconds = seconds;
        if !read.shape.is_empty() {
            self.binding_shape = shape_of(&format!("{}.shape", field.path), &read.shape, errors);
        }
    }

    fn dynamic_resources(&mut self, field: &Field, errors: &mut FieldErrors) {
        let read: Option<wire::DynamicResourcesArgs> = field.parse("DynamicResourcesArgs", errors);
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
                    errors.add(format!("{}.{name}", field.path), message);
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

/// Reports requirements that are invalid in a node selector.
fn check_affinity(field: &str, added: &NodeAffinity, errors: &mut FieldErrors) {
    let required = added
        .required
        .iter()
        .flat_map(|required| &required.node_selector_terms)
        .enumerate()
        .map(|(index, term)| {
            let list = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
            (format!("{field}.{list}[{index}]"), term)
        });
    let preferred = added.preferred.iter().enumerate().map(|(index, term)| {
        let list = "preferredDuringSchedulingIgnoredDuringExecution";
        (
            format!("{field}.{list}[{index}].preference"),
            &term.preference,
        )
    });
    let terms: Vec<(String, &NodeSelectorTerm)> = required.chain(preferred).collect();
    for (at, term) in terms {
        if let Err(error) = NodeTerm::<&str>::new(term, &mut |text| text) {
            errors.add(at, error.to_string());
        }
    }
}

/// The arguments are checked although they have no effect here, so that a file is valid here if kube-scheduler accepts it.
fn preemption(path: &str, read: &wire::PreemptionArgs, errors: &mut FieldErrors) -> (i64, i64) {
    let percent = read.min_candidate_nodes_percentage.unwrap_or(10);
    let absolute = read.min_candidate_nodes_absolute.unwrap_or(100);
    errors.within(
        &format!("{path}.minCandidateNodesPercentage"),
        percent,
        0,
        100,
    );
    errors.within(
        &format!("{path}.minCandidateNodesAbsolute"),
        absolute,
        0,
        i64::MAX,
    );
    if percent == 0 && absolute == 0 {
        errors.add(
            path,
            "minCandidateNodesPercentage and minCandidateNodesAbsolute must not both be 0",
        );
    }
    (percent, absolute)
}

/// The resources with their weights. As in kube-scheduler, weight 0 means 1.
fn weighted(
    field: &str,
    resources: &[Named],
    most: i64,
    errors: &mut FieldErrors,
) -> Vec<WeightedResource> {
    let mut weighted: Vec<WeightedResource> = Vec::new();
    for (index, resource) in resources.iter().enumerate() {
        let weight = resource.weight.filter(|weight| *weight != 0).unwrap_or(1);
        errors.within(&format!("{field}[{index}].weight"), weight, 1, most);
        if resource.name.is_empty() {
            errors.add(format!("{field}[{index}].name"), "is missing");
        }
        if weighted.iter().any(|(name, _)| *name == resource.name) {
            errors.add(
                format!("{field}[{index}].name"),
                format!("{} is there twice", resource.name),
            );
        }
        weighted.push((resource.name.clone(), weight));
    }
    weighted
}

fn fit(field: &str, wire: wire::FitArgs, errors: &mut FieldErrors) -> NodeResourcesFit {
    let mut fit = NodeResourcesFit {
        ignored: Ignored {
            resources: wire.ignored_resources,
            groups: wire.ignored_resource_groups,
        },
        ..NodeResourcesFit::default()
    };
    for (index, resource) in fit.ignored.resources.iter().enumerate() {
        if !is_label_name(resource) {
            errors.add(
                format!("{field}.ignoredResources[{index}]"),
                format!("{resource:?}: is no name of a resource, like example.com/gpu"),
            );
        }
    }
    for (index, group) in fit.ignored.groups.iter().enumerate() {
        if group.contains('/') || !is_label_name(group) {
            errors.add(
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
        fit.resources = weighted(&format!("{at}.resources"), &strategy.resources, 100, errors);
    }
    let ratio = format!("{at}.requestedToCapacityRatio");
    let kind = strategy.kind.unwrap_or_default();
    if kind != "RequestedToCapacityRatio" && strategy.requested_to_capacity_ratio.is_some() {
        errors.add(
            &ratio,
            "must be absent unless type is RequestedToCapacityRatio",
        );
    }
    fit.strategy = match kind.as_str() {
        "LeastAllocated" => Strategy::LeastAllocated,
        "MostAllocated" => Strategy::MostAllocated,
        "RequestedToCapacityRatio" => {
            let shape = strategy.requested_to_capacity_ratio.unwrap_or_default();
            let shape = shape_of(&format!("{ratio}.shape"), &shape.shape, errors);
            Strategy::RequestedToCapacityRatio(shape)
        }
        other => {
            errors.add(
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

/// The points of a piecewise linear function, by utilization.
fn shape_of(field: &str, shape: &[wire::Point], errors: &mut FieldErrors) -> Vec<(i64, i64)> {
    if shape.is_empty() {
        errors.add(field, "at least one point is needed");
    }
    for (index, point) in shape.iter().enumerate() {
        errors.within(
            &format!("{field}[{index}].utilization"),
            point.utilization,
            0,
            100,
        );
        errors.within(&format!("{field}[{index}].score"), point.score, 0, 10);
        if index > 0 && shape[index - 1].utilization >= point.utilization {
            errors.add(
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

fn spread(field: &str, wire: wire::SpreadArgs, errors: &mut FieldErrors) -> SpreadDefaults {
    let at = format!("{field}.defaultConstraints");
    match wire.defaulting_type.as_deref() {
        None | Some("" | "System") => {
            if !wire.default_constraints.is_empty() {
                errors.add(at, "needs defaultingType: List");
            }
            SpreadDefaults::System
        }
        Some("List") => {
            check_constraints(&at, &wire.default_constraints, errors);
            SpreadDefaults::List(wire.default_constraints)
        }
        Some(other) => {
            errors.add(
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
    errors: &mut FieldErrors,
) {
    for (index, constraint) in constraints.iter().enumerate() {
        let at = format!("{field}[{index}]");
        errors.within(
            &format!("{at}.maxSkew"),
            i64::from(constraint.max_skew),
            1,
            i64::MAX,
        );
        if !is_label_name(&constraint.topology_key) {
            errors.add(
                format!("{at}.topologyKey"),
                format!("{:?}: must be the key of a label", constraint.topology_key),
            );
        }
        let action = constraint.when_unsatisfiable.as_str();
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            errors.add(
                format!("{at}.whenUnsatisfiable"),
                format!("{action:?}: must be DoNotSchedule or ScheduleAnyway"),
            );
        }
        if constraint.label_selector.is_some() {
            errors.add(
                format!("{at}.labelSelector"),
                "must be absent: it follows from services and owners",
            );
        }
        let same = |other: &TopologySpreadConstraint| {
            (&other.topology_key, &other.when_unsatisfiable)
                == (&constraint.topology_key, &constraint.when_unsatisfiable)
        };
        if constraints[..index].iter().any(same) {
            errors.add(at, "another one has this topologyKey and whenUnsatisfiable");
        }
    }
}
