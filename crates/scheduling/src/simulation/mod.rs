//! Runs a timeline of changes and attempts through the queue, and records the pool of every pod after each step.

pub mod claims;
mod created;
mod object;
mod outcome;
mod rebalance;
mod sequence;
mod sequence_outcome;
mod volumes;

use crate::config::{Configuration, InvalidField, KubeSchedulerConfiguration};
use crate::framework::waits_for_claims;
use crate::plugins::{PluginName, PluginSet};
use crate::queue::{Moved, Pool, Popped, QueueError, Settings};
use crate::scheduling_queue::{Failure, Nomination, SchedulingQueue};
use evictd_pod::wire::null_is_default;
use jiff::{SignedDuration, Timestamp};
use object::Name;
pub use object::Object;
pub use outcome::{Outcome, PodOutcome, StepOutcome};
pub use rebalance::{Move, Rebalance, RunningPod, SpreadState, rebalance};
pub use sequence::{Sequence, SequenceFile, run_sequence};
pub use sequence_outcome::{AttemptOutcome, NodeUse, PreemptedPod, SequenceOutcome};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A file of `simulate` with `steps`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The start.
    pub now: Timestamp,
    /// The backoffs and the scheduler names; absent means the default.
    pub config: Option<KubeSchedulerConfiguration>,
    /// The objects at the start, in the order in which they are added.
    #[serde(default, deserialize_with = "null_is_default")]
    pub objects: Vec<Object>,
    /// The steps in the order of time.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Milliseconds after the start; required.
    pub at: Option<i64>,
    /// The action; required.
    #[serde(rename = "do")]
    pub action: Option<Action>,
    /// For `add`, `update` and `delete`.
    pub object: Option<Object>,
    /// `namespace/name` of the pod of an attempt.
    #[serde(default, deserialize_with = "null_is_default")]
    pub pod: String,
    /// For `activate`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub pods: Vec<String>,
    /// The plugins that rejected it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub plugins: Vec<String>,
    /// The rejectors whose events activate the pod without backoff.
    #[serde(default, deserialize_with = "null_is_default")]
    pub pending: Vec<String>,
    /// The nominated node.
    pub nominate: Option<String>,
    /// For `assume`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub node: String,
}

/// The action of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "they are the words of the file")]
pub enum Action {
    Add,
    Update,
    Delete,
    Pop,
    Unschedulable,
    Error,
    Assume,
    Done,
    BindingError,
    PermitRejected,
    Activate,
    FlushBackoff,
    FlushUnschedulable,
}

impl Action {
    /// The name in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Pop => "pop",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
            Self::Assume => "assume",
            Self::Done => "done",
            Self::BindingError => "bindingError",
            Self::PermitRejected => "permitRejected",
            Self::Activate => "activate",
            Self::FlushBackoff => "flushBackoff",
            Self::FlushUnschedulable => "flushUnschedulable",
        }
    }
}

impl Timeline {
    /// The configuration. Unlike in a configuration file, kind and version may be absent.
    fn configuration(&mut self) -> Result<Configuration, Vec<InvalidField>> {
        let Some(wire) = &mut self.config else {
            return Ok(Configuration::default());
        };
        if wire.kind.is_empty() && wire.api_version.is_empty() {
            "KubeSchedulerConfiguration".clone_into(&mut wire.kind);
            "kubescheduler.config.k8s.io/v1".clone_into(&mut wire.api_version);
        }
        Configuration::new(wire, &[]).map_err(|mut errors| {
            for error in &mut errors {
                error.field.insert_str(0, "config.");
            }
            errors
        })
    }

    /// The errors of steps that could be parsed.
    fn errors(&self) -> Vec<InvalidField> {
        let mut found = Vec::new();
        let mut before = 0;
        for (index, step) in self.steps.iter().enumerate() {
            let at = step.at.unwrap_or(before);
            let order = (at < before).then(|| "at is before that of the step before".to_owned());
            let messages = step.errors().chain(order);
            found.extend(messages.map(|message| InvalidField {
                field: format!("steps[{index}]"),
                message,
            }));
            before = before.max(at);
        }
        found
    }
}

