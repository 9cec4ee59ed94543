//! One pod as its kubelet sees it.

use super::runtime::{Exits, Runtime};
use crate::actor::Actor;
use crate::conditions;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// Between SIGTERM and SIGKILL of a deletion, in seconds, however small the grace.
const SHORTEST_GRACE: u32 = 2;

#[derive(Debug)]
struct Container {
    name: String,
    spec: Value,
    id: String,
    restarts: u32,
    ended: Option<i32>,
}

/// A pod as its kubelet knows it, which may differ from the API server's object.
#[derive(Debug)]
pub(super) struct Pod {
    /// `namespace/name`
    pub(super) at: String,
    /// As last seen, status left out.
    essence: Value,
    object: Value,
    containers: Vec<Container>,
    phase: String,
    /// Reason and message.
    why: (Value, Value),
    /// Reason and message in the API server's status when the teardown began.
    reported: (Value, Value),
    leaving: bool,
    /// Whether its status is no longer reported.
    pub(super) forgotten: bool,
    pub(super) kill_at: Option<Instant>,
}

fn essence(object: &Value) -> Value {
    let mut metadata = object["metadata"].clone();
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.retain(|field, _| field != "resourceVersion" && field != "managedFields");
    }
    json!([metadata, object["spec"]])
}

fn why(object: &Value) -> (Value, Value) {
    (
        object["status"]["reason"].clone(),
        object["status"]["message"].clone(),
    )
}

