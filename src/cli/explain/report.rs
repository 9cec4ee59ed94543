//! The result of `explain` as programs read it; the page for people is a view of it.

use super::{freed::Freed, taints::NodeReport};
use crate::cli::evidence;
use evictd_decision::{
    Decision, RankedPod, Shares,
    why::{self, Row},
};
use evictd_eviction::{
    Housekeeper, Rules,
    simulation::{self, StepOutcome},
};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{NodeCondition, Observation, Signal, Threshold};
use evictd_usage::Summary;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// The whole result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The cycle, as a simulation prints it.
    #[serde(flatten)]
    pub(super) step: StepOutcome,
    /// The next victim, `namespace/name`.
    pub(super) next: Option<String>,
    /// The signal that the pods are ranked for.
    pub(super) ranked_for: Signal,
    /// The pods, first victim first.
    #[serde(rename = "pods", serialize_with = "rows")]
    pub(super) ranked: Ranked,
    /// The signals with their thresholds.
    pub(super) signals: Vec<SignalState>,
    /// Why this signal.
    #[serde(skip)]
    pub(super) chosen_by: ChosenBy,
    /// Assumptions that were made.
    pub(super) assumed: Vec<String>,
    /// Reclaims of evictd on this node without an eviction, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) freed: Vec<Freed>,
    /// The result for `--node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<NodeReport>,
}

/// Why the pods are ranked for this signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChosenBy {
    /// `--signal` was given.
    Asked,
    /// Its threshold acts now.
    Acting,
    /// Its threshold is crossed but does not act yet.
    Crossed,
    /// Nothing is short.
    Calm,
}

/// A ranking and its signal.
pub(super) struct Ranked {
    pub(super) signal: Signal,
    pub(super) pods: Vec<RankedPod>,
}

impl Report {
    /// Signals that are practically exhausted without any action to come.
    pub(super) fn exhausted(&self) -> Vec<(Signal, Observation)> {
        let unwatched = self
            .signals
            .iter()
            .filter(|state| state.thresholds.is_empty());
        let observed = unwatched.filter_map(|state| Some((state.signal, state.observed?)));
        observed
            .filter(|(signal, observed)| evidence::is_exhausted(*signal, observed))
            .collect()
    }

    /// Whether any signal has a threshold.
    pub(super) fn has_thresholds(&self) -> bool {
        let mut signals = self.signals.iter();
        signals.any(|state| !state.thresholds.is_empty())
    }
}

impl Ranked {
    /// The first pod that may be evicted.
    pub(super) fn first(&self) -> Option<&RankedPod> {
        self.candidates().next()
    }

    /// Why the first pod that may be evicted ranks before the next one.
    pub(super) fn why(&self) -> Option<String> {
        let mut candidates = self.candidates();
        let first = candidates.next()?;
        let resource = self.signal.resource();
        Some(match candidates.next() {
            Some(next) => first.before(next, resource),
            None => format!(
                "{} is the only pod that may be evicted; it {}",
                first.pod,
                first.uses(resource)
            ),
        })
    }

    fn candidates(&self) -> impl Iterator<Item = &RankedPod> {
        self.pods.iter().filter(|pod| pod.spared.is_none())
    }
}

fn rows<S: Serializer>(ranked: &Ranked, serializer: S) -> Result<S::Ok, S::Error> {
    let rows: Vec<Row<'_>> = why::rows(&ranked.pods, ranked.signal.resource()).collect();
    rows.serialize(serializer)
}

/// One signal with its observation and thresholds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignalState {
    pub(super) signal: Signal,
    /// `None` if the summary does not contain it.
    #[serde(flatten)]
    pub(super) observed: Option<Observation>,
    /// The summary has the signal, but with a capacity of 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) unmeasured: bool,
    pub(super) thresholds: Vec<ThresholdState>,
    /// Who uses the resource; absent for pressure signals and without an observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shares: Option<Shares>,
    /// The pod that would be evicted first for it.
    pub(super) next: Option<String>,
}

/// One threshold with its distance.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThresholdState {
    #[serde(flatten)]
    pub(super) threshold: Threshold,
    /// Its value at the observed capacity.
    pub(super) quantity: Option<Quantity>,
    /// The available amount above it; negative if it is crossed.
    pub(super) margin: Option<i64>,
    /// Whether it is crossed.
    pub(super) crossed: bool,
    /// Whether it acts in this cycle.
    pub(super) acts: bool,
}

