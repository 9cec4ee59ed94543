//! The result of an attempt as JSON.

use crate::attempt::{Case, Gang, Status};
use evictd_placement::{NodeId, device_choices};
use evictd_pod::resources::{CPU, MEMORY, quantity};
use evictd_pod::wire;
use evictd_preemption::{Compat, PlanError, Victim, breaking, budgets_of};
use evictd_scheduling::{
    ClaimRef, Filtered, NotTried, PluginName, PostFilterResult, PreemptionInput, Scores,
    simulation::claims, suggestions, waking_events,
};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The result of `explain`. Its stable keys are those of a decision of kube-scheduler. Empty ones are left out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// `namespace/name`.
    pub(super) pod: String,
    /// The nodes that passed every filter.
    pub(super) feasible: Vec<String>,
    /// The rejection of each other node that was tried.
    pub(super) filter_status: BTreeMap<String, Status>,
    /// Whether nodes were scored. Absent if none is feasible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scored: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) scores: BTreeMap<String, Scored>,
    /// The amounts behind the scores of each node, with the pod: of those allocatable. A container that requests nothing counts with
    /// 100m cpu and 200Mi memory. They are no part of the scores, whose keys are kube-scheduler's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) amounts: BTreeMap<String, BTreeMap<&'static str, String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) top: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) weights: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) skipped_score_plugins: BTreeSet<String>,
    /// The devices that each feasible node gives to the claims that have none, by node and claim.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) allocations: BTreeMap<String, BTreeMap<String, Value>>,
    /// The first node by name among those with the best score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chosen: Option<String>,
    /// The next node by score and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner_up: Option<String>,
    /// How many pods like it fit beside each other, this one included, up to [`evictd_scheduling::MOST_REPLICAS`]. Absent if one
    /// of its claims cannot be copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replicas: Option<usize>,
    /// Why the scheduler does not try the pod. The other fields are empty then, except for a pod that waits for its claim: they are
    /// those of the attempt that a profile without this wait makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_tried: Option<String>,
    /// The gang of the pod. The chosen node is that of the pod in it, and absent if the gang is not placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gang: Option<Gang>,
    /// The error with which the attempt ends, because a filter could not decide about a node and no other one is feasible. The
    /// condition has the reason `SchedulerError` then, and the pod is tried again after its backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(flatten)]
    pub(super) failure: Option<Failure>,
    /// Why the nodes that passed the most filters reject the pod, with amounts and names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) obstacles: BTreeMap<String, String>,
    /// The objects that keep the pod from every node: claims, their classes and volumes, holders of devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) blockers: Vec<String>,
    /// The nodes that need the least come first. For each of them, lists of changes after which the pod would fit. Any of the lists is enough, and
    /// each was tried on the cluster.
    #[serde(rename = "remedies", skip_serializing_if = "IndexMap::is_empty")]
    pub(super) suggestions: IndexMap<String, Vec<Vec<String>>>,
    /// The events after which the pod is tried again, with the plugins that registered them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) wakes: BTreeMap<&'static str, Vec<&'static str>>,
    /// Objects that the pod needs and the input lacks, with the checks that need them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unchecked: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// The score of a node.
#[derive(Debug, Serialize)]
pub(super) struct Scored {
    pub(super) total: i64,
    /// By plugin: the raw, the normalized (0 to 100) and the weighted score.
    pub(super) plugins: BTreeMap<String, [i64; 3]>,
}

/// The result for a pod that fits on no node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    pub(super) fit_error: String,
    pub(super) unschedulable_plugins: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pre_filter_message: Option<String>,
    /// Whether other pods would be preempted for it.
    pub(super) preempts: bool,
    /// The node that would be freed for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nominated: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) victims: Vec<String>,
    /// The budgets that the preemption violates.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) violated_budgets: BTreeSet<String>,
    /// The claim whose devices are given back first, because the pod cannot use them where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deallocates: Option<String>,
    /// The nodes that the pod fits on after that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) feasible_then: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// The writes to claims before the next attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) writes: Vec<String>,
}

