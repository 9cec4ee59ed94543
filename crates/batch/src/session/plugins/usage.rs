//! Plugin usage: nodes by their measured use, and by an estimate for pods that no measurement shows yet (S6-222).

use super::{OnNode, Plugin};
use crate::conf::Arguments;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::resource::number;
use crate::session::snapshot::task::{Status, Task};
use evictd_batch_objects::{Compat, Difference, NodeMetrics};
use evictd_placement::{Cluster, MAX_SCORE, NodeId};
use evictd_pod::Quantity;
use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use std::time::Duration;

/// Older figures count as unknown.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// Figures from further in the future are unknown; so much may clocks differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(30);
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Thousandths of a core, and bytes of memory.
type Pair = [f64; 2];

#[derive(Debug)]
struct Estimator {
    request: f64,
    burst: f64,
    risk_threshold: f64,
    risk_factor: f64,
    best_effort: Pair,
}

#[derive(Debug, Default)]
struct Measured {
    /// Percents of the node; `None` where they are unknown or too old.
    percents: Option<Pair>,
    /// When they were measured.
    time: Option<Timestamp>,
    /// The sum of the estimates for its pods.
    estimate: Pair,
}

#[derive(Debug)]
pub(super) struct Usage {
    weight: f64,
    weights: Pair,
    thresholds: Pair,
    estimator: Estimator,
    nodes: Vec<Measured>,
    estimates: HashMap<TaskId, Estimate>,
    /// The estimates that victims had when they were evicted.
    of_victims: HashMap<TaskId, Option<Estimate>>,
    compat: Compat,
}

/// The node of a task, and the use that is expected of it there.
type Estimate = (NodeId, Pair);

/// The measured percents of a node at this time, if they are recent enough. Measured amounts have no period of their own.
pub(super) fn percents(
    (snapshot, node): (&Snapshot, NodeId),
    metrics: Option<&NodeMetrics>,
    period: &str,
    now: Timestamp,
    compat: Compat,
) -> Option<Pair> {
    let metrics = metrics?;
    let age = now.duration_since(metrics.time?);
    let is_later = age < -CLOCK_SKEW && compat.has(Difference::UnknownUseIsNotZero);
    if age > FRESH || is_later {
        return None;
    }
    if let Some(measured) = metrics.measured {
        let allocatable = &snapshot.nodes[node.index()].allocatable;
        let percent = |used: i64, all: f64| (all > 0.0).then(|| number(used) / all * 100.0);
        let of_cpu = percent(measured.cpu, allocatable.cpu);
        let both = of_cpu.zip(percent(measured.memory, allocatable.memory));
        return both.map(|(cpu, memory)| [cpu, memory]);
    }
    let percents = [&metrics.cpu, &metrics.memory].map(|by_period| by_period.get(period).copied());
    match percents {
        [Some(cpu), Some(memory)] => Some([cpu, memory]),
        _ if compat.has(Difference::UnknownUseIsNotZero) => None,
        [cpu, memory] => Some([cpu.unwrap_or(0.0), memory.unwrap_or(0.0)]),
    }
}

#[expect(clippy::cast_precision_loss, reason = "weights and percents")]
fn whole(
    map: Option<&Map<String, Value>>,
    key: &str,
    allowed: std::ops::RangeInclusive<i64>,
) -> Option<f64> {
    let number = map?.get(key)?.as_i64()?;
    allowed.contains(&number).then_some(number as f64)
}

fn ratio(map: Option<&Map<String, Value>>, key: &str, most: f64, default: f64) -> f64 {
    let number = map.and_then(|map| map.get(key)).and_then(Value::as_f64);
    number
        .filter(|number| (0.0..=most).contains(number))
        .unwrap_or(default)
}

