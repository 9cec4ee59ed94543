//! Runs many cycles over a timeline of captured summaries, with the same housekeeper as the daemon.

mod leaving;

use crate::{Answer, Housekeeper, Reclaim, Rules, Step, rules::FilesystemLayout};
use evictd_decision::{Cause, Decision, Eviction, Withheld};
use evictd_departures::{Departure, Ending, Event, Purpose};
use evictd_pod::{
    Pod, duration,
    wire::{self, null_is_default},
};
use evictd_signals::{
    NodeCondition, Observations, StarvedResource, Threshold, ThresholdMaps,
    threshold::{self, ThresholdError},
};
use evictd_usage::{Summary, Usage};
use jiff::{SignedDuration, Timestamp};
use leaving::Leaving;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// A simulation file without its `config`, which is parsed according to its kind.
#[derive(Debug, Clone, Deserialize)]
pub struct Timeline {
    /// When the first step begins.
    pub now: Timestamp,
    /// The pods of the node in the first step.
    #[serde(default, deserialize_with = "null_is_default")]
    pub pods: Vec<wire::Pod>,
    /// One entry per cycle, in the order of time.
    #[serde(default, deserialize_with = "null_is_default")]
    pub steps: Vec<TimelineStep>,
}

/// One cycle's input.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineStep {
    /// Seconds after `now`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub offset_seconds: f64,
    /// The node's stats summary; without it the cycle runs as if the stats could not be fetched (S1-026).
    pub summary: Option<Summary>,
    /// The summary after a node-level reclaim.
    pub summary_after_reclaim: Option<Summary>,
    /// Replaces the pods from this step on.
    pub pods: Option<Vec<wire::Pod>>,
}

/// A simulation's `config` without a kind: keys as in the kubelet's configuration, but without its defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlainConfig {
    #[serde(deserialize_with = "null_is_default")]
    eviction_hard: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    eviction_soft: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    eviction_soft_grace_period: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    eviction_minimum_reclaim: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    eviction_max_pod_grace_period: i64,
    #[serde(deserialize_with = "null_is_default")]
    eviction_pressure_transition_period: String,
    #[serde(deserialize_with = "null_is_default")]
    enforce_node_allocatable: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    local_storage_capacity_isolation: bool,
    #[serde(deserialize_with = "null_is_default")]
    dedicated_image_fs: bool,
    #[serde(deserialize_with = "null_is_default")]
    split_container_fs: bool,
}

/// Why a configuration is refused: all mistakes, the one that the kubelet reports first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<String>);

impl PlainConfig {
    /// All keys of such a configuration.
    pub const KEYS: [&str; 10] = [
        "evictionHard",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "evictionMinimumReclaim",
        "evictionMaxPodGracePeriod",
        "evictionPressureTransitionPeriod",
        "enforceNodeAllocatable",
        "localStorageCapacityIsolation",
        "dedicatedImageFs",
        "splitContainerFs",
    ];

    /// The kubelet's rules with this configuration.
    pub fn rules(self) -> Result<Rules, Refused> {
        let maps = ThresholdMaps {
            hard: self.eviction_hard,
            soft: self.eviction_soft,
            soft_grace_period: self.eviction_soft_grace_period,
            minimum_reclaim: self.eviction_minimum_reclaim,
        };
        let thresholds = maps
            .parse()
            .map_err(|errors| errors.iter().map(ThresholdError::to_string).collect());
        let period = match self.eviction_pressure_transition_period.as_str() {
            "" => Ok(SignedDuration::ZERO),
            text => duration::parse(text).map_err(|error| vec![error.to_string()]),
        };
        let (thresholds, period) = match (thresholds, period) {
            (Ok(thresholds), Ok(period)) => (thresholds, period),
            (thresholds, period) => {
                let mistakes = [thresholds.err(), period.err()];
                return Err(Refused(mistakes.into_iter().flatten().flatten().collect()));
            }
        };
        let allocatable = self
            .enforce_node_allocatable
            .iter()
            .any(|key| key == "pods");
        Ok(Rules {
            thresholds: if allocatable {
                threshold::with_allocatable(&thresholds)
            } else {
                thresholds
            },
            pressure_transition_period: period,
            local_storage_capacity_isolation: self.local_storage_capacity_isolation,
            layout: FilesystemLayout {
                dedicated_image_fs: self.dedicated_image_fs,
                split_container_fs: self.split_container_fs,
            },
            max_pod_grace_period_seconds: Some(self.eviction_max_pod_grace_period),
            ..Rules::kubelet()
        })
    }
}

/// The result of a timeline.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The configuration's thresholds, sorted by signal.
    pub thresholds: Vec<Threshold>,
    /// One entry per cycle.
    pub steps: Vec<StepOutcome>,
}

