//! Checks the threshold maps as a whole, and warns of probable oversights.

use super::{
    effective::{Kind, Origin},
    flags,
    reader::Reader,
    values::duration_advice,
};
use evictd_configuration::Fault;
use evictd_eviction::rules::MemoryAndSwap;
use evictd_pod::Quantity;
use evictd_signals::{
    Signal, Threshold, ThresholdMaps, ThresholdValue,
    pressure::PressureLimit,
    threshold::{ParsedThresholds, ThresholdError, ThresholdErrorKind},
};
use evictd_spelling::nearest;
use jiff::SignedDuration;
use std::collections::BTreeMap;

/// Signals that every node should have a threshold for.
const WORTH_WATCHING: [Signal; 6] = [
    Signal::MemoryAvailable,
    Signal::NodefsAvailable,
    Signal::NodefsInodesFree,
    Signal::ImagefsAvailable,
    Signal::ImagefsInodesFree,
    Signal::PidAvailable,
];

/// The maps by signal.
const MAPS: [&str; 4] = [
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMinimumReclaim",
];

/// Parses the maps of the configuration and checks the result.
pub(super) fn check(reader: &mut Reader<'_>) {
    let maps = reader.effective.maps.clone();
    let parsed = match reader.effective.parse_maps() {
        Ok(parsed) => parsed,
        Err(errors) => {
            reader.kubelet_first_error = errors.first().map(ToString::to_string);
            for error in errors {
                report(reader, &error);
            }
            return;
        }
    };
    look_at_amounts(reader, &maps, &parsed);
    // The contents of an unreadable map are unknown, so no threshold is missing for certain.
    if MAPS.into_iter().any(|map| reader.is_refused(map)) {
        return;
    }
    look_at_minimum_reclaims(reader, &maps, &parsed);
    look_for_orphans(reader, &maps);
    look_at_soft_thresholds(reader, &maps, &parsed);
    reader.effective.configured_thresholds = parsed.into_all();
    look_for_unwatched_signals(reader, &maps);
    look_at_swap(reader);
    look_at_io(reader);
}

fn report(reader: &mut Reader<'_>, error: &ThresholdError) {
    use ThresholdErrorKind as Kind;
    let path = format!("{}.{}", error.map, error.key);
    let advice = match &error.kind {
        Kind::UnsupportedSignal(signal) => {
            // The key is at fault here, so the place is that of the key.
            let advice = signal_advice(signal);
            let fault = Fault::new(reader.key_place(&path), error.to_string());
            return reader.mistake(&path, fault.advise(advice));
        }
        Kind::BelowZeroPercent { .. }
        | Kind::AboveHundredPercent { .. }
        | Kind::NotPositive { .. } => "0% turns the threshold off".to_owned(),
        Kind::MinimumReclaimNotPositive { .. }
        | Kind::NegativeMinimumReclaim(_)
        | Kind::NegativeGracePeriod(_) => "leave it out if there is none".to_owned(),
        Kind::NoGracePeriod(signal) => {
            format!("add evictionSoftGracePeriod: {{{signal}: 1m30s}}, or how long it may last")
        }
        Kind::Pressure(error) => {
            let nearest = PressureLimit::nearest(&error.text);
            format!(
                "write it as {:?}; 0% turns the threshold off",
                nearest.to_string()
            )
        }
        Kind::NotPercent { .. } => "write how much less pressure, such as 5%".to_owned(),
        Kind::TwoGracePeriods(signal) => {
            format!("leave out the \"for\", or evictionSoftGracePeriod.{signal}")
        }
        Kind::Percentage(_) | Kind::Quantity(_) => {
            let maps = &reader.effective.maps;
            let entries = if error.map == "evictionSoft" {
                &maps.soft
            } else {
                &maps.hard
            };
            let written = entries.get(&error.key).map_or("", String::as_str);
            // A flag of the kubelet has an operator before the amount: `memory.available<100Mi`.
            match written.trim_start().strip_prefix(['<', '=']) {
                Some(amount) => format!("write {}: {}", error.key, amount.trim_start()),
                None => {
                    "write an amount such as 100Mi, or a part of the capacity such as 5%".to_owned()
                }
            }
        }
        Kind::Duration(error) => duration_advice(error),
    };
    let fault = Fault::new(reader.value_place(&path), error.to_string());
    reader.mistake(&path, fault.advise(advice));
}

