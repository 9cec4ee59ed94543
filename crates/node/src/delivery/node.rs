//! The Node's conditions and taints, by which the cluster sees the pressure on this node.
//!
//! Conditions are written by server-side apply, as fields owned by evictd. Taints are one list shared by all writers:
//! only evictd's own entries are changed, on the precondition that the list is still as last seen. Taints are written
//! first, because the controller of an evicted pod creates the next one within milliseconds. That pod should not come
//! back to this node.

mod cleanup;
mod node_count;

pub use cleanup::{all_nodes, daemon_set_is_deleted};

use crate::config::ConditionTypes;
use crate::metrics::NodeHeartbeat;
use crate::pause::{self, Pause};
use evictd_cluster_client::{
    Actions, ApiError, CALL_TIMEOUT, FIELD_MANAGER, Fleet, Stagger, chance,
};
use evictd_kernel::clock::Clock;
use evictd_pod::pressure::CLOSE_TO;
use evictd_pod::wire::Condition;
use evictd_signals::{ConditionMap, NodeCondition};
use http::{HeaderValue, header::ACCEPT};
use jiff::{SignedDuration, Timestamp};
use kube::{
    api::{GetParams, Patch, PatchParams},
    core::Request,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Value, json, value::RawValue};
use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};

/// How often the Node's annotations are read while nothing is written; one of them may ask for a pause.
pub const ANNOTATIONS: Duration = Duration::from_mins(1);
/// Without the rest of the Node, which is large with 50 images, if the server can.
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// Conditions that hold are written again this often, to show that the agent still maintains them.
pub const HEARTBEAT: Duration = Duration::from_mins(1);
/// The same if none holds. It is longer because every watcher of Nodes receives each write, and nearly all nodes
/// are calm.
pub const CALM_HEARTBEAT: Duration = Duration::from_mins(10);
/// How often the list of taints is read again at once if others write it at the same time.
const CONFLICTS: usize = 5;

/// A kubelet counts as absent if it has not renewed its lease for this long.
const LEASE: SignedDuration = SignedDuration::from_secs(40);
/// A kubelet also writes its status every five minutes even if nothing changes.
const STATUS_PERIOD: SignedDuration = SignedDuration::from_mins(6);

/// Status and message of each condition as last written.
type Known = ConditionMap<Option<(bool, Timestamp)>>;

/// The conditions and taints that the Node should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// The conditions that hold.
    pub raised: ConditionMap<bool>,
    /// Since when each has its present status.
    pub since: ConditionMap<Timestamp>,
    /// Which of them keep new pods off the node; in a dry run none.
    pub taints: ConditionMap<bool>,
    /// Which of the others are close to being raised.
    pub close: ConditionMap<bool>,
}

/// Keeps the Node's conditions and taints up to date.
pub struct NodeReporter {
    node: String,
    types: ConditionTypes,
    actions: Actions,
    clock: Clock,
    heartbeat: NodeHeartbeat,
    /// The Node as last read.
    read: watch::Sender<Option<Arc<evictd_pod::Node>>>,
    /// The pause in the Node's annotation, as last read.
    paused: watch::Sender<Option<Pause>>,
    fleet: Fleet,
    counted: Option<Timestamp>,
    stagger: Stagger,
    warned: bool,
    /// The pressure that was last written.
    written_pressure: Option<Pressure>,
    /// The conditions as last applied, or as found at start.
    known: Option<Known>,
    /// The whole list of taints as last seen; `None` if it must be read again.
    seen: Option<Spec>,
}

/// Why the Node could not be updated.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(
        "conditions.types: standard is refused: node {0} has a kubelet that still reports them; stop it, or choose own"
    )]
    Kubelet(String),
}

/// A Node, and the form that admission needs, if it can be parsed.
struct Read {
    ours: Node,
    whole: Option<evictd_pod::Node>,
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self {
            ours: serde_json::from_str(text.get()).map_err(D::Error::custom)?,
            whole: serde_json::from_str(text.get()).ok(),
        })
    }
}

/// The fields of a Node that are needed to change it.
#[derive(Debug, Deserialize)]
struct Node {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    taints: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    conditions: Option<Vec<Value>>,
}

