//! `evictd simulate`: many cycles over a timeline of captured summaries.

use super::{evidence, ranking};
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, Output, View};
use evictd_decision::Eviction;
use evictd_document::{Document, DocumentError, LARGE, Wrong, amounts_of_pod};
use evictd_eviction::{
    Rules,
    simulation::{self, FirstObserved, Outcome, PlainConfig, StepOutcome, Timeline, TimelineStep},
};
use evictd_node_config as config;
use evictd_pod::wire;
use evictd_signals::Observations;
use evictd_usage::Summary;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write, path::PathBuf};

const EXAMPLE: &str = r#"Example:
  evictd simulate timeline.json -o json

The file:
  { "now": "2026-01-01T00:00:00Z",
    "config": { "kind": "KubeletConfiguration",
                "evictionHard": { "memory.available": "500Mi" } },
    "pods": [ v1 Pod, ... ],
    "steps": [ { "offsetSeconds": 0, "summary": { ... } }, ... ] }

kind is KubeletConfiguration or EvictionConfiguration, each with its defaults
and rules. A config without a kind has the kubelet's rules and no defaults:
for example, without evictionPressureTransitionPeriod no condition is held."#;

const NO_CONDITION: &str = "No condition is held, because evictionPressureTransitionPeriod is 0 s (its default in a config \
                            without a kind); with 5m, for example, conditions are held.";

/// How many ranked pods are shown per step.
const SHOWN: usize = 10;

/// Runs many cycles over a timeline of captured state: which pods would have been evicted, when, and why.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The timeline, JSON or YAML; - is stdin.
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// The part of the file whose kind selects the parser.
#[derive(Deserialize)]
struct Configured<Config> {
    #[serde(default)]
    config: Option<Config>,
}

/// Why a timeline's configuration is refused.
struct Refused {
    /// The first error, in the words of the kubelet, which reports only one.
    first: String,
    /// Every mistake.
    mistakes: Vec<String>,
}

/// The output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusal<'a> {
    parse_error: &'a str,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = Document::read(&self.file, LARGE).map_err(Failure::input)?;
        let name = document.name();
        let rules = rules(&document)?;
        let timeline = document.parse::<Timeline>();
        let mut mistakes: Vec<String> = Vec::new();
        if let Err(refused) = &rules {
            let parse_error = &refused.first;
            self.output.print(&Refusal { parse_error }, |_, view| {
                view.sentence(&format!("The configuration is refused: {parse_error}"))
            })?;
            mistakes.extend_from_slice(&refused.mistakes);
        }
        // Mistakes of the rules and of the timeline are reported together.
        match &timeline {
            Ok(timeline) => {
                let wrong = misplaced(timeline).into_iter().chain(wrong_pods(timeline));
                mistakes.extend(wrong.map(|mistake| format!("{name}: {mistake}")));
                for warning in warnings(timeline) {
                    warn(name, &warning);
                }
            }
            Err(error) => mistakes.push(error.to_string()),
        }
        let (Ok(rules), Ok(timeline), true) = (rules, timeline, mistakes.is_empty()) else {
            return Err(Failure::Input(anyhow!(mistakes.join("\n"))));
        };
        let seen: Vec<Seen> = timeline.steps.iter().map(Seen::of).collect();
        let period = rules.pressure_transition_period;
        let outcome = simulation::run(rules, timeline);
        let holds_none = period.is_zero();
        self.output.print(&outcome, |outcome, view| {
            let page = page(outcome, &seen, view);
            if holds_none {
                format!("{page}\n{}", view.sentence(NO_CONDITION))
            } else {
                page
            }
        })
    }
}

/// The input of a step, for the tables.
struct Seen {
    offset_seconds: f64,
    observations: Observations,
}

impl Seen {
    fn of(step: &TimelineStep) -> Self {
        let summary = step.summary.as_ref();
        Self {
            offset_seconds: step.offset_seconds,
            observations: summary.map(Summary::observations).unwrap_or_default(),
        }
    }
}

