//! Plugin resource-strategy-fit: least or most allocated nodes first, resource by resource (S6-211, S6-212).

mod scarce;

use super::{OnNode, Plugin};
use crate::conf::{Arguments, boolean_of, field};
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::resource::{Dim, Dims};
use crate::session::snapshot::task::MARKS;
use crate::session::snapshot::{Node, Snapshot};
use evictd_placement::MAX_SCORE;
use hashbrown::HashMap;
use scarce::{Proportional, Scarce};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Least,
    Most,
    /// Scores nothing; its weight counts.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    strategy: Strategy,
    weight: f64,
}

type Rules = HashMap<Dim, Rule>;

#[derive(Debug)]
pub(super) struct ResourceStrategyFit {
    weight: f64,
    rules: Rules,
    /// Of each task whose pod has annotations.
    by_task: HashMap<TaskId, Rules>,
    scarce: Option<Scarce>,
    proportional: Option<Proportional>,
}

/// 100 times a weight.
#[expect(clippy::cast_precision_loss, reason = "it is 100")]
fn most(weight: f64) -> f64 {
    MAX_SCORE as f64 * weight
}

fn is_on(map: &Map<String, Value>) -> bool {
    let on = field(map, "enable").and_then(boolean_of);
    on.unwrap_or(false)
}

fn number(map: &Map<String, Value>, key: &str, default: f64) -> f64 {
    map.get(key).and_then(Value::as_f64).unwrap_or(default)
}

/// `a, b`.
fn names(map: &Map<String, Value>) -> Vec<&str> {
    let text = field(map, "resources").and_then(Value::as_str);
    let names = text.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

/// The rules of the arguments. A name may end in one `*`; an exact name wins, then the longest one.
fn rules_of(arguments: &Arguments, dims: &Dims) -> Rules {
    let rule = |rule: &Value| {
        let key = |key: &str| field(rule.as_object()?, key);
        let weight = key("weight").and_then(Value::as_f64);
        let weight = weight.map_or(0.0, f64::trunc);
        Rule {
            strategy: match key("type").and_then(Value::as_str) {
                Some("MostAllocated") => Strategy::Most,
                _ => Strategy::Least,
            },
            weight: if weight <= 0.0 { 1.0 } else { weight },
        }
    };
    let named = arguments.value("resources").and_then(Value::as_object);
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        let rule = Rule {
            strategy: Strategy::Least,
            weight: 1.0,
        };
        return [(Dim::CPU, rule), (Dim::MEMORY, rule)].into();
    };
    let of = |name: &str| {
        let exact = named.get(name);
        let prefixes = named.iter().filter_map(|(key, value)| {
            let prefix = key.strip_suffix('*')?;
            (!prefix.is_empty() && !prefix.contains('*') && name.starts_with(prefix))
                .then_some((prefix.len(), value))
        });
        let longest = prefixes.max_by_key(|(length, _)| *length);
        exact.or(longest.map(|(_, value)| value)).map(rule)
    };
    dims.each()
        .filter_map(|(dim, name)| Some((dim, of(name)?)))
        .collect()
}

/// The rules of a pod's annotations; none where it names no strategy. Invalid weights are no rules, so the score is zero.
fn rules_of_task(snapshot: &Snapshot, task: TaskId) -> Option<Rules> {
    let task = &snapshot.tasks[task];
    let strategy = match task.mark(MARKS[0]).filter(|name| !name.is_empty())? {
        "LeastAllocated" => Strategy::Least,
        "MostAllocated" => Strategy::Most,
        _ => Strategy::Unknown,
    };
    let weights = task.mark(MARKS[1]);
    let weights = weights.and_then(|text| serde_json::from_str::<BTreeMap<String, i64>>(text).ok());
    let weights = weights.unwrap_or_default();
    let rules = weights.iter().filter_map(|(name, weight)| {
        #[expect(clippy::cast_precision_loss, reason = "weights are small")]
        let weight = *weight as f64;
        Some((snapshot.dims.find(name)?, Rule { strategy, weight }))
    });
    Some(rules.collect())
}

impl ResourceStrategyFit {
    pub(super) fn open(snapshot: &Snapshot, arguments: &Arguments) -> Self {
        let part = |name: &str| {
            let part = arguments.value(name).and_then(Value::as_object);
            part.filter(|part| is_on(part))
        };
        let weight = arguments.number("resourceStrategyFitWeight", 10.0).trunc();
        let tasks = snapshot.live_jobs().flat_map(|(_, job)| job.tasks.iter());
        let by_task = tasks.filter_map(|task| Some((*task, rules_of_task(snapshot, *task)?)));
        Self {
            weight: if weight < 0.0 { 10.0 } else { weight },
            rules: rules_of(arguments, &snapshot.dims),
            by_task: by_task.collect(),
            scarce: part("sra").map(|part| Scarce::new(part, &snapshot.dims)),
            proportional: part("proportional").map(|part| Proportional::new(part, &snapshot.dims)),
        }
    }

    /// The weighted mean over the requested resources that have a rule.
    fn allocation_score(&self, snapshot: &Snapshot, id: TaskId, node: &Node) -> f64 {
        let rules = self.by_task.get(&id).unwrap_or(&self.rules);
        let (mut score, mut weights) = (0.0, 0.0);
        for (dim, asked) in snapshot.tasks[id].request.iter() {
            let Some(rule) = rules.get(&dim).filter(|_| asked != 0.0) else {
                continue;
            };
            let there = node.allocatable.get(dim);
            let used = node.used.get(dim) + asked;
            // As in Volcano, a node without the resource adds nothing but the weight.
            if there != 0.0 && rule.weight != 0.0 && rule.strategy != Strategy::Unknown {
                if used > there {
                    return 0.0;
                }
                let part = match rule.strategy {
                    Strategy::Most => used / there,
                    _ => (there - used) / there,
                };
                score += part * rule.weight;
            }
            weights += rule.weight;
        }
        if weights > 0.0 {
            score /= weights;
        }
        score * most(self.weight)
    }
}

impl Plugin for ResourceStrategyFit {
    fn node_key(&self, _: &Snapshot, task: TaskId) -> u64 {
        if self.by_task.contains_key(&task) {
            1 + task.index() as u64
        } else {
            0
        }
    }

    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        let proportional = self.proportional.as_ref()?;
        let node = &at.snapshot.nodes[at.node.index()];
        let lacking = proportional.lacking(&at.snapshot.tasks[at.task].request, node)?;
        let name = at.snapshot.dims.name(lacking);
        Some(Refusal {
            texts: vec![format!("proportional of resource {name} check failed")],
            unresolvable: true,
            ..Refusal::default()
        })
    }

    fn node_score(&self, at: OnNode<'_>) -> f64 {
        let node = &at.snapshot.nodes[at.node.index()];
        let request = &at.snapshot.tasks[at.task].request;
        let scarce = self.scarce.as_ref();
        let scarce = scarce.map_or(0.0, |scarce| scarce.score(request, node));
        scarce
            + if self.weight == 0.0 {
                0.0
            } else {
                self.allocation_score(at.snapshot, at.task, node)
            }
    }
}
