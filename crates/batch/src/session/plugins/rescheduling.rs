//! Plugin rescheduling: action shuffle evicts pods from nodes that are used much while others are used little (S6-206).

use super::Plugin;
use super::usage::percents;
use crate::conf::{Arguments, PluginName, field};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::TaskId;
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::{Cluster, NodeId};
use evictd_pod::duration;
use hashbrown::HashSet;
use jiff::SignedDuration;
use serde_json::{Map, Value};

const INTERVAL: SignedDuration = SignedDuration::from_mins(5);
const STRATEGY: &str = "lowNodeUtilization";
/// The period of the figures. No source has figures of this period, so that only another one makes the plugin work.
const PERIOD: &str = "5m";

/// Cpu and memory.
type Pair = [f64; 2];

#[derive(Debug)]
pub(super) struct Rescheduling {
    /// Whether the interval since the last evictions is over.
    is_due: bool,
    /// A node below all of these has room.
    low: Pair,
    /// A node above one of these is used too much.
    high: Pair,
    nodes: Vec<Use>,
    compat: Compat,
}

#[derive(Debug)]
struct Use {
    node: NodeId,
    percents: Option<Pair>,
    cordoned: bool,
}

/// The thresholds of a strategy; all are 100 by default.
fn thresholds(params: Option<&Map<String, Value>>, key: &str) -> Pair {
    let map = params.and_then(|params| params.get(key)?.as_object());
    ["cpu", "memory"].map(|name| {
        let number = map.and_then(|map| map.get(name)?.as_f64());
        number.unwrap_or(100.0)
    })
}

impl Rescheduling {
    pub(super) fn open(
        snapshot: &Snapshot,
        cluster: &Cluster,
        arguments: &Arguments,
        compat: Compat,
    ) -> Self {
        let interval = arguments.text("interval");
        let interval = interval.and_then(|text| duration::parse(text).ok());
        let interval = interval.unwrap_or(INTERVAL);
        let now = snapshot.clock();
        let last = snapshot.shuffled_at.get(&PluginName::Rescheduling);
        let over = last.is_none_or(|at| now.duration_since(*at) >= interval);
        let strategies = arguments.value("strategies").and_then(Value::as_array);
        let strategies = strategies.filter(|strategies| !strategies.is_empty());
        let strategy = strategies.map(|strategies| {
            let mut strategies = strategies.iter().filter_map(Value::as_object);
            strategies.rfind(|map| field(map, "name").is_some_and(|name| name == STRATEGY))
        });
        let params = strategy.flatten().and_then(|map| field(map, "params"));
        let params = params.and_then(Value::as_object);
        let period = arguments.text("metricsPeriod");
        let period = period.filter(|text| !text.is_empty()).unwrap_or(PERIOD);
        let unknown = (!compat.has(Difference::UnknownUseIsNotZero)).then_some([0.0; 2]);
        let nodes = snapshot.by_rank.iter().map(|node| {
            let metrics = snapshot.facts.node_metrics.get(cluster.node_name(*node));
            let time = metrics.and_then(|metrics| metrics.time);
            // Volcano uses figures of any age.
            let now = if unknown.is_some() { time } else { Some(now) };
            let percents =
                now.and_then(|now| percents((snapshot, *node), metrics, period, now, compat));
            Use {
                node: *node,
                percents: percents.or(unknown),
                cordoned: cluster.node(*node).unschedulable,
            }
        });
        Self {
            is_due: over && strategy.is_none_or(|strategy| strategy.is_some()),
            low: thresholds(params, "thresholds"),
            high: thresholds(params, "targetThresholds"),
            nodes: nodes.collect(),
            compat,
        }
    }

    fn is_low(&self, node: &Use) -> bool {
        let below = |percents: Pair| (0..2).all(|at| percents[at] < self.low[at]);
        !node.cordoned && node.percents.is_some_and(below)
    }

    fn is_high(&self, node: &Use) -> bool {
        let above = |percents: Pair| (0..2).any(|at| percents[at] > self.high[at]);
        node.percents.is_some_and(above)
    }