fn signal_advice(unknown: &str) -> String {
    // The value of a whole flag may have been pasted as one key.
    if let Some(entries) = flags::entries(unknown) {
        return format!("write {entries}");
    }
    if Signal::parse(unknown).is_some() {
        return "a kubelet has no such signal; kind: EvictionConfiguration has".to_owned();
    }
    if unknown.starts_with("cpu") {
        return "evictd shows pressure on the CPU and never evicts for it".to_owned();
    }
    let ours = ["psi", "pressure", "swap", "allocatablep"];
    let lower = unknown.to_ascii_lowercase();
    let ours = ours.iter().any(|part| lower.contains(part));
    let like_it = Signal::ALL.into_iter().filter(|one| one.is_ours() == ours);
    let meant = nearest(unknown, like_it.map(Signal::as_str)).unwrap_or_default();
    format!("did you mean {meant}?")
}

/// A mistake only in evictd's own kind, because the kubelet accepts it.
fn ours_refuses(reader: &mut Reader<'_>, path: &str, message: String, advice: String) {
    let fault = Fault::new(reader.value_place(path), message).advise(advice);
    match reader.effective.kind {
        Kind::Evictd => reader.mistake(path, fault),
        Kind::Kubelet => reader.warning(path, fault),
    }
}

/// Looks at every entry that holds an amount: as it is written, and as it was understood unless it switches one off.
fn look_at_amounts(reader: &mut Reader<'_>, maps: &ThresholdMaps, parsed: &ParsedThresholds) {
    for (map, entries, parsed) in [
        ("evictionHard", &maps.hard, &parsed.hard),
        ("evictionSoft", &maps.soft, &parsed.soft),
    ] {
        for (signal, written) in entries {
            let path = format!("{map}.{signal}");
            let of_signal = |one: &&Threshold| one.signal.as_str() == signal;
            match parsed.iter().find(of_signal) {
                Some(threshold) => look_at_threshold(reader, &path, written, threshold),
                None if written == "100%" => {
                    let message = "100% turns the threshold off, as 0% does".to_owned();
                    reader.warn_about(&path, message, "write 0% to say so");
                }
                None => {}
            }
            look_for_containerfs(reader, &path);
        }
    }
    for (signal, value) in &parsed.minimum_reclaims {
        let path = format!("evictionMinimumReclaim.{signal}");
        let written = maps.minimum_reclaim.get(signal.as_str());
        look_at_reclaim(reader, &path, written.map_or("", String::as_str), *value);
        look_for_containerfs(reader, &path);
    }
}

fn look_at_threshold(reader: &mut Reader<'_>, path: &str, written: &str, threshold: &Threshold) {
    const LEAST: i64 = 1 << 20;
    if let Some(used) = threshold.value.inverted_percentage() {
        let used = shortest_percentage(used);
        let message = format!(
            "acts while more than {used} is in use, because {written} is what must be left"
        );
        let advice = format!("write {used} if {written} may be in use");
        reader.warn_about(path, message, &advice);
    }
    let ThresholdValue::Quantity(amount) = threshold.value else {
        return;
    };
    look_for_overflow(reader, path, written, amount);
    // `memory.available: 500` is 500 bytes, to the kubelet as well.
    let bytes = amount.value();
    if threshold.signal.counts_bytes() && (1..LEAST).contains(&bytes) {
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        let message = format!("{written} is {bytes} {unit}, which is almost nothing");
        // A lower m is valid and means a thousandth, but mega is nearly always meant.
        let advice = match written.strip_suffix('m') {
            Some(number) => format!("m means thousandths; write {number}Mi"),
            None if bytes == 1 => {
                "write a percentage such as 50%, or a unit such as 500Mi".to_owned()
            }
            None => "write a unit, such as 500Mi".to_owned(),
        };
        reader.warn_about(path, message, &advice);
    }
}

/// `12.5%`, from percent.
fn shortest_percentage(percent: f64) -> String {
    let percent = format!("{percent:.2}");
    format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
}

fn look_at_reclaim(reader: &mut Reader<'_>, path: &str, written: &str, value: ThresholdValue) {
    match value {
        ThresholdValue::Percentage(fraction) if fraction > 1.0 => {
            let message = format!("{written} is more than the capacity");
            ours_refuses(reader, path, message, "write at most 100%".to_owned());
        }
        ThresholdValue::Quantity(amount) => look_for_overflow(reader, path, written, amount),
        ThresholdValue::Percentage(_) | ThresholdValue::Pressure(_) => {}
    }
}

