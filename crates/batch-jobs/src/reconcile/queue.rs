//! One request to a queue, or the requests that follow from one change.

use super::patch;
use crate::queue::{
    Answer, Call, Groups, Lister, Next, Request, Round, View, queue_added, queue_changed,
};
use evictd_batch_objects::PodGroup;
use evictd_batch_objects::bus::{Action, Event};
use evictd_pod::wire::null_is_default;
use evictd_reconcile::{Notice, Unanswerable};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Queues with their PodGroups, and a request or a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueCase {
    /// The queues.
    #[serde(deserialize_with = "null_is_default")]
    pub queues: Vec<Value>,
    /// The PodGroups.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_groups: Vec<PodGroup>,
    /// PodGroups that the controller knows and that there are no longer.
    #[serde(deserialize_with = "null_is_default")]
    pub stale_pod_groups: Vec<PodGroup>,
    /// The request.
    pub request: Option<Asked>,
    /// The change instead: `addQueue`, `updateQueue`, `deleteQueue`, `addPodGroup`, `updatePodGroup`, `deletePodGroup`.
    pub handler: Option<String>,
    /// The object before the change.
    pub old: Option<Value>,
    /// The object after the change.
    pub new: Option<Value>,
}

/// A request, as the file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Asked {
    /// The queue.
    #[serde(deserialize_with = "null_is_default")]
    pub queue_name: String,
    /// The event.
    #[serde(deserialize_with = "null_is_default")]
    pub event: String,
    /// The action.
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
}

