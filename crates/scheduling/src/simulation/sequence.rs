//! Pods in the order of the queue, placed one after the other onto a cluster: each that finds a node is bound at once, and
//! for each that preempts the victims go at once.

use super::created::created;
use crate::change::{Change, Delta};
use crate::config::{Configuration, InvalidField, KubeSchedulerConfiguration};
use crate::framework::Framework;
use crate::queue::{Pool, Settings};
use crate::scheduler::{Attempt, Event, Outcome as Ended, Scheduler};
use evictd_manifests::{Admission, Kind, Object};
use evictd_pod::wire::{self, null_is_default};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file of `simulate` with `pending`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceFile {
    now: Timestamp,
    config: Option<KubeSchedulerConfiguration>,
    #[serde(default, deserialize_with = "null_is_default")]
    objects: Vec<Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    pending: Vec<Value>,
}

impl SequenceFile {
    /// Reads its objects, and completes pods that no API server has stored.
    ///
    /// # Errors
    /// Every mistake, with its field.
    pub fn read(self) -> Result<Sequence, Vec<InvalidField>> {
        let mut mistakes = Vec::new();
        let mut read = |list: &[Value], name: &str| -> Vec<Object> {
            let objects = list.iter().enumerate();
            let objects = objects.filter_map(|(index, object)| {
                object_of(object)
                    .map_err(|error| mistakes.push(invalid(format!("{name}[{index}]"), error)))
                    .ok()
            });
            objects.flatten().collect()
        };
        let (objects, pending) = (
            read(&self.objects, "objects"),
            read(&self.pending, "pending"),
        );
        let mut admission = Admission::default();
        for object in objects.iter().chain(&pending) {
            admission.learn(object);
        }
        let mut admit = |objects: Vec<Object>| -> Vec<Object> {
            let admitted = objects.into_iter().map(|object| admission.complete(object));
            let admitted = admitted.filter_map(|result| {
                result
                    .map_err(|refusal| mistakes.push(invalid(refusal.pod, refusal.message)))
                    .ok()
            });
            admitted.flat_map(|completed| completed.objects).collect()
        };
        let (objects, pending) = (admit(objects), admit(pending));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Sequence {
            now: self.now,
            config: self.config,
            objects,
            pending,
        })
    }
}

/// Pods that come one after the other onto a cluster.
#[derive(Debug)]
pub struct Sequence {
    /// When it begins.
    pub now: Timestamp,
    /// How pods are placed; without it as kube-scheduler does.
    pub config: Option<KubeSchedulerConfiguration>,
    /// The objects that exist at the start.
    pub objects: Vec<Object>,
    /// The pods that are created then, one after the other.
    pub pending: Vec<Object>,
}

/// What became of the pods, by `namespace/name`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceOutcome {
    /// Every attempt, in order.
    pub attempts: Vec<AttemptOutcome>,
    /// The nodes of those that found one.
    pub placed: BTreeMap<String, String>,
    /// What those were told last that found none.
    pub unschedulable: BTreeMap<String, String>,
    /// Those that must not be tried yet.
    pub gated: Vec<String>,
    /// What of the input could not be used.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// How full the nodes are at the end.
    #[serde(skip)]
    pub nodes: Vec<NodeUse>,
}

/// How full a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUse {
    /// Its name.
    pub name: String,
    /// How many pods it has.
    pub pods: usize,
    /// Thousandths of a core that its pods ask for, and that it has.
    pub cpu: (i64, i64),
    /// Bytes of memory, in the same way.
    pub memory: (i64, i64),
}

/// One attempt.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptOutcome {
    /// The pod.
    pub pod: String,
    /// On how many nodes it fitted.
    pub feasible_count: usize,
    /// The highest total, if nodes were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_score: Option<i64>,
    /// The nodes with that total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<String>,
    /// Of these the one whose name comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The plugins that kept it away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// The node that was freed for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<String>,
    /// The pods that went for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Pods that lost their nomination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nominations_cleared: Vec<String>,
}

/// Between two pods that come.
const ARRIVAL: SignedDuration = SignedDuration::from_millis(1);
/// Between two attempts.
const TURN: SignedDuration = SignedDuration::from_millis(10);

/// Places the pods. `told` hears after each attempt how many pods have been decided about, and of how many.
///
/// # Errors
/// Every mistake of the input, with its field.
pub fn run_sequence(
    sequence: &Sequence,
    told: &mut dyn FnMut(usize, usize),
) -> Result<SequenceOutcome, Vec<InvalidField>> {
    let config = match &sequence.config {
        None => Configuration::default(),
        Some(wire) => Configuration::new(wire, &[]).map_err(|mistakes| {
            let mistakes = mistakes.into_iter();
            let within = |own: InvalidField| invalid(format!("config.{}", own.field), own.message);
            mistakes.map(within).collect::<Vec<_>>()
        })?,
    };
    let settings = Settings {
        as_kube_scheduler: true,
        initial_backoff: config.pod_initial_backoff,
        max_backoff: config.pod_max_backoff,
        ..Settings::default()
    };
    let scheduler = Scheduler::new(settings, !config.extenders.is_empty(), |cluster| {
        config
            .profiles
            .iter()
            .map(|profile| Framework::new(cluster, profile, &[]))
            .collect()
    });
    let mut run = Run {
        scheduler: scheduler.map_err(|error| vec![invalid("config".to_owned(), error)])?,
        now: sequence.now,
        pods: BTreeMap::new(),
        outcome: SequenceOutcome::default(),
    };
    for event in sequence.objects.iter().filter_map(created) {
        run.tell(&event);
    }
    for event in sequence.pending.iter().filter_map(created) {
        run.wait(ARRIVAL);
        run.tell(&event);
    }
    Ok(run.play(told))
}