/// A minimum reclaim that is never reached keeps its threshold acting for ever.
fn look_at_minimum_reclaims(
    reader: &mut Reader<'_>,
    maps: &ThresholdMaps,
    parsed: &ParsedThresholds,
) {
    for (map, written, thresholds) in [
        ("evictionHard", &maps.hard, &parsed.hard),
        ("evictionSoft", &maps.soft, &parsed.soft),
    ] {
        for threshold in thresholds.iter().filter(|one| one.never_ends(None)) {
            let signal = threshold.signal.as_str();
            let text =
                |map: &BTreeMap<String, String>| map.get(signal).cloned().unwrap_or_default();
            let (value, more) = (text(written), text(&maps.minimum_reclaim));
            let message = format!(
                "{more} above {map}.{signal}, which is {value}, is all of the capacity or more: the threshold would act for ever"
            );
            let advice = format!("write so little that it and {value} are less than 100%");
            let path = format!("evictionMinimumReclaim.{signal}");
            ours_refuses(reader, &path, message, advice);
        }
    }
}

fn look_for_overflow(reader: &mut Reader<'_>, path: &str, written: &str, amount: Quantity) {
    // The parser cuts at this value, so it stands for any larger one.
    if amount.value() == i64::MAX {
        let message = format!(
            "{written} does not fit into 64 bits and is cut to {}",
            i64::MAX
        );
        ours_refuses(reader, path, message, "write less".to_owned());
    }
}

fn look_for_containerfs(reader: &mut Reader<'_>, path: &str) {
    if path.contains(".containerfs.") {
        let message =
            "has no effect: containerfs takes the thresholds of nodefs or imagefs".to_owned();
        reader.warn_about(path, message, "set those");
    }
}

/// Entries that belong to a threshold that is not there.
fn look_for_orphans(reader: &mut Reader<'_>, maps: &ThresholdMaps) {
    let orphans = |entries: &BTreeMap<String, String>, of: &[&BTreeMap<String, String>]| {
        let alone = |signal: &&String| of.iter().all(|map| !map.contains_key(*signal));
        entries.keys().filter(alone).cloned().collect::<Vec<_>>()
    };
    for signal in orphans(&maps.soft_grace_period, &[&maps.soft]) {
        let path = format!("evictionSoftGracePeriod.{signal}");
        let message = "there is no soft threshold for it".to_owned();
        reader.warn_about(&path, message, "add one to evictionSoft, or remove this");
    }
    for signal in orphans(&maps.minimum_reclaim, &[&maps.hard, &maps.soft]) {
        let path = format!("evictionMinimumReclaim.{signal}");
        let message = "there is no threshold for it".to_owned();
        reader.warn_about(
            &path,
            message,
            "add one to evictionHard or evictionSoft, or remove this",
        );
    }
}

fn look_at_soft_thresholds(
    reader: &mut Reader<'_>,
    maps: &ThresholdMaps,
    parsed: &ParsedThresholds,
) {
    for soft in &parsed.soft {
        let hard = parsed.hard.iter().find(|hard| hard.signal == soft.signal);
        compare(reader, maps, soft, hard);
    }
    if !parsed.soft.is_empty() && reader.effective.max_pod_grace_period == Some(0) {
        let message = "0 kills pods at once under soft thresholds too".to_owned();
        let advice = "write the most seconds that a pod may take to end";
        reader.warn_about("evictionMaxPodGracePeriod", message, advice);
    }
}

fn compare(
    reader: &mut Reader<'_>,
    maps: &ThresholdMaps,
    soft: &Threshold,
    hard: Option<&Threshold>,
) {
    let signal = soft.signal.as_str();
    let path = format!("evictionSoft.{signal}");
    let hard_path = format!("evictionHard.{signal}");
    match hard {
        Some(_) if soft.is_hard() => ours_refuses(
            reader,
            &path,
            "with a grace period of 0s this is a second hard threshold for the same signal"
                .to_owned(),
            format!("remove it, or set evictionSoftGracePeriod.{signal} above 0s"),
        ),
        None if soft.is_hard() => reader.warn_about(
            &path,
            "with a grace period of 0s this is a hard threshold".to_owned(),
            "move it to evictionHard, where it says so",
        ),
        Some(hard) if is_not_above(soft.value, hard.value) => {
            let written = |map: &BTreeMap<String, String>| map.get(signal).cloned();
            let message = format!(
                "{} is not {} the hard threshold of {} ({}), which acts at once, so that this one never acts first",
                written(&maps.soft).unwrap_or_default(),
                if soft.signal.is_pressure() {
                    "below"
                } else {
                    "above"
                },
                written(&maps.hard).unwrap_or_default(),
                reader
                    .effective
                    .origin(&hard_path)
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            );
            ours_refuses(
                reader,
                &path,
                message,
                if soft.signal.is_pressure() {
                    format!("lower it, or raise {hard_path}")
                } else {
                    format!("raise it, or lower {hard_path}")
                },
            );
        }
        _ => {}
    }
}