/// An amount: a number in a unit, or a quantity.
#[expect(
    clippy::cast_precision_loss,
    reason = "amounts are floating point in Volcano"
)]
fn amount(value: Option<&Value>, unit: f64, read: fn(&Quantity) -> i64, default: f64) -> f64 {
    let amount = match value {
        Some(Value::Number(number)) => number.as_i64().map(|number| number as f64 * unit),
        Some(Value::String(text)) => text.parse().ok().map(|quantity| read(&quantity) as f64),
        _ => None,
    };
    amount.filter(|amount| *amount >= 0.0).unwrap_or(default)
}

impl Estimator {
    fn new(map: Option<&Map<String, Value>>) -> Self {
        let of = |key: &str| map.and_then(|map| map.get(key));
        let factor = of("risk_factor").and_then(Value::as_f64);
        Self {
            request: ratio(map, "request_ratio", 1.0, 0.7),
            burst: ratio(map, "burst_ratio", 1.0, 0.0),
            risk_threshold: ratio(map, "risk_threshold", 1.0, 0.6),
            risk_factor: factor.filter(|factor| *factor >= 1.0).unwrap_or(1.2),
            best_effort: [
                amount(of("be_cpu"), 1.0, Quantity::milli_value, 250.0),
                amount(of("be_mem"), MEBIBYTE, Quantity::value, 200.0 * MEBIBYTE),
            ],
        }
    }

    /// The use that is expected of a task on a node with this risk.
    fn estimate(&self, task: &Task, factor: f64) -> Pair {
        if task.best_effort {
            return self.best_effort.map(|amount| amount * factor);
        }
        let requests = [task.request.cpu, task.request.memory];
        let limits = task.limits().unwrap_or(requests);
        [0, 1].map(|at| {
            let request = requests[at].max(0.0);
            let limit = limits[at].max(request);
            let expected = request * self.request + (limit - request) * self.burst;
            (expected * factor).clamp(0.0, limit)
        })
    }
}

impl Usage {
    pub(super) fn open(
        snapshot: &Snapshot,
        cluster: &Cluster,
        arguments: &Arguments,
        interval: Duration,
        compat: Compat,
    ) -> Self {
        let map = |key: &str| arguments.value(key).and_then(Value::as_object);
        let weight = |key: &str, default: f64| {
            whole(Some(&arguments.0), key, 0..=i64::MAX).unwrap_or(default)
        };
        let threshold = |key: &str| whole(map("thresholds"), key, 0..=100).unwrap_or(80.0);
        let now = snapshot.clock();
        let nodes = snapshot.node_ids().map(|node| {
            let metrics = snapshot.facts.node_metrics.get(cluster.node_name(node));
            Measured {
                percents: percents((snapshot, node), metrics, NodeMetrics::PERIOD, now, compat),
                time: metrics.and_then(|metrics| metrics.time),
                estimate: [0.0; 2],
            }
        });
        let mut usage = Self {
            weight: weight("usage.weight", 5.0),
            weights: [weight("cpu.weight", 1.0), weight("memory.weight", 1.0)],
            thresholds: [threshold("cpu"), threshold("mem")],
            estimator: Estimator::new(map("estimator")),
            nodes: nodes.collect(),
            estimates: HashMap::new(),
            of_victims: HashMap::new(),
            compat,
        };
        let interval = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
        usage.estimate_unmeasured(snapshot, interval);
        usage
    }

    /// Estimates the pods on nodes that are not measured yet.
    fn estimate_unmeasured(&mut self, snapshot: &Snapshot, interval: SignedDuration) {
        let now = snapshot.clock();
        for node in snapshot.node_ids() {
            // Volcano estimates no pod that started before the interval, however old the figures are.
            let measured_at = self.nodes[node.index()].time;
            let measured_at =
                measured_at.filter(|_| self.compat.has(Difference::UnknownUseIsNotZero));
            let mut tasks = snapshot.nodes[node.index()].tasks.clone();
            tasks.sort_unstable_by_key(|task| &snapshot.tasks[*task].key);
            for id in tasks {
                let task = &snapshot.tasks[id];
                let recent = || {
                    task.started.is_none_or(|started| {
                        now.duration_since(started) < interval
                            || measured_at.is_some_and(|measured| started > measured)
                    })
                };
                let unmeasured = match task.status {
                    Status::Allocated | Status::Binding | Status::Bound => true,
                    Status::Running => recent(),
                    _ => false,
                };
                if unmeasured {
                    self.add(snapshot, id, node);
                }
            }
        }
    }