/// Runs one cycle; `asked` is the signal to rank for.
pub(super) fn explain(
    now: Timestamp,
    pods: &[Pod],
    summary: &Summary,
    rules: Rules,
    asked: Option<Signal>,
) -> Report {
    let mut housekeeper = Housekeeper::new(rules);
    let mut step = simulation::cycle(&mut housekeeper, now, pods, summary, None);
    step.describe(&housekeeper, now);
    let usage = summary.usage(pods);
    let seen = housekeeper.rules().observed(summary);
    let raw = summary.observations();
    let rank = |signal| Ranked {
        signal,
        pods: housekeeper.rank(now, signal, pods, &usage),
    };
    let acting = step.decision.as_ref().and_then(Decision::acting_signal);
    let candidates = [
        (ChosenBy::Asked, asked),
        (ChosenBy::Acting, acting),
        (ChosenBy::Crossed, first_crossed(&step)),
    ];
    let (chosen_by, ranked_for) = candidates
        .into_iter()
        .find_map(|(by, signal)| Some((by, signal?)))
        .unwrap_or((ChosenBy::Calm, Signal::MemoryAvailable));
    let ranked = rank(ranked_for);
    let next = next(&step, &ranked, asked);
    let state = |signal| {
        let observed = seen.get(signal).copied();
        let unmeasured = raw.get(signal).is_some_and(|raw| !raw.is_measured());
        let thresholds: Vec<ThresholdState> = housekeeper
            .thresholds()
            .filter(|threshold| threshold.signal == signal)
            .map(|threshold| {
                let observed = seen.of(signal, threshold.value);
                ThresholdState::of(threshold, observed, &step)
            })
            .collect();
        let next = (!thresholds.is_empty())
            .then(|| rank(signal).first().map(|pod| pod.pod.to_string()))
            .flatten();
        (observed.is_some() || !thresholds.is_empty()).then_some(SignalState {
            signal,
            observed,
            unmeasured,
            shares: shares(&housekeeper, observed, &rank(signal)),
            thresholds,
            next,
        })
    };
    let signals = Signal::ALL.into_iter().filter_map(state).collect();
    Report {
        freed: Vec::new(),
        step,
        next,
        ranked_for,
        chosen_by,
        ranked,
        signals,
        assumed: Vec::new(),
        node: None,
    }
}

/// Who uses a signal's resource, compared with the highest of its thresholds.
fn shares(
    housekeeper: &Housekeeper,
    observed: Option<Observation>,
    ranked: &Ranked,
) -> Option<Shares> {
    let signal = ranked.signal;
    let observed = observed.filter(|_| !signal.is_pressure())?;
    let thresholds = housekeeper.thresholds();
    let threshold = thresholds
        .filter(|threshold| threshold.signal == signal)
        .max_by_key(|threshold| threshold.value.at(observed.capacity))?;
    let on_the_way = Quantity::ZERO;
    Some(Shares::of(
        signal,
        (&observed, threshold),
        &ranked.pods,
        on_the_way,
        housekeeper.rules().requires_relief,
    ))
}

/// Memory first (S1-035), else the order of the signals.
fn first_crossed(step: &StepOutcome) -> Option<Signal> {
    let crossed = step.thresholds_first_observed_at.iter();
    crossed
        .map(|first| first.threshold.signal)
        .min_by_key(|signal| {
            (
                signal.condition() != Some(NodeCondition::MemoryPressure),
                *signal,
            )
        })
}

fn next(step: &StepOutcome, ranked: &Ranked, asked: Option<Signal>) -> Option<String> {
    let nobody_may = step
        .decision
        .as_ref()
        .is_some_and(|decision| decision.withheld.is_some());
    match step.evicted.first() {
        Some(eviction) if asked.is_none() => Some(eviction.pod.clone()),
        None if asked.is_none() && nobody_may => None,
        _ => ranked.first().map(|pod| pod.pod.to_string()),
    }
}

impl ThresholdState {
    fn of(threshold: &Threshold, observed: Option<Observation>, step: &StepOutcome) -> Self {
        let quantity = observed.map(|observed| threshold.value.at(observed.capacity));
        let margin = observed
            .zip(quantity)
            .map(|(observed, quantity)| observed.available.saturating_sub(quantity.value()));
        let crossed = observed
            .zip(quantity)
            .is_some_and(|(observed, quantity)| quantity > Quantity::count(observed.available));
        Self {
            quantity,
            margin,
            crossed,
            acts: step.thresholds_met.contains(threshold),
            threshold: threshold.clone(),
        }
    }
}