/// An amount cannot be compared with a percentage of an unknown capacity, nor figures of different averages.
fn is_not_above(soft: ThresholdValue, hard: ThresholdValue) -> bool {
    match (soft, hard) {
        (ThresholdValue::Quantity(soft), ThresholdValue::Quantity(hard)) => soft <= hard,
        (ThresholdValue::Percentage(soft), ThresholdValue::Percentage(hard)) => soft <= hard,
        (ThresholdValue::Pressure(soft), ThresholdValue::Pressure(hard)) => {
            let same = (soft.share, soft.average) == (hard.share, hard.average);
            same && soft.most >= hard.most
        }
        _ => false,
    }
}

/// Warns if `memoryAndSwap: both` has no pair of thresholds.
fn look_at_swap(reader: &mut Reader<'_>) {
    let thresholds = &reader.effective.configured_thresholds;
    let has = |signal, hard| {
        let of = |one: &Threshold| one.signal == signal && one.is_hard() == hard;
        thresholds.iter().any(of)
    };
    let pair = |hard| has(Signal::MemoryAvailable, hard) && has(Signal::SwapAvailable, hard);
    let both = reader.effective.memory_and_swap == MemoryAndSwap::Both;
    if both && !pair(true) && !pair(false) {
        let message =
            "both has no effect: no map has memory.available and swap.available".to_owned();
        reader.warn_about(
            "memoryAndSwap",
            message,
            "add swap.available to evictionHard",
        );
    }
}

/// Warns of an I/O threshold without a duration: the pods' reads and writes are measured during that time.
fn look_at_io(reader: &mut Reader<'_>) {
    const LEAST: SignedDuration = SignedDuration::from_secs(1);
    let thresholds = reader.effective.configured_thresholds.clone();
    let of_io = thresholds.iter().filter(|one| one.signal == Signal::IoPsi);
    for threshold in of_io.filter(|one| one.acts_after() < LEAST) {
        let map = if reader
            .effective
            .maps
            .hard
            .contains_key(Signal::IoPsi.as_str())
            && threshold.is_hard()
        {
            "evictionHard"
        } else {
            "evictionSoft"
        };
        let path = format!("{map}.{}", threshold.signal);
        let message = format!(
            "{} has too short a duration to tell which pod reads and writes",
            threshold.value
        );
        let fault = Fault::new(reader.value_place(&path), message);
        reader.mistake(&path, fault.advise("write at least \"for 1s\"".to_owned()));
    }
}

fn look_for_unwatched_signals(reader: &mut Reader<'_>, maps: &ThresholdMaps) {
    let thresholds = reader.effective.configured_thresholds.clone();
    let unwatched: Vec<&str> = WORTH_WATCHING
        .into_iter()
        .filter(|signal| {
            thresholds
                .iter()
                .all(|threshold| threshold.signal != *signal)
        })
        .map(Signal::as_str)
        .collect();
    let why = |signal: &str| maps.hard.get(signal).map_or("no threshold", String::as_str);
    let kubelet = reader.effective.kind == Kind::Kubelet;
    if thresholds.is_empty() {
        let message = if kubelet {
            "this kubelet's own eviction is off: every threshold is 0% or missing"
        } else {
            "eviction is off: every threshold is 0% or missing"
        };
        let advice = "when a resource runs out, the kernel's OOM killer or a full disk decides";
        reader.warn_about("evictionHard", message.to_owned(), advice);
    } else if !unwatched.is_empty() {
        let signals: Vec<String> = unwatched
            .iter()
            .map(|signal| format!("{signal} ({})", why(signal)))
            .collect();
        let message = format!("not watched: {}", signals.join(", "));
        let is_written = matches!(
            reader.effective.origin("evictionHard"),
            Some(Origin::File { .. })
        );
        let advice = match kubelet {
            true if is_written && !reader.effective.merge_default_eviction_settings => {
                "a kubelet's evictionHard replaces its defaults as a whole unless mergeDefaultEvictionSettings is true"
            }
            true => "a kubelet has no default for it",
            false => "nothing is evicted when it runs out",
        };
        let written = unwatched
            .iter()
            .find_map(|signal| reader.value_place(&format!("evictionHard.{signal}")));
        let at = written.or(reader.value_place("evictionHard"));
        reader.warning("evictionHard", Fault::new(at, message).advise(advice));
    }
}