fn has_ended(object: &Value) -> bool {
    matches!(
        object["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    )
}

impl Pod {
    /// Starts its containers.
    pub(super) fn start(
        object: Value,
        runtime: &mut dyn Runtime,
        exits: &Exits,
    ) -> io::Result<Self> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let mut pod = Self {
            at: format!("{}/{}", text("namespace"), text("name")),
            essence: essence(&object),
            containers: Vec::new(),
            phase: "Running".to_owned(),
            why: (Value::Null, Value::Null),
            reported: (Value::Null, Value::Null),
            leaving: false,
            forgotten: false,
            kill_at: None,
            object,
        };
        for spec in pod.object["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
        {
            pod.containers.push(Container {
                name: spec["name"].as_str().unwrap_or_default().to_owned(),
                id: runtime.start(&pod.object, spec, exits)?,
                spec: spec.clone(),
                restarts: 0,
                ended: None,
            });
        }
        Ok(pod)
    }

    /// The API server shows it changed. A change of status alone moves nothing; any other, where the phase is a last one,
    /// begins the teardown.
    pub(super) fn changed(
        &mut self,
        object: Value,
        runtime: &mut dyn Runtime,
        second: Duration,
    ) -> bool {
        let essence = essence(&object);
        // Its own status writes come back as changes and must not count as updates.
        let updated = essence != self.essence;
        self.essence = essence;
        self.object = object;
        let metadata = &self.object["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            let grace = metadata["deletionGracePeriodSeconds"].as_u64();
            self.leave(runtime, grace_of(grace).max(SHORTEST_GRACE) * second);
            return false;
        }
        if updated && has_ended(&self.object) && !self.leaving {
            self.phase = self.object["status"]["phase"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            self.reported = why(&self.object);
            let grace = self.object["spec"]["terminationGracePeriodSeconds"].as_u64();
            self.leave(runtime, grace_of(grace) * second);
            return true;
        }
        false
    }

    /// The API server has it no more.
    pub(super) fn deleted(&mut self, runtime: &mut dyn Runtime, second: Duration) {
        self.forgotten = true;
        self.leave(runtime, SHORTEST_GRACE * second);
    }

    /// It ends for lack of something on the node, whatever grace it has.
    pub(super) fn evict(
        &mut self,
        message: &str,
        actor: &Actor,
        runtime: &mut dyn Runtime,
        second: Duration,
    ) {
        self.reported = ("Evicted".into(), message.into());
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message,
            "lastTransitionTime": actor.time(),
        });
        let status = json!({"status": {"conditions": [condition]}});
        // It may have been deleted in this moment.
        let _ = actor.strategic("pods/status", &self.at, status);
        self.leave(runtime, SHORTEST_GRACE * second);
    }

    fn leave(&mut self, runtime: &mut dyn Runtime, grace: Duration) {
        let at = Instant::now() + grace;
        // A later request can shorten the grace period, but not lengthen it.
        self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
        if !self.leaving {
            self.leaving = true;
            for container in self
                .containers
                .iter()
                .filter(|container| container.ended.is_none())
            {
                runtime.terminate(&container.id);
            }
        }
    }

    /// Its grace is over.
    pub(super) fn kill(&mut self, runtime: &mut dyn Runtime) {
        self.kill_at = None;
        for container in self
            .containers
            .iter()
            .filter(|container| container.ended.is_none())
        {
            runtime.kill(&container.id);
        }
    }

    pub(super) fn container(&self, name: &str) -> Option<&str> {
        let mut containers = self.containers.iter();
        containers
            .find(|container| container.name == name)
            .map(|container| container.id.as_str())
    }

    pub(super) fn is_over(&self) -> bool {
        self.containers
            .iter()
            .all(|container| container.ended.is_some())
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null()
    }

    pub(super) fn uid(&self) -> Value {
        self.object["metadata"]["uid"].clone()
    }

    /// A container has ended; whether it was one of this pod's. It starts again unless the pod is on its way out, or
    /// the API server says that it has ended.
    pub(super) fn ended(
        &mut self,
        id: &str,
        code: i32,
        runtime: &mut dyn Runtime,
        exits: &Exits,
    ) -> io::Result<bool> {
        let stays = self.leaving || has_ended(&self.object);
        let again = match self.object["spec"]["restartPolicy"].as_str() {
            Some("Never") => false,
            Some("OnFailure") => code != 0,
            _ => true,
        };
        let Some(container) = self
            .containers
            .iter_mut()
            .find(|container| container.id == id)
        else {
            return Ok(false);
        };
        if again && !stays {
            container.id = runtime.start(&self.object, &container.spec, exits)?;
            container.restarts += 1;
            return Ok(true);
        }
        container.ended = Some(code);
        if self.is_over() {
            self.conclude();
        }
        Ok(true)
    }

    fn conclude(&mut self) {
        let failed = self
            .containers
            .iter()
            .any(|container| container.ended != Some(0));
        if !self.leaving && has_ended(&self.object) {
            self.reported = why(&self.object);
        }
        if has_ended(&self.object) && !self.is_being_deleted() {
            self.phase = self.object["status"]["phase"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
        } else {
            let phase = if failed { "Failed" } else { "Succeeded" };
            phase.clone_into(&mut self.phase);
        }
        // If all containers have succeeded, a reason from outside is lost.
        if failed {
            self.why = std::mem::take(&mut self.reported);
        }
        self.leaving = true;
        self.kill_at = None;
    }

    /// Writes the differences from the API server's status.
    pub(super) fn report(&self, actor: &Actor) {
        let Some(mut object) = actor.get("pods", &self.at).filter(|_| !self.forgotten) else {
            return;
        };
        let ready = self.phase == "Running" && !self.leaving;
        let reason = match (self.phase.as_str(), ready) {
            (_, true) => "",
            ("Failed", _) => "PodFailed",
            ("Succeeded", _) => "PodCompleted",
            _ => "ContainersNotReady",
        };
        let now = actor.time();
        for kind in ["Initialized", "Ready", "ContainersReady", "PodScheduled"] {
            let about_containers = kind.ends_with("Ready");
            let reason = (if about_containers { reason } else { "" }, "");
            conditions::set(&mut object, kind, ready || !about_containers, reason, &now);
        }
        let containers: Vec<Value> = self
            .containers
            .iter()
            .map(|one| one.status(ready))
            .collect();
        let mut status = object["status"].clone();
        if status["startTime"].is_null() {
            status["startTime"] = now;
        }
        status["phase"] = self.phase.clone().into();
        status["reason"] = self.why.0.clone();
        status["message"] = self.why.1.clone();
        status["containerStatuses"] = containers.into();
        // It may have been deleted in this moment.
        let _ = actor.strategic("pods/status", &self.at, json!({"status": status}));
    }
}

fn grace_of(seconds: Option<u64>) -> u32 {
    seconds
        .and_then(|seconds| u32::try_from(seconds).ok())
        .unwrap_or(30)
}

impl Container {
    fn status(&self, ready: bool) -> Value {
        let id = format!("containerd://{}", self.id);
        let state = match self.ended {
            None => json!({"running": {}}),
            Some(code) => {
                let reason = if code == 0 { "Completed" } else { "Error" };
                json!({"terminated": {"exitCode": code, "reason": reason, "containerID": id}})
            }
        };
        json!({
            "name": self.name, "containerID": id, "restartCount": self.restarts, "ready": ready,
            "image": self.spec["image"], "imageID": "", "started": self.ended.is_none(), "state": state,
        })
    }
}
