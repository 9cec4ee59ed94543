//! Everything that the server knows, and the one door to it for requests and for the test itself.

use crate::call::Call;
use crate::log::{Counters, Entry};
use crate::resource::Resource;
use crate::status::Status;
use crate::store::Store;
use crate::{defaults, delete, read, write};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What a test may set while the server runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether a watch may ask for the objects that are there; older servers refuse.
    pub streaming_lists: bool,
    /// How often a quiet watch that wants bookmarks gets one.
    pub bookmark_interval: Duration,
    /// How wrong the server's clock is.
    pub clock_skew: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            bookmark_interval: Duration::from_mins(1),
            clock_skew: SignedDuration::ZERO,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Cluster {
    store: Mutex<Store>,
    settings: Mutex<Settings>,
    log: Mutex<(Vec<Entry>, Counters)>,
    /// Counts changes and requests, for whoever waits for one.
    stirred: watch::Sender<u64>,
    /// Counts the commands to cut watches.
    pub(crate) cuts: watch::Sender<u64>,
}

/// A test that panicked while it held a lock has left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    pub(crate) fn new() -> Arc<Self> {
        let cluster = Arc::new(Self {
            store: Mutex::new(Store::new()),
            settings: Mutex::default(),
            log: Mutex::default(),
            stirred: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
        });
        let actor = Actor::new(&cluster, "bootstrap");
        for object in defaults::bootstrap() {
            // They are well-formed and the first: nothing can refuse them.
            let _ = actor.create(object);
        }
        cluster
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        lock(&self.settings)
    }

    pub(crate) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.saturating_add(self.settings().clock_skew)
            .unwrap_or(now)
    }

    pub(crate) fn stirred(&self) -> watch::Receiver<u64> {
        self.stirred.subscribe()
    }

    fn stir(&self) {
        self.stirred.send_modify(|count| *count += 1);
    }

    pub(crate) fn logged(&self, entry: Entry) {
        let mut log = lock(&self.log);
        log.0.push(entry);
        log.1.requests += 1;
        drop(log);
        self.stir();
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut lock(&self.log).1);
        self.stir();
    }

    pub(crate) fn counters(&self) -> Counters {
        lock(&self.log).1
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        lock(&self.log).0.clone()
    }

    /// Answers any call but a watch; `body` is null where there is none. The code is that of a success.
    pub(crate) fn answer(&self, call: &Call, body: Value) -> Result<(u16, Value), Status> {
        let now = self.now();
        let mut store = self.store();
        let before = store.version;
        let known = call.subresource.is_empty()
            || call
                .resource
                .subresources
                .contains(&call.subresource.as_str());
        if !known {
            return Err(Status::no_such_path());
        }
        let answer = match call.verb {
            "get" => read::get(&store, call),
            "list" => read::list(&store, call),
            "create" => write::create(&mut store, call, body, now),
            "update" => write::update(&mut store, call, body),
            "patch" => write::patch(&mut store, call, body),
            "delete" => delete::delete(&mut store, call, &body, now),
            _ => delete::delete_all(&mut store, call, &body, now),
        };
        let changed = store.version != before;
        drop(store);
        if changed {
            self.stir();
        }
        let code = if call.verb == "create" { 201 } else { 200 };
        answer.map(|object| (code, object))
    }
}

/// Somebody who acts on the objects without HTTP: neither faults nor rules of access meet it, nor does the log tell of it.
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

    fn call(&self, verb: &'static str, plural: &str, at: &str) -> Result<Call, Status> {
        let (plural, subresource) = plural.split_once('/').unwrap_or((plural, ""));
        let resource = crate::resource::RESOURCES
            .iter()
            .find(|resource| resource.plural == plural)
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
            options: std::collections::BTreeMap::new(),
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
        let mut call = self.call("create", resource.plural, &format!("{namespace}/"))?;
        call.resource = resource;
        let status = object["status"].clone();
        let made = self.ask(&call, object)?;
        if status.is_null() {
            return Ok(made);
        }
        let at = format!("{namespace}/{}", text(&made["metadata"]["name"]));
        self.merge(
            &format!("{}/status", resource.plural),
            &at,
            json!({"status": status}),
        )
    }

    /// An object: `get("pods", "default/web")`, `get("nodes", "a")`; without a namespace it is `default`.
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
        let objects = store.list(call.resource.plural, "");
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