impl Answer {
    pub(crate) fn new(case: &mut Case) -> Result<Self, PlanError> {
        let waits_for_claim = matches!(case.not_tried, Some(NotTried::NoClaim(_)));
        if let Some(reason) = &case.not_tried
            && !waits_for_claim
        {
            return Ok(Self {
                pod: case.cluster.full_name(&case.pod),
                not_tried: Some(reason.to_string()),
                warnings: case.warnings(),
                ..Self::default()
            });
        }
        let gang = case.place_gang().map(Gang::of);
        let Case {
            cluster,
            pod,
            framework,
            ..
        } = &*case;
        let filtered = framework.filter(cluster, pod);
        let name = |id: &NodeId| cluster.node_name(*id).to_owned();
        let mut answer = Self {
            pod: cluster.full_name(pod),
            feasible: sorted(filtered.feasible.iter().map(name)),
            allocations: allocations(case, &filtered),
            filter_status: case.statuses(&filtered),
            unchecked: case.unchecked(),
            warnings: case.warnings(),
            not_tried: case.not_tried.as_ref().map(ToString::to_string),
            ..Self::default()
        };
        if filtered.feasible.is_empty() {
            answer.fail(case, &filtered, gang)?;
            return Ok(answer);
        }
        let scores = framework.score(cluster, pod, &filtered.feasible);
        answer.scored = Some(scores.is_some());
        let scores = scores.unwrap_or_default();
        answer.choose(case, &filtered, &scores);
        answer.top = if scores.totals.is_empty() {
            answer.feasible.clone()
        } else {
            sorted(scores.top(&filtered.feasible).iter().map(name))
        };
        let weights = scores.plugins.iter();
        answer.weights = weights
            .map(|plugin| (plugin.name.clone(), plugin.weight))
            .collect();
        answer.skipped_score_plugins = scores.skipped.into_iter().collect();
        answer.replicas = case.replicas();
        if let Some(gang) = gang {
            answer.chosen = gang.placed.get(&answer.pod).cloned();
            answer.gang = Some(gang);
        }
        Ok(answer)
    }

    /// Adds why the pod fits on no node, and what would help.
    fn fail(
        &mut self,
        case: &mut Case,
        filtered: &Filtered,
        gang: Option<Gang>,
    ) -> Result<(), PlanError> {
        let Case {
            cluster,
            pod,
            framework,
            ..
        } = &*case;
        self.error = case.error(filtered);
        if self.error.is_none() {
            let input = PreemptionInput::new(case.victim_rules());
            let failure = framework.post_filter(cluster, pod, filtered, input)?;
            let rejectors = failure
                .plugins
                .iter()
                .map(|name| PluginName::parse(name).unwrap_or(PluginName::Other));
            self.wakes = waking_events(rejectors.collect()).into_iter().collect();
            let obstacles = framework.obstacles(cluster, pod, filtered, NEAREST);
            self.obstacles = obstacles.into_iter().collect();
            let mut failure = Failure::of(case, filtered, failure);
            if gang.is_some() {
                failure.preempts_with_gang();
            }
            failure.feasible_then = feasible_after_deallocation(case, &failure);
            self.failure = Some(failure);
        }
        self.blockers = case.blockers();
        self.suggestions = suggestions_for(case, filtered);
        self.gang = gang;
        Ok(())
    }

    /// The message of the pod's condition, if it is tried and fits on no node.
    pub(super) fn message(&self) -> Option<String> {
        if self.not_tried.is_some() {
            return None;
        }
        let error = self.error.as_ref();
        let error = error.map(|error| format!("{error} (SchedulerError)"));
        let failure = self.failure.as_ref();
        error.or_else(|| {
            let failure = failure?;
            let message = failure.message.as_ref();
            Some(message.unwrap_or(&failure.fit_error).clone())
        })
    }

    /// Sets the scores, the chosen node and the next best one.
    fn choose(&mut self, case: &Case, filtered: &Filtered, scores: &Scores) {
        let nodes = filtered.feasible.iter().enumerate();
        let mut order: Vec<(i64, String)> = Vec::new();
        for (index, id) in nodes {
            let name = case.cluster.node_name(*id).to_owned();
            let Some(total) = scores.totals.get(index) else {
                order.push((0, name));
                continue;
            };
            let plugins = scores.plugins.iter().map(|plugin| {
                let (raw, normalized) = (plugin.raw[index], plugin.normalized[index]);
                let scores = [raw, normalized, normalized * plugin.weight];
                (plugin.name.clone(), scores)
            });
            let node_scores = Scored {
                total: *total,
                plugins: plugins.collect(),
            };
            // Negative, so that the highest total comes first and equal ones are sorted by name.
            order.push((-total, name.clone()));
            self.amounts.insert(name.clone(), amounts(case, *id));
            self.scores.insert(name, node_scores);
        }
        order.sort();
        let mut names = order.into_iter().map(|(_, name)| name);
        self.chosen = names.next();
        self.runner_up = names.next();
    }
}

/// `835m of 8`
fn amounts(case: &Case, id: NodeId) -> BTreeMap<&'static str, String> {
    let (node, pod) = (case.cluster.node(id), &case.pod);
    // As in kube-scheduler, scoring ignores pod-level requests.
    let of_containers = pod.identity.of_containers.as_ref();
    let requested = of_containers.map_or(pod.scored, |of_containers| of_containers.1);
    let used = [
        (CPU, node.scored.cpu + requested.cpu, node.allocatable.cpu),
        (
            MEMORY,
            node.scored.memory + requested.memory,
            node.allocatable.memory,
        ),
    ];
    let text = |resource, used, all| {
        let (used, all) = (quantity(resource, used), quantity(resource, all));
        (resource, format!("{used} of {all}"))
    };
    used.into_iter()
        .map(|(resource, used, all)| text(resource, used, all))
        .collect()
}