/// The result of one cycle.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutcome {
    /// Conditions that hold, sorted.
    pub node_conditions: Vec<NodeCondition>,
    /// Thresholds that are met and past their grace period, whether or not their observation is new.
    pub thresholds_met: Vec<Threshold>,
    /// Every crossed threshold.
    pub thresholds_first_observed_at: Vec<FirstObserved>,
    /// The starved resource, if a reclaim was attempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaiming: Option<StarvedResource>,
    /// Dead containers had to be deleted.
    #[serde(rename = "containerGC")]
    pub container_gc: bool,
    /// Unused images had to be deleted.
    #[serde(rename = "imageGC")]
    pub image_gc: bool,
    /// `namespace/name` of every pod in ranked order, when pods were ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Vec<String>>,
    /// Pods were evicted because they exceeded a limit of their own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub local_storage_eviction: bool,
    /// The pods that were evicted in this cycle; several only for limits of their own.
    pub evicted: Vec<Eviction>,
    /// Pods that exceed a limit of their own and are never evicted, a sentence each.
    #[serde(skip)]
    pub over_own_limit: Vec<String>,
    /// Why no pod was evicted although a threshold was met; under the kubelet's rules this is always "all spared".
    #[serde(skip)]
    pub decision: Option<Decision>,
    /// The decisions of `evicted`, in the same order.
    #[serde(skip)]
    decisions: Vec<Decision>,
}

/// A crossed threshold and since when.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstObserved {
    /// The threshold that is crossed.
    #[serde(flatten)]
    pub threshold: Threshold,
    /// Offset in seconds of the step that first saw it crossed.
    pub observed_at_seconds: serde_json::Number,
}

/// Runs the whole timeline.
pub fn run(rules: Rules, timeline: Timeline) -> Outcome {
    let mut thresholds = rules.thresholds.clone();
    sort(&mut thresholds);
    let waits = rules.credit_terminating_pods;
    let mut housekeeper = Housekeeper::new(rules);
    let mut leaving = Leaving::default();
    let mut pods: Vec<Pod> = timeline.pods.into_iter().map(Pod::from_wire).collect();
    let mut evicted = BTreeSet::new();
    let mut steps = Vec::new();
    for step in timeline.steps {
        if let Some(replaced) = step.pods {
            pods = replaced.into_iter().map(Pod::from_wire).collect();
        }
        let offset = SignedDuration::try_from_secs_f64(step.offset_seconds).unwrap_or_default();
        let now = timeline.now.saturating_add(offset).unwrap_or(timeline.now);
        // Pods end between two steps, so the figures of this step are without them.
        leaving.end(&mut housekeeper, now, step.summary.as_ref());
        pods.retain(|pod| {
            let gone = evicted.contains(&(pod.full_name(), pod.uid.clone()));
            !pod.terminal && !gone && !leaving.has_ended(pod)
        });
        let mut outcome = StepOutcome::default();
        if let Some(summary) = &step.summary {
            let seen = housekeeper.rules().observed(summary);
            let usage = usage(&mut housekeeper, now, &pods, summary);
            let begun = housekeeper.begin(now, &seen);
            leaving.observe(&mut housekeeper, now, summary, &seen);
            let after_reclaim = step.summary_after_reclaim.as_ref().unwrap_or(summary);
            outcome = turn(
                &mut housekeeper,
                now,
                (&pods[..], &usage),
                after_reclaim,
                begun,
            );
        }
        outcome.describe(&housekeeper, timeline.now);
        for (owner, condition) in outcome.decision.iter().filter_map(|decision| {
            decision.eviction.as_ref()?;
            let condition = decision.acting_signal()?.condition()?;
            Some((decision.owner.as_ref()?, condition))
        }) {
            housekeeper.evicted(now, &owner.owner, condition);
        }
        for (eviction, decision) in outcome.evicted.iter().zip(&outcome.decisions) {
            let pod = &pods[eviction.index];
            if waits {
                leaving.begin(&mut housekeeper, now, (decision, eviction), pod);
            } else {
                leave(&mut housekeeper, now, eviction, &pod.uid);
                evicted.insert((eviction.pod.clone(), pod.uid.clone()));
            }
        }
        outcome.decisions.clear();
        steps.push(outcome);
    }
    Outcome { thresholds, steps }
}

/// Under the kubelet's rules a pod that is evicted in one step has left before the next.
fn leave(housekeeper: &mut Housekeeper, now: Timestamp, eviction: &Eviction, uid: &str) {
    let name = (String::new(), eviction.pod.clone(), uid.to_owned());
    let purpose = Purpose::Eviction {
        cause: Cause::Hard,
        signal: String::new(),
        crossed_at: now,
        clear_at: now,
    };
    let mut departure = Departure::new(name, purpose, now, SignedDuration::ZERO);
    departure.cgroup = Some(PathBuf::new());
    housekeeper.on_event(now, Event::Begin(Box::new(departure)));
    let uid = uid.to_owned();
    let ending = Ending::Gone { at: now };
    housekeeper.on_event(now, Event::Ended { uid, ending });
}

/// One cycle over captured state; [`StepOutcome::describe`] adds the housekeeper's memory.
pub fn cycle(
    housekeeper: &mut Housekeeper,
    now: Timestamp,
    pods: &[impl Borrow<Pod>],
    summary: &Summary,
    after_reclaim: Option<&Summary>,
) -> StepOutcome {
    let usage = usage(housekeeper, now, pods, summary);
    let seen = housekeeper.rules().observed(summary);
    let step = housekeeper.begin(now, &seen);
    let after_reclaim = after_reclaim.unwrap_or(summary);
    turn(housekeeper, now, (pods, &usage), after_reclaim, step)
}

