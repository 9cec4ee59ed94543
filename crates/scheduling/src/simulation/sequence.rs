//! Schedules pods one after the other onto a cluster. A placed pod is bound at once, and the victims of a preemption are deleted
//! at once.

use super::created::created;
use crate::change::{Change, Delta};
use crate::config::{Configuration, InvalidField, KubeSchedulerConfiguration};
use crate::framework::Framework;
use crate::not_tried::NotTried;
use crate::queue::{Pool, Settings};
use crate::scheduler::{Attempt, Event, Outcome as Ended, Scheduler};
use evictd_manifests::{Admission, Kind, Object};
use evictd_placement::Pod;
use evictd_pod::wire::{self, null_is_default};
use evictd_preemption::{Compat, breaking, budgets_of};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, Serializer};
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
    /// Every error of the file, with its field.
    pub fn read(self) -> Result<Sequence, Vec<InvalidField>> {
        let mut errors = Vec::new();
        let mut read = |list: &[Value], name: &str| -> Vec<Object> {
            list.iter()
                .enumerate()
                .filter_map(|(index, object)| {
                    object_of(object)
                        .map_err(|error| errors.push(invalid(format!("{name}[{index}]"), error)))
                        .ok()
                })
                .flatten()
                .collect()
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
            objects
                .into_iter()
                .map(|object| admission.complete(object))
                .filter_map(|result| {
                    result
                        .map_err(|refusal| errors.push(invalid(refusal.pod, refusal.message)))
                        .ok()
                })
                .flat_map(|completed| completed.objects)
                .collect()
        };
        let (objects, pending) = (admit(objects), admit(pending));
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Sequence {
            now: self.now,
            config: self.config,
            objects,
            pending,
        })
    }
}

/// Pods that are added one after the other to a cluster.
#[derive(Debug)]
pub struct Sequence {
    /// The start.
    pub now: Timestamp,
    /// The configuration; absent means the default of kube-scheduler.
    pub config: Option<KubeSchedulerConfiguration>,
    /// The objects that exist at the start.
    pub objects: Vec<Object>,
    /// The pods that are created then, one after the other.
    pub pending: Vec<Object>,
}

/// The results of the pods, by `namespace/name`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceOutcome {
    /// Every attempt, in order.
    pub attempts: Vec<AttemptOutcome>,
    /// The nodes of the placed pods.
    pub placed: BTreeMap<String, String>,
    /// The last messages of the other pods.
    pub unschedulable: BTreeMap<String, String>,
    /// The gated pods, with the reasons, which the answer leaves out.
    #[serde(serialize_with = "names")]
    pub gated: BTreeMap<String, String>,
    /// The other pods that are not tried, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_tried: BTreeMap<String, String>,
    /// The pods that were preempted, in order.
    #[serde(skip)]
    pub preempted: Vec<PreemptedPod>,
    /// Errors of objects that were left out.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// The URLs of the extenders, which a simulation does not ask.
    #[serde(skip)]
    pub extenders: Vec<String>,
    /// The usage of the nodes at the end.
    #[serde(skip)]
    pub nodes: Vec<NodeUse>,
}

/// The usage of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUse {
    /// The name.
    pub name: String,
    /// The number of its pods.
    pub pods: usize,
    /// The requests of its pods and its allocatable CPU, in thousandths of a core.
    pub cpu: (i64, i64),
    /// The requests of its pods and its allocatable memory, in bytes.
    pub memory: (i64, i64),
}

fn names<S: Serializer>(pods: &BTreeMap<String, String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(pods.keys())
}

/// A pod that was preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptedPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// The pod that it gave way to.
    pub preemptor: String,
    /// The budgets that its eviction counts against.
    pub budgets: Vec<String>,
    /// Whether its eviction violates one of them.
    pub violates: bool,
    /// Whether it is being deleted already. Then its end is awaited, and nothing is evicted.
    pub terminates: bool,
}

/// One attempt.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptOutcome {
    /// The pod.
    pub pod: String,
    /// The number of feasible nodes.
    pub feasible_count: usize,
    /// The highest total score, if nodes were scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_score: Option<i64>,
    /// The nodes with that score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<String>,
    /// The chosen node: the first of these by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The message of its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The plugins that rejected it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// The nominated node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<String>,
    /// The victims of its preemption.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Pods that lost their nomination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nominations_cleared: Vec<String>,
}

/// The interval between two added pods.
const ARRIVAL_INTERVAL: SignedDuration = SignedDuration::from_millis(1);
/// The interval between two attempts.
const ATTEMPT_INTERVAL: SignedDuration = SignedDuration::from_millis(10);