    fn keeps_to_room(&self) -> bool {
        self.compat.has(Difference::UnknownUseIsNotZero)
    }

    /// The amounts that each node with low use takes until it reaches the target. In Volcano only their sum counts.
    fn rooms<'u>(&self, snapshot: &Snapshot, low: impl Iterator<Item = &'u Use>) -> Vec<Pair> {
        let rooms = low.filter_map(|node| {
            let allocatable = &snapshot.nodes[node.node.index()].allocatable;
            let capacity = [allocatable.cpu, allocatable.memory];
            let percents = node.percents?;
            let amount = |percents: Pair, at: usize| (percents[at] * capacity[at] * 0.01).trunc();
            Some([0, 1].map(|at| amount(self.high, at) - amount(percents, at)))
        });
        if self.keeps_to_room() {
            return rooms.collect();
        }
        let sum = |sum: Pair, room: Pair| [sum[0] + room[0], sum[1] + room[1]];
        vec![rooms.fold([0.0; 2], sum)]
    }

    /// Whether further pods leave a node.
    fn needs_more_evictions(&self, percents: Pair, rooms: &[Pair]) -> bool {
        // Volcano stops only if the room is exactly zero, so it may evict too many pods.
        let is_left = |room: &f64| {
            if self.keeps_to_room() {
                *room > 0.0
            } else {
                *room != 0.0
            }
        };
        (0..2).any(|at| percents[at] >= self.high[at])
            && rooms.iter().any(|room| room.iter().all(is_left))
    }

    /// Takes the room of a pod; `false` if no node has enough.
    fn take_room(&self, rooms: &mut [Pair], request: Pair) -> bool {
        let fits =
            |room: &&mut Pair| !self.keeps_to_room() || (0..2).all(|at| request[at] <= room[at]);
        let Some(room) = rooms.iter_mut().find(fits) else {
            return false;
        };
        for (room, amount) in room.iter_mut().zip(request) {
            *room -= amount;
        }
        true
    }
}

impl Plugin for Rescheduling {
    fn shuffled(&self, snapshot: &Snapshot, running: &[TaskId]) -> Option<Vec<TaskId>> {
        if !self.is_due {
            return None;
        }
        let (low, others): (Vec<&Use>, Vec<&Use>) =
            self.nodes.iter().partition(|node| self.is_low(node));
        let mut high: Vec<&Use> = others
            .into_iter()
            .filter(|node| self.is_high(node))
            .collect();
        if low.is_empty() || high.is_empty() {
            return Some(Vec::new());
        }
        let mut rooms = self.rooms(snapshot, low.into_iter());
        let sum = |node: &Use| node.percents.map_or(0.0, |percents| percents.iter().sum());
        high.sort_by(|one, other| f64::total_cmp(&sum(other), &sum(one)));
        let all: HashSet<TaskId> = running.iter().copied().collect();
        let name = |task: TaskId| Some(snapshot.tasks[task].key.split_once('/')?.1);
        // Volcano takes the first running pod of that name, of whatever namespace and node.
        let victim = |task: TaskId| {
            if self.keeps_to_room() {
                return all.contains(&task).then_some(task);
            }
            let mut running = running.iter().copied();
            running.find(|other| name(*other) == name(task))
        };
        let mut victims = Vec::new();
        for node in high {
            let mut percents = node.percents.unwrap_or_default();
            let capacity = snapshot.nodes[node.node.index()].capacity;
            let mut tasks = snapshot.nodes[node.node.index()].tasks.clone();
            tasks.sort_by_key(|task| {
                let task = &snapshot.tasks[*task];
                (task.pod_priority, task.quality, &task.key)
            });
            for id in tasks.into_iter().filter_map(victim) {
                if !self.needs_more_evictions(percents, &rooms) {
                    break;
                }
                let request = &snapshot.tasks[id].request;
                let request = [request.cpu, request.memory];
                if !self.take_room(&mut rooms, request) {
                    continue;
                }
                for at in 0..2 {
                    percents[at] -= request[at] * 100.0 / capacity[at];
                }
                victims.push(id);
            }
        }
        Some(victims)
    }
}
