//! The report of a simulation.

use super::usage::UsageRecorder;
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of a trace that was played.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many jobs came.
    pub jobs: usize,
    /// How many of them have run to their end.
    pub finished: usize,
    /// How many were deleted before their end.
    pub deleted: usize,
    /// Those that neither ended nor were deleted, with the reason.
    pub unfinished: Vec<Unfinished>,
    /// Whether it was broken off because pods were evicted again and again and none came to its end.
    pub broken_off: bool,
    /// From the first arrival to the last end of a pod.
    pub makespan_seconds: f64,
    /// By resource, the part of the cluster that pods held on average over the makespan (0 to 1).
    pub utilization: BTreeMap<String, f64>,
    /// By resource, the part of the cluster that was free while a job waited, averaged over the makespan (0 to 1).
    pub free_while_waiting: BTreeMap<String, f64>,
    /// The same on nodes that were reserved for a job that had waited long.
    pub reserved_while_waiting: BTreeMap<String, f64>,
    /// Jain's index over time; absent where never two queues wanted something at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// From a job's arrival until it had started: until as many of its pods as start together had a node. Jobs that never
    /// started are left out; `None` where no job started.
    pub wait_seconds: Option<Spread>,
    /// By name.
    pub queues: BTreeMap<String, QueueReport>,
    /// Pods that were evicted for others of the same queue.
    pub preempted_pods: u64,
    /// Pods that were evicted for others of another queue.
    pub reclaimed_pods: u64,
    /// Jobs that lost a pod at least once.
    pub evicted_jobs: usize,
    /// By resource, the usage of pods that completed, in the resource's unit times seconds.
    pub work_seconds: BTreeMap<String, f64>,
    /// The same of pods that were evicted and had to start over.
    pub lost_work_seconds: BTreeMap<String, f64>,
    /// How many sessions were run.
    pub sessions: u64,
    /// The same figures over time.
    pub series: Timeline,
}

/// A job that has not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unfinished {
    /// `namespace/name`.
    pub job: String,
    /// Its queue.
    pub queue: String,
    /// Whether it ever started.
    pub started: bool,
    /// The last session's message about it.
    pub reason: String,
}

/// Jain's index of fairness among queues: see [`super`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fairness {
    /// The average over the time in which at least two queues wanted something.
    pub mean: f64,
    /// It was below this for a twentieth of that time.
    pub p5: f64,
    /// That time.
    pub seconds: f64,
}

/// How figures are spread, in seconds. Each is that of a job (nearest rank).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The average.
    pub mean: f64,
    /// Half were at most this.
    pub p50: f64,
    /// 95 of 100 were at most this.
    pub p95: f64,
    /// 99 of 100 were at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// The figures of a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueReport {
    /// How many jobs came.
    pub jobs: usize,
    /// How many of them have run to their end.
    pub finished: usize,
    /// As of all jobs.
    pub wait_seconds: Option<Spread>,
    /// Pods that were evicted for others of this queue.
    pub preempted_pods: u64,
    /// Pods that were evicted for others of another queue.
    pub reclaimed_pods: u64,
    /// By resource, the part of the cluster that its pods held on average (0 to 1).
    pub utilization: BTreeMap<String, f64>,
}

/// Averages of equal spans of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Length of a span, in seconds; the last one may be cut short.
    pub span_seconds: f64,
    /// The beginning of each span, in seconds since the first arrival. All other lists are as long.
    pub seconds: Vec<f64>,
    /// By queue and resource, the part of the cluster that its pods held.
    pub queues: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// Jain's index; `null` where at no time two queues wanted something.
    pub fairness: Vec<Option<f64>>,
    /// Jobs that had come and not started.
    pub waiting_jobs: Vec<f64>,
}

impl Spread {
    /// Of these, in milliseconds; `None` where there are none.
    pub(super) fn of(mut millis: Vec<u64>) -> Option<Self> {
        use super::wire::in_seconds;
        millis.sort_unstable();
        let count = millis.len();
        let rank = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            millis.get(rank - 1).copied().map_or(0.0, in_seconds)
        };
        let sum: u128 = millis.iter().map(|milli| u128::from(*milli)).sum();
        let mean = sum.checked_div(count as u128)?;
        Some(Self {
            mean: in_seconds(u64::try_from(mean).unwrap_or(u64::MAX)),
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max: rank(100),
        })
    }
}

impl Timeline {
    pub(super) fn of(usage: &UsageRecorder, queues: &[String]) -> Self {
        use super::wire::in_seconds;
        let resources = usage.resources();
        let mut statistics = Self {
            span_seconds: in_seconds(usage.series().span()),
            ..Self::default()
        };
        for average in usage.series().averages() {
            statistics.seconds.push(in_seconds(average.from));
            let mut amounts = average.amounts.into_iter();
            for queue in queues {
                let queue = statistics.queues.entry(queue.clone()).or_default();
                for resource in resources {
                    let list = queue.entry(resource.to_string()).or_default();
                    list.push(amounts.next().flatten().unwrap_or(0.0));
                }
            }
            statistics.fairness.push(amounts.next().flatten());
            statistics
                .waiting_jobs
                .push(amounts.next().flatten().unwrap_or(0.0));
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_jobs() {
        let spread = Spread::of((1..=200).map(|rank| rank * 1000).collect());
        let json_of = |spread: &Option<Spread>| serde_json::to_value(spread).unwrap_or_default();
        let wanted = serde_json::json!({"mean": 100.5, "p50": 100.0, "p95": 190.0, "p99": 198.0, "max": 200.0});
        assert_eq!(json_of(&spread), wanted);
        let one = Spread::of(vec![7000]);
        let wanted =
            serde_json::json!({"mean": 7.0, "p50": 7.0, "p95": 7.0, "p99": 7.0, "max": 7.0});
        assert_eq!(json_of(&one), wanted);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
