//! The log lines at the start: version, configuration, mode, the node's resources, thresholds in force, and sources in
//! use. One record each: a sentence is never broken into several records, which would repeat its fields.

use super::words::{amount, configured};
use crate::{fact::Cycle, server::state::SourceStatus};
use evictd_signals::{Signal, Threshold, ThresholdValue, human_bytes};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

/// Facts about the daemon that are known before its first cycle.
#[derive(Debug)]
pub(crate) struct StartInfo {
    /// The file of the configuration; empty if everything has its default.
    pub configuration: String,
    /// The drop-in files that are merged over it.
    pub drop_ins: Vec<PathBuf>,
    /// The `kind` of the configuration, which decides whose rules are in force.
    pub rules: &'static str,
    /// The sources of pods and usage and the method of eviction, once they are chosen.
    pub sources: Arc<OnceLock<Vec<SourceStatus>>>,
}

/// A sentence, and its journal fields: `None` where the sentence does not contain the fact.
#[derive(Debug, Default)]
struct Sentence<'a> {
    text: String,
    version: Option<&'static str>,
    configuration: Option<&'a str>,
    rules: Option<&'static str>,
    mode: Option<&'static str>,
    memory_bytes: Option<i64>,
    thresholds: Option<String>,
    setting: Option<&'a str>,
    value: Option<&'a str>,
}

/// Logs the start.
pub(super) fn log(start_info: &StartInfo, cycle: &Cycle<'_>) {
    for sentence in sentences(start_info, cycle) {
        tracing::info!(
            EVICTD_REASON = "Started",
            EVICTD_VERSION = sentence.version,
            EVICTD_CONFIGURATION = sentence.configuration,
            EVICTD_RULES = sentence.rules,
            EVICTD_MODE = sentence.mode,
            EVICTD_MEMORY_BYTES = sentence.memory_bytes,
            EVICTD_THRESHOLDS = sentence.thresholds,
            EVICTD_SETTING = sentence.setting,
            EVICTD_VALUE = sentence.value,
            "{}",
            sentence.text
        );
    }
    for warning in warnings(cycle) {
        tracing::warn!("{warning}");
    }
}

/// Thresholds with a minimum reclaim that this node can never reach.
fn warnings(cycle: &Cycle<'_>) -> Vec<String> {
    let of = |threshold: &Threshold| {
        let seen = cycle.sample.observations.get(threshold.signal)?;
        let never = threshold.never_ends(Some(seen.capacity));
        never.then(|| unreachable(threshold, seen.capacity))
    };
    cycle.housekeeper.thresholds().filter_map(of).collect()
}

/// `memory.available: the threshold of 1Gi and its minimum reclaim of 16Gi are ...`
fn unreachable(threshold: &Threshold, capacity: i64) -> String {
    let signal = threshold.signal;
    let more = threshold
        .min_reclaim
        .map_or(0, |more| more.at(capacity).value());
    let value = threshold.value.at(capacity).value();
    let [value, more, capacity] = [value, more, capacity].map(|figure| amount(signal, figure));
    format!(
        "{signal}: the threshold of {value} and its minimum reclaim of {more} are not less than the {capacity} of this node; once the threshold acts, it acts for ever"
    )
}

fn sentences<'a>(start_info: &'a StartInfo, cycle: &Cycle<'_>) -> Vec<Sentence<'a>> {
    let version = env!("CARGO_PKG_VERSION");
    let (mode, suffix) = mode(cycle);
    let memory = cycle.sample.observations.get(Signal::MemoryAvailable);
    let thresholds = thresholds(cycle);
    let mut sentences = vec![
        Sentence {
            text: format!(
                "evictd {version} has started: {}{suffix}",
                configuration(start_info)
            ),
            version: Some(version),
            configuration: Some(&start_info.configuration),
            rules: Some(start_info.rules),
            mode: Some(mode),
            ..Sentence::default()
        },
        Sentence {
            text: node(cycle),
            memory_bytes: memory.map(|memory| memory.capacity),
            ..Sentence::default()
        },
        Sentence {
            text: match thresholds.as_str() {
                "" => "no thresholds: no pod is ever evicted for pressure".to_owned(),
                some => format!("thresholds: {some}"),
            },
            thresholds: Some(thresholds),
            ..Sentence::default()
        },
    ];
    let sources = start_info.sources.get().into_iter().flatten();
    sentences.extend(sources.map(|chosen| Sentence {
        text: source(chosen),
        setting: Some(&chosen.port),
        value: Some(&chosen.chosen),
        ..Sentence::default()
    }));
    sentences
}

