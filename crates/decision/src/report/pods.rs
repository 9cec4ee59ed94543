//! Pods in the rankings of records: which of them used more than they requested, and which a kubelet would have chosen.

use super::LISTED;
use crate::record::{RankingRow, Record};
use evictd_pod::Quantity;
use evictd_signals::{Signal, StarvedResource};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The usage of a pod at the moments of decisions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// `namespace/name`.
    pub pod: String,
    /// The resource.
    pub resource: StarvedResource,
    /// At how many decisions its usage is known.
    pub decisions: usize,
    /// At how many of them it was above its request.
    pub above: usize,
    /// Its last request.
    pub request: Quantity,
    /// Its median usage.
    pub p50: Quantity,
    /// The usage that 99 of 100 decisions did not exceed. With such a request it would have ranked after the pods above theirs.
    pub p99: Quantity,
}

/// The pods that used more than they requested, at one decision at least.
pub(super) fn above_request(records: &[&Record]) -> Vec<PodUsage> {
    let mut by_pod: BTreeMap<(&str, &str), (StarvedResource, Vec<&RankingRow>)> = BTreeMap::new();
    for record in records {
        // Records of earlier versions lack the resource.
        let by_signal = || record.acting_signal().map(Signal::resource);
        let Some(resource) = record.resource.or_else(by_signal) else {
            continue;
        };
        for row in &record.ranking {
            let key = (row.pod.as_str(), resource.as_str());
            let (_, rows) = by_pod.entry(key).or_insert((resource, Vec::new()));
            rows.push(row);
        }
    }
    let pods = by_pod.into_iter();
    let mut pods: Vec<PodUsage> = pods
        .filter_map(|((pod, _), (resource, rows))| usage_of(pod, resource, &rows))
        .collect();
    pods.sort_by_key(|pod| (Reverse(pod.above), Reverse(pod.p99 - pod.request)));
    pods.truncate(LISTED);
    pods
}

fn usage_of(pod: &str, resource: StarvedResource, rows: &[&RankingRow]) -> Option<PodUsage> {
    let mut usages: Vec<Quantity> = rows.iter().filter_map(|row| row.usage).collect();
    usages.sort();
    let above = rows.iter().filter(|row| row.exceeds_request == Some(true));
    let above = above.count();
    if above == 0 {
        return None;
    }
    Some(PodUsage {
        pod: pod.to_owned(),
        resource,
        decisions: usages.len(),
        above,
        request: rows.iter().rev().find_map(|row| row.request)?,
        p50: percentile(&usages, 50)?,
        p99: percentile(&usages, 99)?,
    })
}

/// The least value that so many percent of the sorted values do not exceed.
pub(super) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Which pods a kubelet would have chosen for the same figures. Its own figures are up to 16 s older, so that it may choose
/// yet another pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// How many evictions could be compared.
    pub compared: usize,
    /// In how many of them the kubelet would have chosen the same pod.
    pub same: usize,
    /// The last of the others, at most 50.
    pub different: Vec<Difference>,
}

/// An eviction for which the kubelet would have chosen another pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Id of the decision.
    pub id: String,
    /// The pod that was evicted, or would have been.
    pub pod: String,
    /// The pod that the kubelet would have chosen.
    pub kubelet: String,
    /// The amount that its end would have freed, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<Quantity>,
}

impl Comparison {
    pub(super) fn of(records: &[&Record]) -> Self {
        let mut comparison = Self::default();
        for record in records {
            let pair = record.pod.as_ref().zip(kubelets_choice(record));
            let Some((pod, choice)) = pair else {
                continue;
            };
            comparison.compared += 1;
            if *pod == choice.pod {
                comparison.same += 1;
                continue;
            }
            comparison.different.push(Difference {
                id: record.id.clone(),
                pod: pod.clone(),
                kubelet: choice.pod.clone(),
                gain: choice.gain,
            });
        }
        let surplus = comparison.different.len().saturating_sub(LISTED);
        comparison.different.drain(..surplus);
        comparison
    }
}

/// The pod that the kubelet's order puts first (S1-058 to S1-061), of those that it evicts. `None` for signals that no kubelet
/// has.
fn kubelets_choice(record: &Record) -> Option<&RankingRow> {
    let signal = record.acting_signal().filter(|signal| !signal.is_ours())?;
    let by_priority = signal.resource() == StarvedResource::Pids;
    let evictable = record.ranking.iter().filter(|row| !row.critical);
    evictable.min_by_key(|row| {
        // A pod without figures ranks first.
        let known = row.usage.is_some();
        let exceeds = row.exceeds_request == Some(true);
        let rank = if by_priority || !known {
            0
        } else {
            1 + u8::from(!exceeds)
        };
        let overage = row.overage.filter(|_| !by_priority);
        (rank, row.priority, Reverse(overage))
    })
}