fn usage(
    housekeeper: &mut Housekeeper,
    now: Timestamp,
    pods: &[impl Borrow<Pod>],
    summary: &Summary,
) -> Usage {
    let mut usage = summary.usage(pods);
    if housekeeper.rules().fastest_writer_first {
        let uids = pods.iter().map(|pod| pod.borrow().uid.as_str());
        housekeeper.growth.add(now, uids, &mut usage);
    }
    usage
}

/// Answers the steps of a cycle that has begun.
fn turn(
    housekeeper: &mut Housekeeper,
    now: Timestamp,
    (pods, usage): (&[impl Borrow<Pod>], &Usage),
    after_reclaim: &Summary,
    mut step: Step,
) -> StepOutcome {
    let mut outcome = StepOutcome::default();
    loop {
        let fresh: Observations;
        let answer = match step {
            Step::Rest => return outcome,
            Step::LocalStorage => Answer::LocalStorage(Some((pods, usage))),
            Step::Reclaim(reclaim) => {
                outcome.reclaim(reclaim);
                fresh = housekeeper.rules().observed(after_reclaim);
                Answer::Reclaimed(Some(&fresh))
            }
            Step::Measure(signal) => Answer::Measured(signal, pods, usage),
            Step::Watch(need) => Answer::Watched(need, pods, usage),
            Step::Rank(need) => {
                outcome.reclaiming = Some(need.signal.resource());
                let fresh = None;
                Answer::Ranked {
                    need,
                    pods,
                    usage,
                    fresh,
                }
            }
        };
        let (next, decisions) = housekeeper.answer(now, answer);
        for decision in decisions {
            outcome.decided(decision);
        }
        step = next;
    }
}

impl StepOutcome {
    fn reclaim(&mut self, reclaim: Reclaim) {
        self.reclaiming = Some(reclaim.signal.resource());
        self.container_gc = reclaim.dead_containers;
        self.image_gc = reclaim.unused_images;
    }

    fn decided(&mut self, decision: Decision) {
        if let Some(eviction) = &decision.eviction {
            self.evicted.push(eviction.clone());
            self.decisions.push(decision.clone());
        }
        if decision.kind == Cause::LocalStorage {
            self.local_storage_eviction |= decision.eviction.is_some();
            self.over_own_limit
                .extend(decision.passed_over.map(|one| one.sentence));
            return;
        }
        if decision.withheld != Some(Withheld::NoPods) {
            let ranked = decision.ranked.iter();
            self.ranking = Some(ranked.map(|pod| pod.pod.to_string()).collect());
        }
        self.decision = Some(decision);
    }

    /// Adds the housekeeper's memory after the cycle; times in seconds after `start`.
    pub fn describe(&mut self, housekeeper: &Housekeeper, start: Timestamp) {
        self.node_conditions = housekeeper.conditions().collect();
        self.thresholds_met = housekeeper.thresholds_met().cloned().collect();
        sort(&mut self.thresholds_met);
        let mut first: Vec<(Threshold, Timestamp)> = housekeeper
            .first_observed()
            .map(|(threshold, at)| (threshold.clone(), at))
            .collect();
        first.sort_by(|a, b| a.0.order().cmp(&b.0.order()));
        self.thresholds_first_observed_at = first
            .into_iter()
            .map(|(threshold, at)| FirstObserved {
                threshold,
                observed_at_seconds: seconds(at.duration_since(start)),
            })
            .collect();
    }
}

/// Whole seconds as an integer, others as a decimal.
fn seconds(duration: SignedDuration) -> serde_json::Number {
    let decimal = serde_json::Number::from_f64(duration.as_secs_f64());
    decimal
        .filter(|_| duration.subsec_nanos() != 0)
        .unwrap_or_else(|| duration.as_secs().into())
}

fn sort(thresholds: &mut [Threshold]) {
    thresholds.sort_by(|a, b| a.order().cmp(&b.order()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_configuration_has_these_keys_and_no_other() {
        let reads = |key: &str| {
            // No key takes a list of numbers, so only a key that is not read at all would accept it.
            let wrong = serde_json::json!({ key: [1] });
            serde_json::from_value::<PlainConfig>(wrong).is_err()
        };
        assert!(PlainConfig::KEYS.into_iter().all(reads));
        assert!(!reads("mergeDefaultEvictionSettings"));
    }

    #[test]
    fn every_mistake_of_a_plain_configuration_is_reported() {
        let config = r#"{"evictionHard":{"memory.free":"1Gi","pid.available":"0"},"evictionPressureTransitionPeriod":"1M"}"#;
        let config: PlainConfig = serde_json::from_str(config).unwrap();
        assert_eq!(
            config.rules().unwrap_err().0,
            [
                "unsupported eviction signal memory.free",
                "eviction threshold pid.available must be positive: 0",
                "time: unknown unit \"M\" in duration \"1M\"",
            ]
        );
    }
}