/// `/etc/evictd/evictd.yaml with 10-site.yaml, 20-gpu.yaml (EvictionConfiguration)`
fn configuration(start_info: &StartInfo) -> String {
    let file = match start_info.configuration.as_str() {
        "" => "every key at its default",
        file => file,
    };
    let names = start_info
        .drop_ins
        .iter()
        .filter_map(|path| path.file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let on_top = match names.as_slice() {
        [] => String::new(),
        names => format!(" with {}", names.join(", ")),
    };
    format!("{file}{on_top} ({})", start_info.rules)
}

/// The mode as a journal field, and as the end of the first sentence.
fn mode(cycle: &Cycle<'_>) -> (&'static str, &'static str) {
    match (cycle.paused.is_some(), cycle.dry_run) {
        (true, _) => ("paused", ", PAUSED: no pod is terminated"),
        (false, true) => ("dryRun", ", DRY RUN: no pod is terminated"),
        (false, false) => ("evict", ""),
    }
}

fn node(cycle: &Cycle<'_>) -> String {
    let capacity = |signal| {
        let seen = cycle.sample.observations.get(signal)?;
        Some(amount(signal, seen.capacity))
    };
    let memory = capacity(Signal::MemoryAvailable);
    let memory = memory.map_or("memory unknown".to_owned(), |all| {
        format!("{all} of memory")
    });
    let swap = match cycle.sample.swap.map(|swap| swap.total) {
        None => "swap unknown".to_owned(),
        Some(0) => "no swap".to_owned(),
        Some(total) => {
            let total = i64::try_from(total).unwrap_or(i64::MAX);
            format!("{} of swap", human_bytes(total))
        }
    };
    let pids = capacity(Signal::PidAvailable).map(|all| format!("{all} process ids"));
    let filesystems = [
        ("nodefs", Signal::NodefsAvailable),
        ("imagefs", Signal::ImagefsAvailable),
        ("containerfs", Signal::ContainerfsAvailable),
    ];
    let filesystems = filesystems
        .into_iter()
        .filter_map(|(name, signal)| Some(format!("{name} {}", capacity(signal)?)));
    let parts: Vec<String> = pids.into_iter().chain(filesystems).collect();
    let rest = parts.iter().map(|part| format!(", {part}"));
    format!(
        "this node has {memory} and {swap}{}",
        rest.collect::<String>()
    )
}

/// The thresholds in force, without those that only follow others; empty if there are none.
fn thresholds(cycle: &Cycle<'_>) -> String {
    let all: Vec<&Threshold> = cycle.housekeeper.thresholds().collect();
    let originals = all.iter().filter(|threshold| !follows(threshold, &all));
    let shown: Vec<String> = originals
        .map(|threshold| in_force(cycle, threshold))
        .collect();
    shown.join(", ")
}

/// Whether this threshold is a copy of another one for a signal that cannot be configured (S1-014, S1-025).
/// `allocatableMemory.available` has the threshold of memory, `allocatablePid.available` that of process ids, and the
/// containers' filesystem that of the filesystem on which it lies.
pub(super) fn follows(threshold: &Threshold, all: &[&Threshold]) -> bool {
    use Signal::{
        AllocatableMemoryAvailable, AllocatablePidAvailable, ContainerfsAvailable,
        ContainerfsInodesFree, ImagefsAvailable, ImagefsInodesFree, MemoryAvailable,
        NodefsAvailable, NodefsInodesFree, PidAvailable,
    };
    let leaders: &[Signal] = match threshold.signal {
        AllocatableMemoryAvailable => &[MemoryAvailable],
        AllocatablePidAvailable => &[PidAvailable],
        ContainerfsAvailable => &[NodefsAvailable, ImagefsAvailable],
        ContainerfsInodesFree => &[NodefsInodesFree, ImagefsInodesFree],
        _ => &[],
    };
    all.iter().any(|other| {
        leaders.contains(&other.signal)
            && other.value == threshold.value
            && other.grace_period == threshold.grace_period
    })
}

/// `memory.available<100Mi`, `nodefs.available<10% (24.9Gi)`, `memory.available<1Gi (soft, 1m 30s)`
fn in_force(cycle: &Cycle<'_>, threshold: &Threshold) -> String {
    let signal = threshold.signal;
    let resolved = matches!(threshold.value, ThresholdValue::Percentage(_));
    let seen = cycle.sample.observations.get(signal);
    let amount = seen.filter(|_| resolved).map(|seen| {
        let value = threshold.value.at(seen.capacity).value();
        amount(signal, value)
    });
    let soft = (!threshold.is_hard()).then(|| format!("soft, {:#}", threshold.acts_after()));
    let remarks: Vec<String> = amount.into_iter().chain(soft).collect();
    let compared = if signal.is_pressure() { '>' } else { '<' };
    let remarks = match remarks.as_slice() {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    };
    format!("{signal}{compared}{}{remarks}", configured(threshold))
}

/// `pods from manifests (no API server is known)`
fn source(source: &SourceStatus) -> String {
    let SourceStatus { port, chosen, why } = source;
    match port.as_str() {
        "pods.source" => format!("pods from {chosen} ({why})"),
        "usage.source" => format!("their usage from {chosen} ({why})"),
        "evict.method" => format!("evicted by {chosen} ({why})"),
        "kubelet.rootDir" => format!("the kubelet's files in {chosen} ({why})"),
        "kubelet.podLogsDir" => format!("the logs of pods in {chosen} ({why})"),
        other => format!("{other}: {chosen} ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_threshold_is_not_logged_twice() {
        let threshold = |signal, bytes: &str| Threshold {
            signal,
            value: ThresholdValue::Quantity(bytes.parse().unwrap()),
            grace_period: jiff::SignedDuration::ZERO,
            min_reclaim: None,
        };
        let memory = threshold(Signal::MemoryAvailable, "100Mi");
        let same = threshold(Signal::AllocatableMemoryAvailable, "100Mi");
        let other = threshold(Signal::AllocatableMemoryAvailable, "200Mi");
        let all = [&memory, &same, &other];
        let told = all.map(|threshold| !follows(threshold, &all));
        assert_eq!(told, [true, false, true]);
    }

    #[test]
    fn a_minimum_reclaim_above_the_capacity_is_warned_of_with_its_figures() {
        let threshold = Threshold {
            signal: Signal::MemoryAvailable,
            value: ThresholdValue::Quantity("1Gi".parse().unwrap()),
            grace_period: jiff::SignedDuration::ZERO,
            min_reclaim: Some(ThresholdValue::Quantity("16Gi".parse().unwrap())),
        };
        let told = unreachable(&threshold, 8 << 30);
        let figures = "threshold of 1Gi and its minimum reclaim of 16Gi are not less than the 8Gi";
        assert!(told.contains(figures), "{told}");
    }

    #[test]
    fn the_configuration_is_logged_with_its_drop_ins() {
        let mut start_info = StartInfo {
            configuration: String::new(),
            drop_ins: Vec::new(),
            rules: "EvictionConfiguration",
            sources: Arc::default(),
        };
        let told = "every key at its default (EvictionConfiguration)";
        assert_eq!(configuration(&start_info), told);
        start_info.configuration = "/etc/evictd/evictd.yaml".to_owned();
        start_info.drop_ins = vec![PathBuf::from("/etc/evictd/conf.d/10-site.yaml")];
        assert_eq!(
            configuration(&start_info),
            "/etc/evictd/evictd.yaml with 10-site.yaml (EvictionConfiguration)"
        );
    }
}