/// The rules of the timeline's `config`.
fn rules(document: &Document) -> Result<Result<Rules, Refused>, Failure> {
    let configured: Configured<Value> = document.parse().map_err(Failure::input)?;
    let config = configured.config.unwrap_or_default();
    Ok(if config.get("kind").is_some() {
        rules_of_kind(document, &config)
    } else {
        plain_rules(document, &config)
    })
}

/// The rules of a configuration with a kind.
fn rules_of_kind(document: &Document, config: &Value) -> Result<Rules, Refused> {
    let name = document.name();
    match config::parse_simulated(config) {
        Ok(simulated) => {
            for warning in &simulated.warnings {
                warn(name, &warning.to_string());
            }
            Ok(simulated.rules)
        }
        Err(refused) => Err(Refused {
            mistakes: refused
                .mistakes
                .iter()
                .map(|mistake| format!("{name}: {mistake}"))
                .collect(),
            first: refused.kubelet_first_error,
        }),
    }
}

/// The kubelet's rules without any defaults. An unknown key may be a key of a real kubelet, so it is only a
/// warning.
fn plain_rules(document: &Document, config: &Value) -> Result<Rules, Refused> {
    let name = document.name();
    let keys = config.as_object().into_iter().flat_map(|keys| keys.keys());
    for key in keys.filter(|key| !PlainConfig::KEYS.contains(&key.as_str())) {
        let ignored = format!("config.{key}: is not a key of a simulation; it is ignored");
        warn(name, &ignored);
    }
    let configured: Configured<PlainConfig> = document.parse().map_err(|error| Refused {
        first: match &error {
            DocumentError::Mistakes(found) => found.mistakes[0].message.clone(),
            other => other.to_string(),
        },
        mistakes: vec![error.to_string()],
    })?;
    let rules = configured.config.unwrap_or_default().rules();
    rules.map_err(|simulation::Refused(errors)| Refused {
        first: errors.first().cloned().unwrap_or_default(),
        mistakes: errors
            .iter()
            .map(|error| format!("{name}: config: {error}"))
            .collect(),
    })
}

/// Steps with an impossible offset.
fn misplaced(timeline: &Timeline) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for (index, step) in timeline.steps.iter().enumerate() {
        let offset = step.offset_seconds;
        let moment = SignedDuration::try_from_secs_f64(offset)
            .ok()
            .and_then(|offset| timeline.now.checked_add(offset).ok());
        if moment.is_none() {
            mistakes.push(format!(
                "steps[{index}].offsetSeconds: {offset} is too large"
            ));
        } else if offset < last {
            mistakes.push(format!(
                "steps[{index}].offsetSeconds: {offset} is before the previous step's, {last}"
            ));
        }
        // One step that goes back does not make every later step wrong.
        last = last.max(offset);
    }
    mistakes
}

/// Every list of pods in the file, with its key.
fn lists(timeline: &Timeline) -> impl Iterator<Item = (String, &[wire::Pod])> {
    let of_steps = timeline.steps.iter().enumerate();
    let of_steps = of_steps.filter_map(|(index, step)| {
        let pods = step.pods.as_deref()?;
        Some((format!("steps[{index}].pods"), pods))
    });
    std::iter::once(("pods".to_owned(), timeline.pods.as_slice())).chain(of_steps)
}

/// Mistakes in the pods.
fn wrong_pods(timeline: &Timeline) -> impl Iterator<Item = String> {
    lists(timeline).flat_map(|(list, pods)| {
        let mut uids = BTreeSet::new();
        let mut mistakes = Vec::new();
        for (index, pod) in pods.iter().enumerate() {
            let wire::Metadata { name, uid, .. } = &pod.metadata;
            let mut wrong = |key: &str, what: String| {
                mistakes.push(format!("{list}[{index}] ({name}): {key}: {what}"));
            };
            if !uid.is_empty() && !uids.insert(uid) {
                // Figures belong to UIDs, so two pods would share them without a word.
                let what = format!("{uid:?} is also the UID of another pod");
                wrong("metadata.uid", what);
            }
            let amounts = amounts_of_pod(pod).into_iter();
            // An API server refuses these, so no real node has them.
            for amount in amounts.filter(|amount| amount.wrong == Wrong::Negative) {
                wrong(&amount.key, format!("{} is negative", amount.quantity));
            }
        }
        mistakes
    })
}