    /// The parts of a node that are in use, measured and estimated.
    fn parts(&self, snapshot: &Snapshot, node: NodeId) -> Pair {
        let measured = &self.nodes[node.index()];
        let percents = measured.percents.unwrap_or_default();
        let capacity = snapshot.nodes[node.index()].capacity;
        [0, 1].map(|at| {
            if capacity[at] <= 0.0 {
                return 0.0;
            }
            let part = percents[at] / 100.0 + measured.estimate[at] / capacity[at];
            part.clamp(0.0, 1.0)
        })
    }

    fn weighted(&self, parts: Pair) -> f64 {
        let sum: f64 = self.weights.iter().sum();
        if sum == 0.0 {
            return 0.0;
        }
        (parts[0] * self.weights[0] + parts[1] * self.weights[1]) / sum
    }

    fn add(&mut self, snapshot: &Snapshot, id: TaskId, node: NodeId) {
        let load = self.weighted(self.parts(snapshot, node));
        let risky = load >= self.estimator.risk_threshold;
        let factor = if risky {
            self.estimator.risk_factor
        } else {
            1.0
        };
        let estimate = self.estimator.estimate(&snapshot.tasks[id], factor);
        self.subtract(id);
        self.insert(id, (node, estimate));
    }

    fn insert(&mut self, id: TaskId, (node, estimate): Estimate) {
        for (sum, amount) in self.nodes[node.index()].estimate.iter_mut().zip(estimate) {
            *sum += amount;
        }
        self.estimates.insert(id, (node, estimate));
    }

    fn subtract(&mut self, id: TaskId) -> Option<Estimate> {
        let (node, estimate) = self.estimates.remove(&id)?;
        for (sum, amount) in self.nodes[node.index()].estimate.iter_mut().zip(estimate) {
            *sum = (*sum - amount).max(0.0);
        }
        Some((node, estimate))
    }
}

impl Plugin for Usage {
    fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        // An undone eviction leaves the estimate as it was. Volcano adds one also for a pod that is measured.
        if let Some(before) = self.of_victims.remove(&task) {
            if let Some(estimate) = before {
                self.insert(task, estimate);
            }
        } else if let Some(node) = snapshot.tasks[task].node {
            self.add(snapshot, task, node);
        }
    }

    fn deallocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        let estimate = self.subtract(task);
        let is_victim = snapshot.tasks[task].status == Status::Releasing;
        if is_victim && self.compat.has(Difference::ExactUndo) {
            self.of_victims.insert(task, estimate);
        }
    }

    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        let percents = self.nodes[at.node.index()].percents?;
        let names = ["CPU", "memory"].into_iter().enumerate();
        let mut exceeded = names.filter(|(at, _)| percents[*at] > self.thresholds[*at]);
        let (_, name) = exceeded.next()?;
        Some(Refusal {
            texts: vec![format!(
                "the {name} load of the node exceeds the upper limit."
            )],
            unresolvable: true,
            ..Refusal::default()
        })
    }

    /// A node whose use is unknown scores nothing, as one that is full.
    fn node_score(&self, at: OnNode<'_>) -> f64 {
        if self.nodes[at.node.index()].percents.is_none() {
            return 0.0;
        }
        let used = self.parts(at.snapshot, at.node);
        #[expect(clippy::cast_precision_loss, reason = "it is 100")]
        let most = MAX_SCORE as f64;
        self.weighted(used.map(|used| 1.0 - used)) * most * self.weight
    }
}