/// The outcome for the queues.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum QueueOutcome {
    /// The requests that a change leads to.
    #[serde(rename_all = "camelCase")]
    Requests {
        /// In order.
        requests: Vec<Value>,
        /// The PodGroups that are known then, by queue.
        pod_groups_of_queue: BTreeMap<String, BTreeSet<String>>,
    },
    /// A request that was carried out.
    Done {
        /// The queues then, by name.
        queues: BTreeMap<String, Value>,
        /// The writes: `queue subresource patch`.
        writes: Vec<String>,
        /// Requests that follow.
        enqueued: Vec<Value>,
        /// Events: `namespace/name Type Reason message`; a queue has no namespace.
        events: Vec<String>,
        /// Why the request failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// The API server, and the controller's listers.
struct Cluster {
    queues: BTreeMap<String, Value>,
    groups: BTreeSet<String>,
    writes: Vec<String>,
}

impl Lister for Cluster {
    fn queue(&self, name: &str) -> Option<Arc<View>> {
        view(self.queues.get(name)?).ok()
    }

    fn children(&self, name: &str) -> Vec<Arc<View>> {
        let queues = self.queues.values().filter_map(|queue| view(queue).ok());
        queues.filter(|queue| queue.spec.parent == name).collect()
    }

    fn has_group(&self, key: &str) -> bool {
        self.groups.contains(key)
    }
}

fn view(queue: &Value) -> Answer {
    let queue = View::deserialize(queue);
    queue.map(Arc::new).map_err(|error| error.to_string())
}

impl Cluster {
    fn answer(&mut self, call: &Call) -> Answer {
        let (name, written) = match call {
            Call::Patch { queue, patch } => (queue, format!("{queue}  {patch}")),
            Call::ApplyState { queue, state } => {
                let state = state.as_str();
                let applied = format!(
                    "{{\"kind\":\"Queue\",\"apiVersion\":\"scheduling.volcano.sh/v1beta1\",\"metadata\":{{\"name\":\"{queue}\"}},\"status\":{{\"state\":\"{state}\"}}}}"
                );
                (queue, format!("{queue} status {applied}"))
            }
        };
        self.writes.push(written);
        let missing = || format!("queue \"{name}\" not found");
        let queue = self.queues.get_mut(name).ok_or_else(missing)?;
        match call {
            Call::Patch { patch, .. } => patch::add(queue, patch)?,
            Call::ApplyState { state, .. } => {
                let state = json!({"status": {"state": state.as_str()}});
                evictd_reconcile::apply(queue, &state);
            }
        }
        // Empty fields are not stored.
        let metadata = queue["metadata"].as_object_mut();
        if let Some(metadata) = metadata
            && metadata.get("annotations") == Some(&json!({}))
        {
            metadata.remove("annotations");
        }
        view(queue)
    }
}

impl QueueCase {
    /// The outcome.
    pub fn answer(&self) -> Result<QueueOutcome, Unanswerable> {
        let mut groups = Groups::default();
        for group in self.pod_groups.iter().chain(&self.stale_pod_groups) {
            groups.group_added(group);
        }
        match (&self.handler, &self.request) {
            (Some(handler), _) => self.handle(handler, groups),
            (None, Some(asked)) => self.act(asked, &groups),
            (None, None) => Err(Unanswerable::new(
                "request",
                "missing; what is to be answered is a request or a handler",
            )),
        }
    }

    fn object<T: for<'de> Deserialize<'de>>(
        value: Option<&Value>,
        field: &'static str,
    ) -> Result<T, Unanswerable> {
        let value = value.ok_or_else(|| Unanswerable::new(field, "the handler needs it"))?;
        let object = T::deserialize(value);
        object.map_err(|error| Unanswerable::new(field, error.to_string()))
    }

    fn handle(&self, handler: &str, mut groups: Groups) -> Result<QueueOutcome, Unanswerable> {
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        let request = match handler {
            "addQueue" => Some(queue_added(&Self::object(new, "new")?)),
            "updateQueue" => queue_changed(&Self::object(old, "old")?, &Self::object(new, "new")?),
            "deleteQueue" => {
                groups.queue_deleted(&Self::object(old.or(new), "old")?);
                None
            }
            "addPodGroup" => Some(groups.group_added(&Self::object(new, "new")?)),
            "updatePodGroup" => {
                groups.group_changed(&Self::object(old, "old")?, &Self::object(new, "new")?)
            }
            "deletePodGroup" => Some(groups.group_deleted(&Self::object(old.or(new), "old")?)),
            other => {
                let message = format!(
                    "\"{other}\" is none; there are addQueue, updateQueue, deleteQueue, addPodGroup, updatePodGroup and deletePodGroup"
                );
                return Err(Unanswerable::new("handler", message));
            }
        };
        let known = groups
            .iter()
            .map(|(queue, groups)| (queue.to_owned(), groups.clone()));
        Ok(QueueOutcome::Requests {
            requests: request.iter().map(shown).collect(),
            pod_groups_of_queue: known.collect(),
        })
    }

    fn act(&self, asked: &Asked, groups: &Groups) -> Result<QueueOutcome, Unanswerable> {
        for queue in &self.queues {
            if !(queue.is_object() && queue["metadata"].is_object()) {
                let message = "each of them has to be an object with metadata";
                return Err(Unanswerable::new("queues", message));
            }
            view(queue).map_err(|why| Unanswerable::new("queues", why))?;
        }
        let queues = self.queues.iter();
        let queues = queues.map(|queue| (name(queue), queue.clone()));
        let keys = self.pod_groups.iter().map(|group| {
            let metadata = &group.metadata;
            metadata.full_name()
        });
        let mut cluster = Cluster {
            queues: queues.collect(),
            groups: keys.collect(),
            writes: Vec::new(),
        };
        let request = Request {
            queue: asked.queue_name.clone(),
            event: Event::of(&asked.event),
            action: Action::of(&asked.action),
        };
        let known = groups.of(&asked.queue_name);
        let (mut round, mut step) = Round::start(request, known, &cluster);
        let (mut enqueued, mut events) = (BTreeSet::new(), Vec::new());
        let error = loop {
            enqueued.extend(step.requests.drain(..));
            events.append(&mut step.notices);
            match step.next {
                Next::Done(result) => break result.err(),
                Next::Call(call) => {
                    let answer = cluster.answer(&call);
                    step = round.answered(answer, &cluster);
                }
            }
        };
        let event = |notice: &Notice| {
            let (queue, reason) = (&asked.queue_name, notice.reason);
            format!(
                "/{queue} {} {reason} {}",
                notice.tone.as_str(),
                notice.message
            )
        };
        let queues = cluster.queues.iter();
        Ok(QueueOutcome::Done {
            queues: queues
                .map(|(name, queue)| (name.clone(), queue_shown(queue)))
                .collect(),
            writes: cluster.writes,
            enqueued: enqueued.iter().map(shown).collect(),
            events: events.iter().map(event).collect(),
            error: error.map(|error| error.to_string()),
        })
    }
}

fn name(queue: &Value) -> String {
    let name = queue["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

fn shown(request: &Request) -> Value {
    json!({
        "queueName": request.queue,
        "event": request.event.as_str(),
        "action": request.action.as_str(),
    })
}

fn queue_shown(queue: &Value) -> Value {
    json!({
        "annotations": queue["metadata"]["annotations"],
        "parent": queue["spec"]["parent"].as_str().unwrap_or_default(),
        "state": queue["status"]["state"].as_str().unwrap_or_default(),
    })
}