/// Warnings of input that can be simulated but is probably not intended.
fn warnings(timeline: &Timeline) -> Vec<String> {
    let nameless = lists(timeline).flat_map(|(list, pods)| {
        let pods = pods.iter().enumerate();
        let nameless = pods.filter(|(_, pod)| pod.metadata.uid.is_empty());
        nameless.map(move |(index, pod)| {
            let name = &pod.metadata.name;
            format!(
                "{list}[{index}] ({name}): has no metadata.uid, so no figures can be assigned to it"
            )
        })
    });
    let mut warnings: Vec<String> = nameless.collect();
    if timeline.steps.is_empty() {
        warnings.push("steps: there are none, so nothing happens".to_owned());
    }
    warnings
}

fn page(outcome: &Outcome, seen: &[Seen], view: View) -> String {
    let mut page = String::new();
    if outcome.thresholds.is_empty() {
        page += "No thresholds are configured.\n";
    } else {
        page += "Thresholds:\n";
        for threshold in &outcome.thresholds {
            let threshold = evidence::threshold(threshold);
            let _ = writeln!(page, "{}", view.hanging("  ", &threshold));
        }
    }
    for (index, (step, seen)) in outcome.steps.iter().zip(seen).enumerate() {
        let (number, offset) = (index + 1, seen.offset_seconds);
        let head = format!("Step {number}, at {offset} s: {}", headline(step));
        let _ = writeln!(page, "\n{}", view.sentence(&head));
        page += &block(step, seen, view);
    }
    page
}

/// The result of a step in one line.
fn headline(step: &StepOutcome) -> String {
    let held = step
        .node_conditions
        .iter()
        .map(|condition| condition.as_str());
    let conditions = match held.collect::<Vec<_>>().join(" and ") {
        none if none.is_empty() => "no condition".to_owned(),
        conditions => conditions,
    };
    let going =
        |eviction: &Eviction| format!("{} is evicted {}", eviction.pod, evidence::grace(eviction));
    match step
        .evicted
        .iter()
        .map(going)
        .collect::<Vec<_>>()
        .join("; ")
    {
        nobody if nobody.is_empty() => format!("{conditions}; no pod is evicted"),
        gone => format!("{conditions}; {gone}"),
    }
}

fn block(step: &StepOutcome, seen: &Seen, view: View) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut tell = |what: &str, words: &str| {
        lines.push(view.hanging(&format!("  {what:<9}"), words));
    };
    for first in &step.thresholds_first_observed_at {
        let (what, words) = crossed(step, first, seen);
        tell(what, &words);
    }
    if let Some(reclaim) = evidence::reclaim(step) {
        tell("reclaim", reclaim);
    }
    if let Some(decision) = &step.decision {
        tell("why", &decision.why);
    }
    for sentence in &step.over_own_limit {
        tell("limit", sentence);
    }
    for eviction in &step.evicted {
        tell("message", eviction.message.trim_end());
    }
    let decision = step.decision.as_ref();
    if let Some((decision, signal)) = decision.and_then(|it| Some((it, it.acting_signal()?))) {
        let ranking = ranking::first(SHOWN, &decision.ranked, signal, view.within(2));
        lines.extend(ranking.lines().map(|line| format!("  {line}")));
    }
    lines
        .iter()
        .fold(String::new(), |block, line| block + line + "\n")
}

/// Whether a crossed threshold acts already, and the threshold in words.
fn crossed(step: &StepOutcome, first: &FirstObserved, seen: &Seen) -> (&'static str, String) {
    let threshold = &first.threshold;
    let since = first.observed_at_seconds.as_f64().unwrap_or_default();
    let crossing = evidence::crossing(threshold, seen.observations.get(threshold.signal));
    if step.thresholds_met.contains(threshold) {
        ("met", format!("{crossing} since {since} s"))
    } else {
        let acts = since + threshold.grace_period.as_secs_f64();
        let words = format!("{crossing} since {since} s, acts at {acts} s");
        ("waiting", words)
    }
}

fn warn(name: &str, what: &str) {
    evictd_command::warn("evictd", &format!("{name}: {what}"));
}