impl NodeReporter {
    /// For this node; sends nothing yet.
    pub fn new(node: String, types: ConditionTypes, actions: Actions, clock: Clock) -> Self {
        Self {
            node,
            types,
            actions,
            clock,
            heartbeat: NodeHeartbeat::default(),
            read: watch::Sender::default(),
            paused: watch::Sender::default(),
            fleet: Fleet::default(),
            counted: None,
            stagger: Stagger::default(),
            warned: false,
            written_pressure: None,
            known: None,
            seen: None,
        }
    }

    /// Shares the server with a fleet, which it counts; `heartbeat` is set to when the Node was last written.
    #[must_use]
    pub(crate) fn sharing(self, fleet: Fleet, heartbeat: NodeHeartbeat) -> Self {
        heartbeat.set(Timestamp::UNIX_EPOCH);
        Self {
            heartbeat,
            fleet,
            ..self
        }
    }

    /// Reports until the sender of `wanted` is dropped or `stopped` resolves; a write in progress is completed.
    /// `settled` says whether the taints are as last wanted.
    pub async fn run(
        mut self,
        mut wanted: watch::Receiver<Option<Pressure>>,
        settled: watch::Sender<bool>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            let now = *wanted.borrow_and_update();
            let pause = match now {
                None => HEARTBEAT,
                Some(pressure) => {
                    let taints_correct = || {
                        settled.send_replace(!wanted.has_changed().unwrap_or(false));
                    };
                    let written = self.report(&pressure, taints_correct).await;
                    // The size of the cluster sets the pace, and a server in trouble is not asked for it.
                    if written.is_ok() {
                        self.count().await;
                    }
                    self.next_write(pressure, written)
                }
            };
            tokio::select! {
                biased;
                _ = &mut stopped => return,
                changed = timeout(pause, wanted.changed()) => {
                    if let Ok(Err(_)) = changed {
                        return;
                    }
                }
                () = self.watch_annotations() => {}
            }
        }
    }

    /// Reads the Node's annotations periodically. If they cannot be read the last state stays, without a warning:
    /// the failing writes already cause one.
    async fn watch_annotations(&self) {
        loop {
            sleep(ANNOTATIONS).await;
            self.read_annotations().await;
        }
    }

    async fn read_annotations(&self) {
        // From the server's cache.
        let request = nodes()
            .get(&self.node, &GetParams::any())
            .map(|mut request| {
                let accepted = HeaderValue::from_static(METADATA_ONLY);
                request.headers_mut().insert(ACCEPT, accepted);
                request
            });
        let read: Result<Node, ApiError> = self.ask("reading node", request).await;
        if let Ok(node) = read {
            self.note_pause(&node);
        }
    }

    fn note_pause(&self, node: &Node) {
        let annotations = node.metadata.annotations.as_ref();
        let value = annotations.and_then(|all| all.get(pause::ANNOTATION));
        let asked = Pause::of_annotation(value.map(String::as_str), self.clock.now());
        let reason = |pause: &Option<Pause>| pause.as_ref().map(|pause| pause.reason.clone());
        self.paused.send_if_modified(|current| {
            let differs = reason(current) != reason(&asked);
            if differs {
                *current = asked;
            }
            differs
        });
    }

    /// The pause that the Node's annotation asks for, and its changes.
    pub fn paused(&self) -> watch::Receiver<Option<Pause>> {
        self.paused.subscribe()
    }

    /// How long until the Node is written again if nothing changes.
    fn next_write(&mut self, pressure: Pressure, written: Result<(), ReportError>) -> Duration {
        let holds = |pressure: Pressure| pressure.raised.values().any(|raised| *raised);
        match written {
            Ok(()) => {
                self.warned = false;
                if self.written_pressure.replace(pressure) == Some(pressure) {
                    self.stagger.succeeded();
                } else {
                    self.stagger = Stagger::default();
                }
                let period = if holds(pressure) {
                    HEARTBEAT
                } else {
                    CALM_HEARTBEAT
                };
                self.stagger.interval(period, chance())
            }
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!("the cluster does not know this node's pressure: {error}");
                }
                let wait = self
                    .stagger
                    .after_failure(self.fleet.background_spread(), chance());
                // Also when pressure has ended: the taint still keeps pods away.
                if holds(pressure) || self.written_pressure.is_some_and(holds) {
                    wait.urgent
                } else {
                    wait.normal
                }
            }
        }
    }

    /// Writes taints, then conditions, then taints again if the answer shows that they are wrong, because the
    /// standard conditions bring taints of their own. Taints are written even if conditions are refused. They are
    /// not written in parallel, because each write would conflict with the other. `taints_correct` is called as soon as the
    /// taints are correct.
    async fn report(
        &mut self,
        pressure: &Pressure,
        taints_correct: impl Fn(),
    ) -> Result<(), ReportError> {
        let standard = self.types == ConditionTypes::Standard;
        if standard || self.known.is_none() {
            let node = self.get().await?;
            if standard && self.has_kubelet(&node).await? {
                return Err(ReportError::Kubelet(self.node.clone()));
            }
            let known = Known::from_fn(|condition| known(&node, self.type_of(condition)));
            self.known.get_or_insert(known);
            self.seen = Some(node.spec);
        }
        let taints = pressure.taints.map(|_, taint| taint && !standard);
        // Another attempt follows below.
        if self.put_taints(taints).await.is_ok() && !standard {
            taints_correct();
        }
        let (known, node) = self.apply(pressure).await?;
        self.known = Some(known);
        self.seen = Some(node.spec);
        self.heartbeat.set(self.clock.now());
        self.put_taints(taints).await?;
        taints_correct();
        Ok(())
    }

    fn type_of(&self, condition: NodeCondition) -> &'static str {
        match self.types {
            ConditionTypes::Own => condition.own_type(),
            ConditionTypes::Standard => condition.as_str(),
        }
    }

    /// Whether a kubelet renews its lease, or has written its status recently.
    async fn has_kubelet(&self, node: &Node) -> Result<bool, ApiError> {
        let now = self.clock.now();
        let within = |time: &Value, span: SignedDuration| {
            let time: Option<Timestamp> = time.as_str().and_then(|time| time.parse().ok());
            time.is_some_and(|time| now.duration_since(time).abs() < span)
        };
        let mut conditions = node.status.conditions.iter().flatten();
        let ready = conditions.find(|one| one["type"] == "Ready");
        if ready.is_some_and(|ready| {
            ready["status"] != "Unknown" && within(&ready["lastHeartbeatTime"], STATUS_PERIOD)
        }) {
            return Ok(true);
        }
        // The lease is newer, but reading it is another call.
        let leases = Request::new("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
        let request = leases.get(&self.node, &GetParams::default());
        let lease: Result<Value, ApiError> = self.ask("reading the lease of node", request).await;
        match lease {
            Ok(lease) => Ok(within(&lease["spec"]["renewTime"], LEASE)),
            Err(error) if error.status().is_some_and(|status| status.code == 404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The Node, and its later versions.
    pub fn node(&self) -> watch::Receiver<Option<Arc<evictd_pod::Node>>> {
        self.read.subscribe()
    }

    async fn get(&self) -> Result<Node, ApiError> {
        let request = nodes().get(&self.node, &GetParams::default());
        let Read { ours, whole } = self.ask("reading node", request).await?;
        self.read.send_replace(whole.map(Arc::new));
        self.note_pause(&ours);
        Ok(ours)
    }

    /// Applies the conditions. A condition's transition time changes only with its status (S1-078).
    async fn apply(&self, pressure: &Pressure) -> Result<(Known, Node), ApiError> {
        let now = self.clock.now();
        let mut states = self.known.unwrap_or_default();
        let mut conditions = Vec::new();
        for (condition, raised) in pressure.raised {
            let state = states[condition]
                .take()
                .filter(|(status, _)| *status == raised)
                .unwrap_or_else(|| (raised, pressure.since[condition]));
            let (kind, reason) = (self.type_of(condition), condition.reason(raised));
            let message = condition.message(raised).to_owned();
            conditions.push(Condition::new(kind, raised, reason, message, state.1).reported(now));
            states[condition] = Some(state);
        }
        let mut metadata = json!({ "name": self.node });
        let close = pressure.close.iter().filter(|(_, close)| **close);
        let close: Vec<&str> = close.map(|(condition, _)| condition.as_str()).collect();
        if !close.is_empty() {
            // Without it the server removes the one that was applied before.
            metadata["annotations"] = json!({ CLOSE_TO: close.join(",") });
        }
        let patch = Patch::Apply(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "status": { "conditions": conditions },
        }));
        let by = PatchParams::apply(FIELD_MANAGER).force();
        let request = nodes().patch_subresource("status", &self.node, &by, &patch);
        let node = self.ask("applying the conditions of node", request).await?;
        self.note_pause(&node);
        Ok((states, node))
    }

    /// Writes the taints based on the list as last seen, which saves a read; if the list has changed, reads it
    /// first.
    async fn put_taints(&mut self, taints: ConditionMap<bool>) -> Result<(), ApiError> {
        let wanted: Vec<&str> = taints
            .iter()
            .filter(|(_, taint)| **taint)
            .map(|(condition, _)| condition.taint_key())
            .collect();
        if let Some(seen) = self.seen.take() {
            let Some(taints) = changed(seen.taints.as_deref().unwrap_or_default(), &wanted) else {
                self.seen = Some(seen);
                return Ok(());
            };
            match self.exchange_taints(&seen, &taints).await {
                Err(error) if is_about_the_object(&error) => {}
                Err(error) => return Err(error),
                Ok(node) => {
                    self.seen = Some(node.spec);
                    return Ok(());
                }
            }
        }
        let mut conflicts = 0;
        loop {
            let node = self.get().await?;
            let seen = node.spec.taints.as_deref().unwrap_or_default();
            let Some(taints) = changed(seen, &wanted) else {
                self.seen = Some(node.spec);
                return Ok(());
            };
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": node.metadata.resource_version },
                "spec": { "taints": taints },
            }));
            match self.write_taints(&patch).await {
                Ok(node) => {
                    self.seen = Some(node.spec);
                    return Ok(());
                }
                Err(error) => {
                    conflicts += 1;
                    // Kubelets and controllers write the Node, too: after a conflict its list is read again.
                    let conflict = error.status().is_some_and(|status| status.code == 409);
                    if !conflict || conflicts > CONFLICTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Patches the taints on the precondition that they are as last seen, instead of the resourceVersion: the
    /// kubelet changes other parts of the Node every few minutes.
    async fn exchange_taints(&self, seen: &Spec, taints: &[Value]) -> Result<Node, ApiError> {
        let patch = json!([
            { "op": "test", "path": "/spec/taints", "value": seen.taints },
            { "op": "add", "path": "/spec/taints", "value": taints },
        ]);
        let patch = serde_json::from_value(patch).unwrap_or_default();
        self.write_taints(&Patch::Json::<()>(patch)).await
    }

    async fn write_taints<P: Serialize + Debug>(&self, patch: &Patch<P>) -> Result<Node, ApiError> {
        let by = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let request = nodes().patch(&self.node, &by, patch);
        self.ask("writing the taints of node", request).await
    }

    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        what: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ApiError> {
        let what = format!("{what} {}", self.node);
        let client = self.actions.client();
        let call = async {
            let request = request.map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        };
        self.actions.call(&what, CALL_TIMEOUT, call).await
    }
}

/// Whether the server refused because of the object's present state: a failed precondition in a patch is answered
/// with 422.
fn is_about_the_object(error: &ApiError) -> bool {
    let code = error.status().map(|status| status.code);
    matches!(code, Some(400 | 409 | 422))
}

fn nodes() -> Request {
    Request::new("/api/v1/nodes")
}

/// Our condition as found on the Node.
fn known(node: &Node, kind: &str) -> Option<(bool, Timestamp)> {
    let of_type = |one: &&Value| one["type"] == kind;
    let found = node.status.conditions.iter().flatten().find(of_type)?;
    let since = found["lastTransitionTime"].as_str()?;
    Some((found["status"] == "True", since.parse().ok()?))
}

/// The list with exactly these of our taints, and all others unchanged; `None` if it is like that already.
fn changed(taints: &[Value], wanted: &[&str]) -> Option<Vec<Value>> {
    let ours = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        NodeCondition::ALL
            .iter()
            .any(|condition| condition.taint_key() == key)
    };
    let right = |taint: &Value| {
        taint["effect"] == "NoSchedule"
            && wanted.contains(&taint["key"].as_str().unwrap_or_default())
    };
    let mut list: Vec<Value> = taints
        .iter()
        // One of ours with another effect was changed by hand, or by an earlier version.
        .filter(|taint| !ours(taint) || right(taint))
        .cloned()
        .collect();
    for key in wanted {
        if !list.iter().any(|taint| taint["key"] == *key) {
            list.push(json!({ "key": key, "effect": "NoSchedule" }));
        }
    }
    (list != taints).then_some(list)
}

#[cfg(test)]
mod tests;