/// Schedules the pods. `report` gets the number of decided pods and of all pods after each attempt.
///
/// # Errors
/// Every error of the input, with its field.
pub fn run_sequence(
    sequence: &Sequence,
    report: &mut dyn FnMut(usize, usize),
) -> Result<SequenceOutcome, Vec<InvalidField>> {
    let config = match &sequence.config {
        None => Configuration::default(),
        Some(wire) => Configuration::new(wire, &[]).map_err(|errors| {
            let errors = errors.into_iter();
            let within =
                |error: InvalidField| invalid(format!("config.{}", error.field), error.message);
            errors.map(within).collect::<Vec<_>>()
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
        profiles: config
            .profiles
            .iter()
            .map(|profile| profile.scheduler_name.clone())
            .collect(),
        pods: BTreeMap::new(),
        claims: BTreeMap::new(),
        outcome: SequenceOutcome {
            extenders: config
                .extenders
                .iter()
                .map(|extender| extender.url_prefix.clone())
                .collect(),
            ..SequenceOutcome::default()
        },
    };
    for event in sequence.objects.iter().filter_map(created) {
        run.report(&event);
    }
    for event in sequence.pending.iter().filter_map(created) {
        run.wait(ARRIVAL_INTERVAL);
        run.report(&event);
    }
    Ok(run.run(report))
}

const fn invalid(field: String, message: String) -> InvalidField {
    InvalidField { field, message }
}

/// The object of a kind that is read; `None` for another kind.
fn object_of(value: &Value) -> Result<Option<Object>, String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let name = text("kind").ok_or("kind is missing")?;
    let kind = Kind::of(name, text("apiVersion").unwrap_or_default());
    kind.map(|kind| kind.read_value(value))
        .transpose()
        .map_err(|error| error.to_string())
}

struct Run {
    scheduler: Scheduler,
    now: Timestamp,
    /// The names of the profiles.
    profiles: Vec<String>,
    /// The existing pods.
    pods: BTreeMap<String, Arc<wire::Pod>>,
    /// The existing claims of devices.
    claims: BTreeMap<String, Arc<wire::ResourceClaim>>,
    outcome: SequenceOutcome,
}

fn name(pod: &wire::Pod) -> String {
    pod.metadata.full_name()
}

impl Run {
    fn wait(&mut self, time: SignedDuration) {
        // Beyond the last timestamp the time stands still.
        self.now = self.now.checked_add(time).unwrap_or(self.now);
    }

    fn report(&mut self, event: &Event) {
        if let Event::Change(Change::Pod(Delta { new: Some(pod), .. })) = event {
            self.pods.insert(name(pod), Arc::clone(pod));
        }
        if let Event::Change(Change::ResourceClaim(Delta {
            new: Some(claim), ..
        })) = event
        {
            let name = claim.metadata.full_name();
            self.claims.insert(name, Arc::clone(claim));
        }
        self.scheduler.on(self.now, event);
        self.outcome
            .warnings
            .extend(self.scheduler.take_invalid_objects());
    }

    /// Updates a pod, or deletes it.
    fn change(&mut self, named: &str, new: Option<wire::Pod>) {
        let Some(old) = self.pods.remove(named) else {
            return;
        };
        self.report(&Event::Change(Change::Pod(Delta {
            old: Some(old),
            new: new.map(Arc::new),
        })));
    }

    fn run(mut self, report: &mut dyn FnMut(usize, usize)) -> SequenceOutcome {
        let all = self.scheduler.queue().len();
        loop {
            self.wait(ATTEMPT_INTERVAL);
            let Some(attempt) = self.scheduler.attempt(self.now) else {
                break;
            };
            self.carry_out(attempt);
            report(
                self.outcome.placed.len() + self.outcome.unschedulable.len(),
                all,
            );
        }
        let queue = self.scheduler.queue();
        let keys = queue.pods_in(Pool::Gated);
        let pods = keys.iter().filter_map(|key| queue.pod(key));
        self.outcome.gated = pods.map(|pod| (name(pod), queue.gate(pod))).collect();
        self.note_not_tried();
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

    /// Carries out the outcome of an attempt.
    fn carry_out(&mut self, attempt: Attempt) {
        let named = name(&attempt.pod);
        let mut outcome = AttemptOutcome {
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
                outcome.top = top.collect();
                outcome.top.sort();
                outcome.feasible_count = result.feasible;
                outcome.top_score = result.score;
                outcome.chosen = Some(node.to_string());
                // The answer of the API server comes before the watch event, as in the common case.
                self.scheduler.bound(self.now, &attempt.key);
                let mut bound = (*attempt.pod).clone();
                bound.spec.node_name = node.to_string();
                self.outcome.unschedulable.remove(&named);
                self.outcome.placed.insert(named.clone(), node.to_string());
                self.outcome.attempts.push(outcome);
                self.change(&named, Some(bound));
            }
            Ended::Unschedulable(rejected) => {
                self.outcome
                    .unschedulable
                    .insert(named.clone(), rejected.message.clone());
                outcome.message = Some(rejected.message);
                outcome.plugins = rejected.plugins.into_iter().collect();
                outcome.nominated.clone_from(&rejected.nominated);
                outcome.victims = rejected.victims.into_iter().map(|(name, _)| name).collect();
                outcome.victims.sort();
                outcome.nominations_cleared = rejected.nominations_cleared;
                let (victims, cleared) =
                    (outcome.victims.clone(), outcome.nominations_cleared.clone());
                self.outcome.attempts.push(outcome);
                self.note_preempted(&named, &victims);
                for victim in victims {
                    self.change(&victim, None);
                }
                if let Some(node) = rejected.nominated {
                    self.nominate(&named, &node);
                }
                for pod in cleared {
                    self.nominate(&pod, "");
                }
                if let Some(claim) = rejected.deallocates {
                    self.deallocate(&format!("{}/{}", claim.namespace, claim.name));
                }
            }
            Ended::Error(message) => {
                self.outcome.unschedulable.insert(named, message.clone());
                outcome.message = Some(message);
                self.outcome.attempts.push(outcome);
            }
            // A pod that was put off is tried in its turn. There are no extenders and no custom plugins here.
            Ended::PutOff(_)
            | Ended::AskExtenders(_)
            | Ended::WaitsOnPermit { .. }
            | Ended::Deleting
            | Ended::NoProfile => {}
        }
    }

    /// Takes the devices of a claim back, which no pod uses where they are.
    fn deallocate(&mut self, named: &str) {
        let Some(old) = self.claims.get(named).map(Arc::clone) else {
            return;
        };
        let mut new = (*old).clone();
        new.status = wire::ResourceClaimState::default();
        self.report(&Event::Change(Change::ResourceClaim(Delta {
            old: Some(old),
            new: Some(Arc::new(new)),
        })));
    }

    /// Notes the pods without a node that the scheduler has left alone.
    fn note_not_tried(&mut self) {
        let outcome = &self.outcome;
        let is_left = |name: &String, pod: &wire::Pod| {
            pod.spec.node_name.is_empty()
                && ![&outcome.placed, &outcome.unschedulable, &outcome.gated]
                    .iter()
                    .any(|known| known.contains_key(name))
        };
        let left = self.pods.iter().filter(|(name, pod)| is_left(name, pod));
        let reasons = left.filter_map(|(name, pod)| {
            let profiles = self.profiles.iter().map(String::as_str);
            let reason = NotTried::of_profiles(pod, profiles).or_else(|| NotTried::of(pod))?;
            Some((name.clone(), reason.to_string()))
        });
        self.outcome.not_tried = reasons.collect();
    }

    /// Notes which pods give way to another one, and at the cost of which budgets.
    fn note_preempted(&mut self, preemptor: &str, victims: &[String]) {
        let cluster = self.scheduler.cluster();
        let victim = |named: &String| -> Option<(String, &Pod)> {
            let node = &self.pods.get(named)?.spec.node_name;
            let mut pods = cluster.node(cluster.find_node(node)?).pods.iter();
            let pod = pods.find(|pod| cluster.full_name(pod) == *named)?;
            Some((node.clone(), pod))
        };
        let pods: Vec<(String, &Pod)> = victims.iter().filter_map(victim).collect();
        let budgets = self.scheduler.budgets();
        let violations = breaking(cluster, budgets, pods.iter().map(|(_, pod)| *pod));
        let noted = pods.iter().zip(violations).map(|((node, pod), violates)| {
            // A pod that ends already is not evicted again.
            let budgets = if pod.terminating {
                Vec::new()
            } else {
                budgets_of(cluster, budgets, pod, Compat::V1_36)
            };
            PreemptedPod {
                pod: cluster.full_name(pod),
                node: node.clone(),
                preemptor: preemptor.to_owned(),
                budgets: budgets.into_iter().map(str::to_owned).collect(),
                violates: violates && !pod.terminating,
                terminates: pod.terminating,
            }
        });
        let noted: Vec<_> = noted.collect();
        self.outcome.preempted.extend(noted);
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
