//! The test's own hands.

use crate::call::Call;
use crate::cluster::Cluster;
use crate::resource::{RESOURCES, Resource};
use crate::status::Status;
use crate::time::time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A client of the objects without HTTP. No fault and no rule of access applies to it, and the log does not list it.
#[derive(Debug, Clone)]
pub struct Actor {
    cluster: Arc<Cluster>,
    name: String,
}

impl Actor {
    pub(crate) fn new(cluster: &Arc<Cluster>, name: &str) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            name: name.to_owned(),
        }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The server's time, as objects hold it.
    pub(crate) fn time(&self) -> Value {
        time(self.cluster.now())
    }

    fn call(&self, verb: &'static str, plural: &str, at: &str) -> Result<Call, Status> {
        let (plural, subresource) = plural.split_once('/').unwrap_or((plural, ""));
        let resource = RESOURCES
            .iter()
            .find(|resource| resource.stored == plural)
            .ok_or_else(Status::no_such_path)?;
        let (namespace, name) = match at.split_once('/') {
            Some(both) => both,
            None if resource.namespaced => ("default", at),
            None => ("", at),
        };
        Ok(Call {
            verb,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            below: String::new(),
            options: BTreeMap::new(),
            manager: self.name.clone(),
            content_type: String::new(),
        })
    }

    fn ask(&self, call: &Call, body: Value) -> Result<Value, Status> {
        self.cluster.answer(call, body).map(|(_, object)| object)
    }

    /// Makes an object of the kind that it names. Its status is kept, as after a second request to write it.
    pub fn create(&self, object: Value) -> Result<Value, Status> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = Resource::of(&text(&object["apiVersion"]), &text(&object["kind"]))
            .ok_or_else(Status::no_such_path)?;
        let namespace = text(&object["metadata"]["namespace"]);
        let namespace = match (resource.namespaced, namespace.as_str()) {
            (true, "") => "default",
            (_, given) => given,
        };
        let mut call = self.call("create", resource.stored, &format!("{namespace}/"))?;
        call.resource = resource;
        let status = object["status"].clone();
        let made = self.ask(&call, object)?;
        if status.is_null() || !resource.has_status() {
            return Ok(made);
        }
        let at = format!("{namespace}/{}", text(&made["metadata"]["name"]));
        self.merge(
            &format!("{}/status", resource.stored),
            &at,
            json!({"status": status}),
        )
    }

    /// An object: `get("pods", "default/web")`, `get("nodes", "a")`; without a namespace it is `default`. Volcano's groups of
    /// pods are `podgroups.scheduling.volcano.sh`.
    pub fn get(&self, plural: &str, at: &str) -> Option<Value> {
        let call = self.call("get", plural, at).ok()?;
        self.ask(&call, Value::Null).ok()
    }

    /// Every object of a kind, in all namespaces.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let Ok(call) = self.call("list", plural, "/") else {
            return Vec::new();
        };
        let store = self.cluster.store();
        let objects = store.list(call.resource.stored, "");
        objects.map(|(_, object)| Value::clone(object)).collect()
    }

    /// A merge patch, of `pods` or of `pods/status`.
    pub fn merge(&self, plural: &str, at: &str, patch: Value) -> Result<Value, Status> {
        self.patch("application/merge-patch+json", plural, at, patch)
    }

    /// A strategic merge patch.
    pub fn strategic(&self, plural: &str, at: &str, patch: Value) -> Result<Value, Status> {
        self.patch("application/strategic-merge-patch+json", plural, at, patch)
    }

    fn patch(&self, kind: &str, plural: &str, at: &str, patch: Value) -> Result<Value, Status> {
        let mut call = self.call("patch", plural, at)?;
        kind.clone_into(&mut call.content_type);
        self.ask(&call, patch)
    }

    /// Deletes an object; `options` is a `DeleteOptions` or null.
    pub fn delete(&self, plural: &str, at: &str, options: Value) -> Result<Value, Status> {
        self.ask(&self.call("delete", plural, at)?, options)
    }

    /// Waits until this finds something, asked again after each change and each request; `None` when it takes too long.
    pub async fn wait<T>(
        &self,
        at_most: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> Option<T> {
        let mut stirred = self.cluster.stirred();
        let found = async {
            loop {
                if let Some(found) = look(self) {
                    return Some(found);
                }
                stirred.changed().await.ok()?;
            }
        };
        tokio::time::timeout(at_most, found).await.ok().flatten()
    }
}