const fn invalid(field: String, message: String) -> InvalidField {
    InvalidField { field, message }
}

/// The object of a kind that is read; `None` for another kind.
fn object_of(value: &Value) -> Result<Option<Object>, String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let name = text("kind").ok_or("kind is missing")?;
    let kind = Kind::of(name, text("apiVersion").unwrap_or_default());
    let object = kind.map(|kind| kind.read_value(value)).transpose();
    object.map_err(|error| error.to_string())
}

struct Run {
    scheduler: Scheduler,
    now: Timestamp,
    /// Every pod that is there.
    pods: BTreeMap<String, Arc<wire::Pod>>,
    outcome: SequenceOutcome,
}

fn name(pod: &wire::Pod) -> String {
    format!(
        "{}/{}",
        pod.metadata.namespace_or_default(),
        pod.metadata.name
    )
}

impl Run {
    fn wait(&mut self, time: SignedDuration) {
        // A file whose time ends is not run for as long as that.
        self.now = self.now.checked_add(time).unwrap_or(self.now);
    }

    fn tell(&mut self, event: &Event) {
        if let Event::Change(Change::Pod(Delta { new: Some(pod), .. })) = event {
            self.pods.insert(name(pod), Arc::clone(pod));
        }
        self.scheduler.on(self.now, event);
        self.outcome
            .warnings
            .extend(self.scheduler.take_invalid_objects());
    }

    /// A pod changes, or goes.
    fn change(&mut self, named: &str, new: Option<wire::Pod>) {
        let Some(old) = self.pods.remove(named) else {
            return;
        };
        self.tell(&Event::Change(Change::Pod(Delta {
            old: Some(old),
            new: new.map(Arc::new),
        })));
    }

    fn play(mut self, told: &mut dyn FnMut(usize, usize)) -> SequenceOutcome {
        let all = self.scheduler.queue().len();
        loop {
            self.wait(TURN);
            let Some(attempt) = self.scheduler.attempt(self.now) else {
                break;
            };
            self.end(attempt);
            told(
                self.outcome.placed.len() + self.outcome.unschedulable.len(),
                all,
            );
        }
        let queue = self.scheduler.queue();
        let gated: Vec<_> = queue.pods_in(Pool::Gated);
        let mut gated: Vec<String> = gated
            .iter()
            .filter_map(|key| queue.pod(key))
            .map(|pod| name(pod))
            .collect();
        gated.sort();
        self.outcome.gated = gated;
        let cluster = self.scheduler.cluster();
        let nodes = cluster
            .node_ids()
            .zip(cluster.nodes())
            .map(|(id, node)| NodeUse {
                name: cluster.node_name(id).to_owned(),
                pods: node.pods.len(),
                cpu: (node.requested.cpu, node.allocatable.cpu),
                memory: (node.requested.memory, node.allocatable.memory),
            });
        self.outcome.nodes = nodes.collect();
        self.outcome
    }

    /// Does what an attempt has led to.
    fn end(&mut self, attempt: Attempt) {
        let named = name(&attempt.pod);
        let mut told = AttemptOutcome {
            pod: named.clone(),
            ..AttemptOutcome::default()
        };
        match attempt.outcome {
            Ended::Placed { node, result, .. } => {
                let cluster = self.scheduler.cluster();
                let top = result
                    .top
                    .iter()
                    .map(|id| cluster.node_name(*id).to_owned());
                told.top = top.collect();
                told.top.sort();
                told.feasible_count = result.feasible;
                told.top_score = result.score;
                told.chosen = Some(node.to_string());
                self.scheduler.bound(self.now, &attempt.key);
                let mut bound = (*attempt.pod).clone();
                bound.spec.node_name = node.to_string();
                self.outcome.unschedulable.remove(&named);
                self.outcome.placed.insert(named.clone(), node.to_string());
                self.outcome.attempts.push(told);
                self.change(&named, Some(bound));
            }
            Ended::Unschedulable(rejected) => {
                self.outcome
                    .unschedulable
                    .insert(named.clone(), rejected.message.clone());
                told.message = Some(rejected.message);
                told.plugins = rejected.plugins.into_iter().collect();
                told.nominated.clone_from(&rejected.nominated);
                told.victims = rejected.victims.into_iter().map(|(name, _)| name).collect();
                told.victims.sort();
                told.nominations_cleared = rejected.nominations_cleared;
                let (victims, cleared) = (told.victims.clone(), told.nominations_cleared.clone());
                self.outcome.attempts.push(told);
                for victim in victims {
                    self.change(&victim, None);
                }
                if let Some(node) = rejected.nominated {
                    self.nominate(&named, &node);
                }
                for pod in cleared {
                    self.nominate(&pod, "");
                }
            }
            Ended::Error(message) => {
                self.outcome.unschedulable.insert(named, message.clone());
                told.message = Some(message);
                self.outcome.attempts.push(told);
            }
            // It is tried in its turn.
            Ended::PutOff(_) => {}
            // No extender is asked here, and no plugin of one's own.
            Ended::AskExtenders(_)
            | Ended::WaitsOnPermit { .. }
            | Ended::Deleting
            | Ended::NoProfile => {}
        }
    }

    /// Writes a nomination into the status of a pod.
    fn nominate(&mut self, named: &str, node: &str) {
        let Some(pod) = self.pods.get(named) else {
            return;
        };
        let mut pod = (**pod).clone();
        node.clone_into(&mut pod.status.nominated_node_name);
        self.change(named, Some(pod));
    }
}