/// The devices on each feasible node.
fn allocations(case: &Case, filtered: &Filtered) -> BTreeMap<String, BTreeMap<String, Value>> {
    let (cluster, pod) = (&case.cluster, &case.pod);
    let nodes = filtered.feasible.iter().filter_map(|id| {
        let choices = device_choices(cluster, pod, *id).into_iter();
        let claims =
            choices.filter_map(|choice| Some((choice.claim.clone(), claims::choice(&choice)?)));
        let claims: BTreeMap<String, Value> = claims.collect();
        (!claims.is_empty()).then(|| (cluster.node_name(*id).to_owned(), claims))
    });
    nodes.collect()
}

/// The writes that take devices back.
fn writes(claim: &ClaimRef) -> Vec<String> {
    let name = format!("{}/{}", claim.namespace, claim.name);
    if claim.is_special {
        vec![
            format!("update resourceclaims {name}"),
            format!("delete resourceclaims {name}"),
        ]
    } else {
        vec![format!("update resourceclaims/status {name}")]
    }
}

/// The most nodes with obstacles or suggestions.
const NEAREST: usize = 5;

/// The budgets that the eviction of these pods of a node violates.
fn violated_budgets(case: &Case, victims: &[Victim]) -> BTreeSet<String> {
    let (cluster, budgets) = (&case.cluster, &case.budgets);
    let victims = || victims.iter().map(|victim| victim.pod(cluster));
    let breaks = breaking(cluster, budgets, victims());
    let breaking = victims().zip(breaks).filter(|(_, breaks)| *breaks);
    let names = breaking.flat_map(|(pod, _)| budgets_of(cluster, budgets, pod, Compat::V1_36));
    names.map(str::to_owned).collect()
}

/// The nodes that the pod fits on when the devices of the claim have been given back. The cluster is restored.
fn feasible_after_deallocation(case: &mut Case, failure: &Failure) -> Vec<String> {
    let claim = failure.deallocates.as_deref();
    let Some((namespace, name)) = claim.and_then(|claim| claim.split_once('/')) else {
        return Vec::new();
    };
    let Some(before) = case.cluster.devices().claim(namespace, name).cloned() else {
        return Vec::new();
    };
    let mut free = before.clone();
    free.status = wire::ResourceClaimState::default();
    case.cluster.devices_mut().put_claim(free);
    let feasible = case.filter().feasible.into_iter();
    let names = feasible.map(|id| case.cluster.node_name(id).to_owned());
    let names = sorted(names);
    case.cluster.devices_mut().put_claim(before);
    names
}

fn suggestions_for(case: &mut Case, filtered: &Filtered) -> IndexMap<String, Vec<Vec<String>>> {
    let Case {
        cluster,
        framework,
        wire,
        ..
    } = case;
    let nodes = suggestions(cluster, framework, wire, filtered, NEAREST).into_iter();
    let texts = |changes: Vec<_>| changes.iter().map(ToString::to_string).collect();
    nodes
        .map(|node| {
            let alternatives = node.alternatives.into_iter().map(texts);
            (node.node, alternatives.collect())
        })
        .collect()
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

impl Failure {
    fn of(case: &Case, filtered: &Filtered, failure: PostFilterResult) -> Self {
        let cluster = &case.cluster;
        let plan = failure.plan.as_ref();
        let chosen = plan.and_then(|plan| Some((plan, plan.choice()?)));
        let victims = chosen.map(|(plan, choice)| {
            let victims = plan.victims(choice).iter();
            victims
                .map(|victim| cluster.full_name(victim.pod(cluster)))
                .collect()
        });
        let before = filtered.pre_filter_rejection();
        Self {
            preempts: chosen.is_some(),
            nominated: chosen.map(|(_, choice)| cluster.node_name(choice.node).to_owned()),
            victims: victims.unwrap_or_default(),
            violated_budgets: chosen.map_or_else(BTreeSet::new, |(plan, choice)| {
                violated_budgets(case, plan.victims(choice))
            }),
            deallocates: failure
                .deallocates
                .as_ref()
                .map(|claim| format!("{}/{}", claim.namespace, claim.name)),
            feasible_then: Vec::new(),
            fit_error: failure.fit_error,
            unschedulable_plugins: failure.plugins,
            pre_filter_message: before.map(|(_, reason)| reason.to_owned()),
            message: failure.message,
            writes: failure.deallocates.as_ref().map(writes).unwrap_or_default(),
        }
    }

    /// A pod of a gang does not preempt alone (S4-039).
    fn preempts_with_gang(&mut self) {
        self.preempts = false;
        self.nominated = None;
        self.victims.clear();
        self.message = Some(self.fit_error.clone());
    }
}
