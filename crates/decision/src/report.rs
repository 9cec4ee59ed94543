//! A report about a node, from the records of its decisions.
//!
//! The figures of pods are those of the moments of decisions, when the node was short of something: between them nothing is
//! recorded. A decision that was not carried out (dry run, pause) counts as one that would have been.

mod pods;
#[cfg(test)]
mod tests;

pub use pods::{Comparison, Difference, PodUsage};

use crate::record::{Kind, Outcome, Record};
use jiff::Timestamp;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most owners and pods that are listed.
const LISTED: usize = 50;

/// A report about a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// From here on decisions are counted.
    pub since: Timestamp,
    /// Up to here.
    pub until: Timestamp,
    /// The oldest decision that is kept. Earlier ones may have been dropped, if it is later than `since`.
    pub oldest: Option<Timestamp>,
    /// Why decisions may be missing, where the caller knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Records of another version, which the caller could not understand. They are not counted below.
    pub not_understood: usize,
    /// Decisions that are dated later than `until`: the clock was set back. They are not counted below.
    pub later: usize,
    /// All decisions.
    pub total: Counts,
    /// Per signal, or limit of a pod.
    pub signals: Vec<SignalReport>,
    /// Per owner of evicted pods, the most affected first; pods without an owner stand for themselves.
    pub owners: Vec<OwnerReport>,
    /// Pods that used more than they requested, those that did so most often first.
    pub above_request: Vec<PodUsage>,
    /// Which pods a kubelet would have chosen for the same figures.
    pub kubelet: Comparison,
}

/// How many decisions there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Pods that were evicted.
    pub evicted: u32,
    /// Evictions that were not carried out: in a dry run or during a pause.
    pub would_evict: u32,
    /// Evictions whose pod could not be terminated.
    pub failed: u32,
    /// Pods that were rejected, or would have been.
    pub rejected: u32,
    /// Pods that were preempted for a critical one, or would have been.
    pub preempted: u32,
    /// Decisions that no pod may be evicted, although a threshold was met.
    pub withheld: u32,
    /// Reclaims of dead containers and images, without an eviction.
    pub reclaims: u32,
}

/// A signal, or a limit of pods.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalReport {
    /// Its name.
    pub signal: String,
    /// Its decisions.
    #[serde(flatten)]
    pub counts: Counts,
    /// The least that was available at a decision, in the signal's unit; absent for a limit of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_available: Option<i64>,
    /// The capacity at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<i64>,
    /// Seconds from the crossing to the exit of the last process: the median of the evictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_reaction_seconds: Option<f64>,
    /// The longest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_reaction_seconds: Option<f64>,
}

/// The pods of one owner.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReport {
    /// The owner, or the pod.
    pub owner: String,
    /// Decisions about its pods.
    #[serde(flatten)]
    pub counts: Counts,
    /// The signals.
    pub signals: BTreeSet<String>,
    /// The last decision.
    pub last: Timestamp,
    /// Its id, for `evictd history`.
    pub last_id: String,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        let count = match record.kind {
            Kind::Admission => &mut self.rejected,
            Kind::Preemption => &mut self.preempted,
            Kind::Reclaim => &mut self.reclaims,
            _ if record.pod.is_none() => &mut self.withheld,
            _ if !is_carried_out(record) => &mut self.would_evict,
            _ if matches!(record.outcome, Some(Outcome::Failed { .. })) => &mut self.failed,
            _ => &mut self.evicted,
        };
        *count = count.saturating_add(1);
    }

    /// Decisions about a pod.
    pub const fn of_pods(&self) -> u32 {
        self.evicted
            .saturating_add(self.would_evict)
            .saturating_add(self.failed)
            .saturating_add(self.rejected)
            .saturating_add(self.preempted)
    }
}

fn is_carried_out(record: &Record) -> bool {
    !record.dry_run && record.paused.is_none()
}

impl Report {
    /// The report of these records, each decision once: those that were made in the time from `since` to `until`.
    pub fn of(records: &[Record], since: Timestamp, until: Timestamp) -> Self {
        let within = |record: &&Record| (since..=until).contains(&record.time);
        let within: Vec<&Record> = records.iter().filter(within).collect();
        let mut total = Counts::default();
        for record in &within {
            total.add(record);
        }
        Self {
            since,
            until,
            oldest: records.iter().map(|record| record.time).min(),
            problem: None,
            not_understood: 0,
            later: records.iter().filter(|it| it.time > until).count(),
            total,
            signals: signals(&within),
            owners: owners(&within),
            above_request: pods::above_request(&within),
            kubelet: Comparison::of(&within),
        }
    }

    /// Whether decisions may be missing for another reason than their age.
    pub const fn is_incomplete(&self) -> bool {
        self.problem.is_some() || self.not_understood > 0 || self.later > 0
    }

    /// Whether decisions of the time before the oldest record may be missing.
    pub fn may_lack_some(&self) -> bool {
        self.oldest.is_some_and(|oldest| oldest > self.since)
    }
}

fn signals(records: &[&Record]) -> Vec<SignalReport> {
    let mut by_signal: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        by_signal.entry(&record.signal).or_default().push(record);
    }
    let report = |(signal, records): (&str, Vec<&Record>)| {
        let mut counts = Counts::default();
        for record in &records {
            counts.add(record);
        }
        let observed = records
            .iter()
            .filter_map(|record| record.threshold.as_ref());
        let least = observed
            .map(|acting| acting.observed)
            .min_by_key(|it| it.available);
        let mut reactions: Vec<f64> = records.iter().filter_map(|it| reaction(it)).collect();
        reactions.sort_by(f64::total_cmp);
        SignalReport {
            signal: signal.to_owned(),
            counts,
            least_available: least.map(|observed| observed.available),
            capacity: least.map(|observed| observed.capacity),
            median_reaction_seconds: pods::percentile(&reactions, 50),
            longest_reaction_seconds: reactions.last().copied(),
        }
    };
    by_signal.into_iter().map(report).collect()
}

fn reaction(record: &Record) -> Option<f64> {
    record.outcome.as_ref()?.ended()?.reaction_seconds
}

fn owners(records: &[&Record]) -> Vec<OwnerReport> {
    let mut by_owner: BTreeMap<String, OwnerReport> = BTreeMap::new();
    for record in records {
        let Some(pod) = &record.pod else {
            continue;
        };
        let counted = record.owner.as_ref();
        let owner = counted.map_or_else(|| pod.clone(), |counted| counted.owner.to_string());
        let report = by_owner
            .entry(owner.clone())
            .or_insert_with(|| OwnerReport {
                owner,
                counts: Counts::default(),
                signals: BTreeSet::new(),
                last: record.time,
                last_id: record.id.clone(),
            });
        report.counts.add(record);
        report.signals.insert(record.signal.to_string());
        if record.time >= report.last {
            (report.last, report.last_id) = (record.time, record.id.clone());
        }
    }
    let mut owners: Vec<OwnerReport> = by_owner.into_values().collect();
    owners.sort_by_key(|report| (Reverse(report.counts.of_pods()), Reverse(report.last)));
    owners.truncate(LISTED);
    owners
}