impl Step {
    fn errors(&self) -> impl Iterator<Item = String> {
        let of_action = match self.action {
            None => ("do", true),
            Some(Action::Add | Action::Update | Action::Delete) => {
                ("object", self.object.is_none())
            }
            Some(Action::Activate) => ("pods", self.pods.is_empty()),
            Some(Action::Pop | Action::FlushBackoff | Action::FlushUnschedulable) => ("", false),
            Some(_) => ("pod", self.pod.is_empty()),
        };
        let assumes = self.action == Some(Action::Assume);
        let needs = [
            ("at", self.at.is_none()),
            of_action,
            ("node", assumes && self.node.is_empty()),
        ];
        let missing = needs
            .into_iter()
            .filter(|(_, is_missing)| *is_missing)
            .map(|(key, _)| format!("needs the key {key:?}"));
        let unknown = self
            .plugins
            .iter()
            .chain(&self.pending)
            .filter(|name| PluginName::parse(name).is_none())
            .map(|name| format!("no plugin that rejects pods is named {name:?}"));
        missing.chain(unknown)
    }
}

/// Runs a timeline.
///
/// # Errors
/// Every error of the configuration and of the steps.
pub fn run(mut timeline: Timeline) -> Result<Outcome, Vec<InvalidField>> {
    let mut errors = timeline.errors();
    let configuration = timeline.configuration();
    let configuration = match configuration {
        Ok(configuration) if errors.is_empty() => configuration,
        Ok(_) => return Err(errors),
        Err(more) => {
            errors.splice(..0, more);
            return Err(errors);
        }
    };
    let mut run = Run {
        queue: queue(&configuration),
        begin: timeline.now,
        objects: BTreeMap::new(),
        names: HashMap::new(),
        keys: HashMap::new(),
        outcome: Outcome::default(),
    };
    let in_steps = timeline
        .steps
        .iter()
        .filter_map(|step| step.object.as_ref());
    for object in timeline.objects.iter().chain(in_steps) {
        if let Object::Other(Some(title)) = object {
            *run.outcome.ignored.entry(title.clone()).or_default() += 1;
        }
    }
    for object in timeline.objects {
        let moved = run.put(timeline.now, Some(object.clone()), &object);
        run.count(moved);
    }
    for (index, step) in timeline.steps.into_iter().enumerate() {
        let (popped, error) = run.step(&step);
        run.outcome
            .warnings
            .extend(error.map(|error| (index, error.to_string())));
        let state = run.state(&step, popped);
        run.outcome.steps.push(state);
    }
    Ok(run.finish())
}

/// The queue that a configuration asks for.
fn queue(configuration: &Configuration) -> SchedulingQueue {
    let settings = Settings {
        as_kube_scheduler: true,
        initial_backoff: configuration.pod_initial_backoff,
        max_backoff: configuration.pod_max_backoff,
        ..Settings::default()
    };
    let names = configuration
        .profiles
        .iter()
        .map(|profile| profile.scheduler_name.clone());
    let mut queue = SchedulingQueue::new(settings, names, !configuration.extenders.is_empty());
    let without_claims = configuration
        .profiles
        .iter()
        .filter(|profile| !waits_for_claims(profile))
        .map(|profile| profile.scheduler_name.clone());
    queue.ignore_claims(without_claims);
    queue
}

struct Run {
    queue: SchedulingQueue,
    begin: Timestamp,
    objects: BTreeMap<Name, Object>,
    /// `namespace/name` of every pod, also of deleted ones, by key.
    names: HashMap<Arc<str>, String>,
    /// The key of the last pod of each name.
    keys: HashMap<String, Arc<str>>,
    outcome: Outcome,
}

