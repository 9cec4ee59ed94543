//! Everything that the server knows, and the one entry to it for requests and for the test itself.

use crate::access::{Access, User};
use crate::call::Call;
use crate::fault::Fault;
use crate::log::{Counters, Entry};
use crate::policy::{self, Programs, Review};

use crate::status::Status;
use crate::store::Store;
use crate::{binding, delete, event, evict, read, review, write};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// Settings that a test may change while the server runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether a watch may ask for the objects that are there; older servers refuse.
    pub streaming_lists: bool,
    /// Whether the server may be asked so but its etcd is too old to answer.
    pub old_etcd: bool,
    /// Kinds that an older server does not have, by their storage name (the plural, but `podgroups.scheduling.volcano.sh`).
    pub unknown_kinds: Vec<&'static str>,
    /// The minor version of Kubernetes that the server says it is.
    pub minor_version: u32,
    /// How often a quiet watch that wants bookmarks gets one.
    pub bookmark_interval: Duration,
    /// How wrong the server's clock is.
    pub clock_skew: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            old_etcd: false,
            unknown_kinds: Vec::new(),
            minor_version: 36,
            bookmark_interval: Duration::from_mins(1),
            clock_skew: SignedDuration::ZERO,
        }
    }
}

/// A server behind the API server, as the kubelet is for `nodes/proxy`.
pub(crate) trait Proxied: std::fmt::Debug + Send + Sync {
    /// The status code and the answer at this path.
    fn found(&self, path: &str) -> (u16, Value);
}

#[derive(Debug)]
pub(crate) struct Cluster {
    store: Mutex<Store>,
    settings: Mutex<Settings>,
    access: Mutex<Access>,
    faults: Mutex<Vec<Fault>>,
    programs: Mutex<Programs>,
    log: Mutex<(Vec<Entry>, Counters)>,
    /// The servers behind `nodes/proxy`, by the node's name.
    kubelets: Mutex<BTreeMap<String, Weak<dyn Proxied>>>,
    /// Counts changes and requests, so that tests can wait for one.
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
        Arc::new(Self {
            store: Mutex::new(Store::new()),
            settings: Mutex::default(),
            access: Mutex::default(),
            faults: Mutex::default(),
            programs: Mutex::default(),
            log: Mutex::default(),
            kubelets: Mutex::default(),
            stirred: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
        })
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        lock(&self.settings)
    }

    pub(crate) fn access(&self) -> MutexGuard<'_, Access> {
        lock(&self.access)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Vec<Fault>> {
        lock(&self.faults)
    }

    pub(crate) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.saturating_add(self.settings().clock_skew)
            .unwrap_or(now)
    }

    /// From now on this kubelet answers for its node.
    pub(crate) fn proxy_to(&self, node: &str, kubelet: Weak<dyn Proxied>) {
        lock(&self.kubelets).insert(node.to_owned(), kubelet);
    }

    /// The answer of the node's kubelet. The API server uses its own credentials there.
    fn forward(&self, call: &Call) -> Result<(u16, Value), Status> {
        let kubelet = lock(&self.kubelets).get(&call.name).and_then(Weak::upgrade);
        let kubelet = kubelet.ok_or_else(|| Status::unreachable(&call.name))?;
        Ok(kubelet.found(&call.below))
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
        self.answer_if(call, body, |_, _| Ok(()))
    }

    /// The same with admission policies, which see the object as it would be stored and may refuse it.
    pub(crate) fn answer_to(
        &self,
        user: &User,
        call: &Call,
        body: Value,
    ) -> Result<(u16, Value), Status> {
        self.answer_if(call, body, |store, body| {
            if matches!(call.verb, "get" | "list") || !policy::is_any(store) {
                return Ok(());
            }
            let old = store.get(&call.key());
            let old = old.map(|old| event::shown(old, call.resource));
            let is_order = matches!(call.subresource.as_str(), "eviction" | "binding");
            let old = old.filter(|_| !is_order);
            let object = match call.verb {
                "delete" | "deletecollection" => Value::Null,
                _ if is_order => body.clone(),
                _ => {
                    let mut dry = call.clone();
                    dry.options.insert("dryRun".to_owned(), "All".to_owned());
                    carry_out(store, &dry, body.clone(), self.now())?
                }
            };
            let access = self.access();
            let review = Review {
                user,
                access: &access,
                call,
                object: &object,
                old: &old.unwrap_or_default(),
            };
            policy::check(store, &mut lock(&self.programs), review)
        })
    }

    fn answer_if(
        &self,
        call: &Call,
        body: Value,
        may: impl FnOnce(&mut Store, &Value) -> Result<(), Status>,
    ) -> Result<(u16, Value), Status> {
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
        if call.resource.is_only_asked() && call.verb != "create" {
            return Err(Status::not_allowed());
        }
        if let Some(reviewed) = review::answer(&self.access(), call.resource.plural, &body) {
            return Ok((201, reviewed));
        }
        may(&mut store, &body)?;
        if call.subresource == "proxy" {
            drop(store);
            return self.forward(call);
        }
        let answer = carry_out(&mut store, call, body, now);
        let changed = store.version != before;
        drop(store);
        if changed {
            self.stir();
        }
        let code = if call.verb == "create" { 201 } else { 200 };
        answer.map(|object| (code, object))
    }
}

fn carry_out(store: &mut Store, call: &Call, body: Value, now: Timestamp) -> Result<Value, Status> {
    match call.verb {
        "get" => read::get(store, call),
        "list" => read::list(store, call),
        "create" if call.subresource == "eviction" => evict::evict(store, call, &body, now),
        "create" if call.subresource == "binding" => binding::bind(store, call, &body, now),
        "create" if call.resource.plural == "bindings" => {
            let call = binding::of_pod(call, &body);
            binding::bind(store, &call, &body, now)
        }
        "create" => write::create(store, call, body, now),
        "update" => write::update(store, call, body, now),
        "patch" => write::patch(store, call, body, now),
        "delete" => delete::delete(store, call, &body, now),
        _ => delete::delete_all(store, call, &body, now),
    }
}
