//! `evictd simulate`: many cycles over a timeline of captured summaries.

use super::{evidence, ranking};
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, Output, printable};
use evictd_document::{Document, DocumentError, LARGE};
use evictd_eviction::{
    Eviction, Observations, Rules, Summary,
    simulation::{self, FirstObserved, Outcome, PlainConfig, StepOutcome, Timeline, TimelineStep},
};
use evictd_node::config;
use evictd_pod::wire;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write, path::PathBuf};

const EXAMPLE: &str = "Example:
  evictd simulate timeline.json -o json

The file: { \"now\": \"2026-01-01T00:00:00Z\", \"config\": { \"evictionHard\": { \"memory.available\": \"500Mi\" } },
            \"pods\": [ v1 Pod, ... ], \"steps\": [ { \"offsetSeconds\": 0, \"summary\": { ... } }, ... ] }
A config without a kind has the kubelet's rules and no defaults; kind: KubeletConfiguration or EvictionConfiguration
brings its own defaults and rules.";

/// How many ranked pods a table shows of each step.
const SHOWN: usize = 10;

/// Run many cycles over a timeline of captured state: who would have gone, when, and why.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The timeline, JSON or YAML; - is stdin.
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// The part of the file whose kind decides who reads it.
#[derive(Deserialize)]
struct Configured<Config> {
    #[serde(default)]
    config: Option<Config>,
}

/// Why a timeline's configuration is refused.
struct Refused {
    /// What the kubelet itself would say of it: its first error only.
    first: String,
    /// Every mistake.
    mistakes: Vec<String>,
}

/// What is printed then.
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
            self.output.print(&Refusal { parse_error }, |_| {
                format!("The configuration is refused: {parse_error}")
            })?;
            mistakes.extend_from_slice(&refused.mistakes);
        }
        match &timeline {
            Ok(timeline) => {
                let misplaced = misplaced(timeline).into_iter();
                mistakes.extend(misplaced.map(|mistake| format!("{name}: {mistake}")));
                for doubt in doubts(timeline) {
                    warn(name, &doubt);
                }
            }
            Err(error) => mistakes.push(error.to_string()),
        }
        let (Ok(rules), Ok(timeline), true) = (rules, timeline, mistakes.is_empty()) else {
            return Err(Failure::Input(anyhow!(mistakes.join("\n"))));
        };
        let seen: Vec<Seen> = timeline.steps.iter().map(Seen::of).collect();
        let outcome = simulation::run(rules, timeline);
        self.output.print(&outcome, |outcome| page(outcome, &seen))
    }
}

/// What a step was given, for the reader.
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

/// The rules that the timeline's `config` asks for.
fn rules(document: &Document) -> Result<Result<Rules, Refused>, Failure> {
    let configured: Configured<Value> = document.parse().map_err(Failure::input)?;
    let config = configured.config.unwrap_or_default();
    Ok(if config.get("kind").is_some() {
        rules_of_kind(document, &config)
    } else {
        plain_rules(document, &config)
    })
}

/// The rules of a configuration that says whose it is.
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

/// The kubelet's rules with nothing defaulted. A key that no simulation has may be one of a real kubelet's, so it is
/// no mistake, only said.
fn plain_rules(document: &Document, config: &Value) -> Result<Rules, Refused> {
    let name = document.name();
    let keys = config.as_object().into_iter().flat_map(|keys| keys.keys());
    for key in keys.filter(|key| !PlainConfig::KEYS.contains(&key.as_str())) {
        let ignored = format!("config.{key}: is no key of a simulation and is ignored");
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

/// Steps whose offset makes no sense.
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
                "steps[{index}].offsetSeconds: {offset} is beyond every calendar"
            ));
        } else if offset < last {
            mistakes.push(format!(
                "steps[{index}].offsetSeconds: {offset} is before the step before it, at {last}"
            ));
        }
        last = last.max(offset);
    }
    mistakes
}

/// What can be simulated but is hardly meant.
fn doubts(timeline: &Timeline) -> Vec<String> {
    let mut doubts = Vec::new();
    let lists = timeline
        .steps
        .iter()
        .enumerate()
        .filter_map(|(index, step)| {
            let pods = step.pods.as_ref()?;
            Some((format!("steps[{index}].pods"), pods))
        });
    let first = ("pods".to_owned(), &timeline.pods);
    for (list, pods) in std::iter::once(first).chain(lists) {
        doubts.extend(unidentified(pods).map(|doubt| format!("{list}{doubt}")));
    }
    if timeline.steps.is_empty() {
        doubts.push("steps: there are none, so nothing happens".to_owned());
    }
    doubts
}

/// Pods that no figures can be told to belong to.
fn unidentified(pods: &[wire::Pod]) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    pods.iter().enumerate().filter_map(move |(index, pod)| {
        let wire::Metadata { name, uid, .. } = &pod.metadata;
        if uid.is_empty() {
            return Some(format!(
                "[{index}] ({name}): has no metadata.uid, so no figures are known to be its own"
            ));
        }
        (!seen.insert(uid))
            .then(|| format!("[{index}] ({name}): another pod has the same metadata.uid {uid}"))
    })
}

fn page(outcome: &Outcome, seen: &[Seen]) -> String {
    let mut page = String::new();
    if outcome.thresholds.is_empty() {
        page += "No thresholds are configured.\n";
    } else {
        page += "Thresholds:\n";
        for threshold in &outcome.thresholds {
            let _ = writeln!(page, "  {}", evidence::threshold(threshold));
        }
    }
    for (index, (step, seen)) in outcome.steps.iter().zip(seen).enumerate() {
        let (number, offset) = (index + 1, seen.offset_seconds);
        let _ = writeln!(page, "\nStep {number}, at {offset} s: {}", headline(step));
        page += &block(step, seen);
    }
    page
}

/// What came of a step in one line.
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
        nobody if nobody.is_empty() => format!("{conditions}; nobody goes"),
        gone => format!("{conditions}; {gone}"),
    }
}

fn block(step: &StepOutcome, seen: &Seen) -> String {
    let mut lines: Vec<String> = Vec::new();
    for first in &step.thresholds_first_observed_at {
        lines.push(crossed(step, first, seen));
    }
    if let Some(reclaim) = evidence::reclaim(step) {
        lines.push(format!("reclaim  {reclaim}"));
    }
    if let Some(decision) = &step.decision {
        lines.push(format!("why      {}", decision.why));
    }
    for eviction in &step.evicted {
        lines.push(format!("message  {}", eviction.message.trim_end()));
    }
    let decision = step.decision.as_ref();
    if let Some((decision, signal)) = decision.and_then(|it| Some((it, it.acting_signal()?))) {
        let ranking = ranking::first(SHOWN, &decision.ranked, signal);
        lines.extend(ranking.lines().map(str::to_owned));
    }
    lines
        .iter()
        .fold(String::new(), |block, line| block + "  " + line + "\n")
}

fn crossed(step: &StepOutcome, first: &FirstObserved, seen: &Seen) -> String {
    let threshold = &first.threshold;
    let since = first.observed_at_seconds.as_f64().unwrap_or_default();
    let crossing = evidence::crossing(threshold, seen.observations.get(threshold.signal));
    if step.thresholds_met.contains(threshold) {
        format!("met      {crossing} since {since} s")
    } else {
        let acts = since + threshold.grace_period.as_secs_f64();
        format!("waiting  {crossing} since {since} s, acts at {acts} s")
    }
}
fn warn(name: &str, what: &str) {
    let told = format!("{name}: {what}");
    eprintln!("evictd: warning: {}", printable(&told));
}