impl Run {
    /// Runs a step. Returns the popped pod, or the error of a step that is not possible.
    fn step(&mut self, step: &Step) -> (Option<Popped>, Option<QueueError>) {
        let after = SignedDuration::from_millis(step.at.unwrap_or(0));
        let now = self.begin.checked_add(after).unwrap_or(Timestamp::MAX);
        let key = self.key(&step.pod);
        let mut popped = None;
        let Some(action) = step.action else {
            return (None, None);
        };
        let moved = match action {
            Action::Add | Action::Update => {
                let object = step.object.iter();
                Ok(object
                    .flat_map(|object| self.put(now, Some(object.clone()), object))
                    .collect())
            }
            Action::Delete => {
                let object = step.object.iter();
                Ok(object
                    .flat_map(|object| self.put(now, None, object))
                    .collect())
            }
            Action::Pop => {
                popped = self.queue.pop();
                let moved = popped
                    .iter()
                    .filter(|popped| popped.from_backoff)
                    .map(|popped| Moved {
                        pod: Arc::clone(&popped.pod),
                        pool: Pool::Active,
                        label: "PopFromBackoffQ",
                    });
                Ok(moved.collect())
            }
            Action::Unschedulable | Action::Error => self
                .queue
                .failed(now, &key, &step.failure())
                .map(|moved| moved.into_iter().collect()),
            Action::Assume => {
                self.queue.assume(now, &key, &step.node);
                Ok(Vec::new())
            }
            Action::Done => {
                self.queue.done(now, &key);
                Ok(Vec::new())
            }
            Action::BindingError => self.queue.binding_failed(now, &key, PluginSet::default()),
            Action::PermitRejected => {
                let rejectors = plugins(&step.plugins);
                self.queue.binding_failed(now, &key, rejectors)
            }
            Action::Activate => {
                let keys: Vec<_> = step.pods.iter().map(|pod| self.key(pod)).collect();
                Ok(self.queue.activate(now, keys.iter().map(|key| &**key)))
            }
            Action::FlushBackoff => Ok(self.queue.flush_backoff(now)),
            Action::FlushUnschedulable => Ok(self.queue.flush_unschedulable(now)),
        };
        match moved {
            Ok(moved) => {
                self.count(moved);
                (popped, None)
            }
            Err(error) => (popped, Some(error)),
        }
    }

    /// Replaces the named object, and reports the change to the queue.
    fn put(&mut self, now: Timestamp, new: Option<Object>, named: &Object) -> Vec<Moved> {
        let Some(name) = named.name() else {
            return Vec::new();
        };
        let old = match &new {
            Some(new) => self.objects.insert(name, new.clone()),
            None => self.objects.remove(&name),
        };
        if let Some(Object::Pod(pod)) = &new {
            let key = pod.metadata.key();
            let name = pod.metadata.full_name();
            self.names.insert(Arc::clone(&key), name.clone());
            self.keys.insert(name, key);
        }
        let change = Object::change(old, new);
        change.map_or(Vec::new(), |change| self.queue.on(now, &change))
    }

    /// The key of the pod of this name. A pod in flight takes precedence over a newer one.
    fn key(&self, name: &str) -> Arc<str> {
        self.queue
            .in_flight()
            .find(|key| self.names.get(*key).is_some_and(|known| known == name))
            .or_else(|| self.keys.get(name))
            .map_or_else(|| name.into(), Arc::clone)
    }

    fn count(&mut self, moved: Vec<Moved>) {
        for Moved { pool, label, .. } in moved {
            let queue = match pool {
                Pool::Active => "active",
                Pool::Backoff | Pool::ErrorBackoff => "backoff",
                Pool::Unschedulable | Pool::Gated => "unschedulable",
            };
            let incoming = &mut self.outcome.incoming;
            *incoming.entry(format!("{queue}/{label}")).or_default() += 1;
        }
    }
}

impl Step {
    fn failure(&self) -> Failure {
        let nomination = match (&self.nominate, self.action) {
            (Some(node), _) => Nomination::Node(node.as_str().into()),
            (None, Some(Action::Error)) => Nomination::Cleared,
            (None, _) => Nomination::OfStatus,
        };
        Failure {
            rejectors: plugins(&self.plugins),
            pending: plugins(&self.pending),
            nomination,
        }
    }
}

fn plugins(names: &[String]) -> PluginSet {
    names
        .iter()
        .filter_map(|name| PluginName::parse(name))
        .collect()
}
