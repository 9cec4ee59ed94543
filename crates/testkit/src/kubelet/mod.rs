//! A kubelet that behaves as real ones were observed to, also when others change its pods and its node.
//!
//! - It writes its own view of a pod's phase over anybody else's within 10 s, and of its node's standard conditions.
//! - A pod of which not only the status changed, and whose phase is a last one, is torn down.
//! - A container that ends starts again, unless the API server says that its pod has ended.
//! - It looks at its containers once a second.
//! - Deletions are carried out, with 2 s at least between SIGTERM and SIGKILL, forced ones as well.
//! - When its API server is started again, it writes at once but may see its pods a minute later.

mod containers;
mod endpoints;
mod pod;
mod processes;
mod runtime;

pub use containers::CriContainers;
pub use processes::{Driver, Processes};
pub use runtime::{Exits, FakeRuntime, KILLED, Runtime};

use crate::ApiServer;
use crate::actor::Actor;
use crate::cluster::Proxied;
use crate::conditions;
use crate::worker::Worker;
use endpoints::Endpoints;
use pod::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The node conditions that are its own.
const STANDARD: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

/// How often it writes its view over others', in seconds.
const TICK: u32 = 10;

/// An order of a test: the pod, and its container or the message.
#[derive(Debug)]
enum Order {
    Kill(String, String),
    Evict(String, String),
}

/// A running kubelet. Dropping it stops it; its containers run on as long as its [`Runtime`] exists.
#[derive(Debug)]
pub struct Kubelet {
    address: SocketAddr,
    endpoints: Arc<Endpoints>,
    orders: mpsc::UnboundedSender<Order>,
    reflector: Arc<Reflector>,
    second: Duration,
    _worker: Worker,
}

/// How long the reflector of a real kubelet's pods was seen to stay away after a restart of its API server, in seconds.
const REFLECTOR_AWAY: u32 = 66;

/// The watch of a kubelet's pods: until when it is interrupted, if it is.
#[derive(Debug, Default)]
struct Reflector(Mutex<Option<Away>>);

#[derive(Debug, Clone, Copy)]
enum Away {
    Until(Instant),
    UntilReset,
}

impl Reflector {
    fn set(&self, away: Option<Away>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    fn is_away(&self) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Away::Until(end)) => Instant::now() < end,
            Some(Away::UntilReset) => true,
            None => false,
        }
    }
}

impl Kubelet {
    /// Starts one for a node, which it makes if it is not there. `second` is how long a second of its own lasts, so that a
    /// test need not wait 10 s for an event that comes every 10 s.
    pub fn start(
        api: &ApiServer,
        node: &str,
        second: Duration,
        runtime: impl Runtime + 'static,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        // tokio takes only a nonblocking socket.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let endpoints = Arc::new(Endpoints::new(api.actor("kubelet"), node));
        let answers: Arc<dyn Proxied> = Arc::<Endpoints>::clone(&endpoints);
        api.proxy_to(node, Arc::downgrade(&answers));
        let (orders, ordered) = mpsc::unbounded_channel();
        let actor = api.actor("kubelet");
        let node = node.to_owned();
        let served = Arc::clone(&endpoints);
        let reflector = Arc::new(Reflector::default());
        let of_agent = Arc::clone(&reflector);
        let worker = Worker::start("kubelet", move || async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            let (exits, exited) = mpsc::unbounded_channel();
            let agent = Agent {
                actor,
                node,
                second,
                runtime: Box::new(runtime),
                pods: BTreeMap::new(),
                exits,
                reflector: of_agent,
                seen: 0,
            };
            tokio::select! {
                () = endpoints::serve(served, listener) => {}
                () = agent.run(exited, ordered) => {}
            }
        })?;
        Ok(Self {
            address,
            endpoints,
            orders,
            reflector,
            second,
            _worker: worker,
        })
    }

    /// It hears of no change for 66 of its seconds, as after a restart of its API server.
    pub fn miss_changes(&self) {
        let end = Instant::now() + REFLECTOR_AWAY * self.second;
        self.reflector.set(Some(Away::Until(end)));
    }

    /// It sees no change and overwrites the writes of others with its own state. A kubelet does so whose watch has not
    /// come back yet after a restart of the API server. With `false` it lists anew, within a tick.
    pub fn deafen(&self, deaf: bool) {
        self.reflector.set(deaf.then_some(Away::UntilReset));
    }

    /// `http://127.0.0.1:PORT`, for `/pods`, `/stats/summary`, `/configz` and `/healthz`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills a container, as the kernel or another program on the node does: `kill("default/web", "main")`.
    pub fn kill(&self, pod: &str, container: &str) {
        // A kubelet that has stopped has nothing to kill.
        let order = Order::Kill(pod.to_owned(), container.to_owned());
        let _ = self.orders.send(order);
    }

    /// Ends a pod as it does where its node runs out of something: said at once by a condition with this message, asked
    /// and killed 2 s later, and reported as `Failed`, `Evicted`.
    pub fn evict(&self, pod: &str, message: &str) {
        let order = Order::Evict(pod.to_owned(), message.to_owned());
        // A kubelet that has stopped evicts no pod.
        let _ = self.orders.send(order);
    }

    /// Sets the answer of `/stats/summary`.
    pub fn set_summary(&self, summary: Value) {
        self.endpoints.set("summary", summary);
    }

    /// Sets the `kubeletconfig` that `/configz` answers.
    pub fn set_config(&self, config: Value) {
        self.endpoints.set("config", config);
    }

    /// `/configz` is answered 404, as by a kubelet whose debugging handlers are switched off.
    pub fn refuse_config(&self) {
        self.endpoints.set("config", Value::Null);
    }

    /// Its endpoints accept this bearer token only.
    pub fn require_token(&self, token: &str) {
        self.endpoints.set("token", token.into());
    }
}

#[derive(Debug)]
struct Agent {
    actor: Actor,
    node: String,
    second: Duration,
    runtime: Box<dyn Runtime>,
    /// By UID.
    pods: BTreeMap<String, Pod>,
    exits: Exits,
    reflector: Arc<Reflector>,
    /// The version of the last change that was looked at.
    seen: u64,
}

impl Agent {
    async fn run(
        mut self,
        mut exited: mpsc::UnboundedReceiver<(String, i32)>,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        let mut stirred = self.actor.cluster().stirred();
        self.look();
        let second = self.second.max(Duration::from_millis(1));
        let mut tick = tokio::time::interval((TICK * self.second).max(second));
        let mut relist = tokio::time::interval(second);
        loop {
            // Nothing is due for a day.
            let due = self.pods.values().filter_map(|pod| pod.kill_at).min();
            let due = due.unwrap_or_else(|| Instant::now() + Duration::from_hours(24));
            tokio::select! {
                _ = tick.tick() => self.tick(),
                Ok(()) = stirred.changed() => self.look(),
                // A real kubelet notices ends only when it relists its containers, not at once.
                _ = relist.tick() => while let Ok((id, code)) = exited.try_recv() {
                    self.ended(&id, code);
                },
                Some(order) = orders.recv() => self.obey(&order),
                () = tokio::time::sleep_until(due) => {
                    let over = |pod: &&mut Pod| pod.kill_at.is_some_and(|at| at <= Instant::now());
                    for pod in self.pods.values_mut().filter(over) {
                        pod.kill(&mut *self.runtime);
                    }
                }
            }
        }
    }

    fn obey(&mut self, order: &Order) {
        let (Order::Kill(at, word) | Order::Evict(at, word)) = order;
        let Some(pod) = self.pods.values_mut().find(|pod| pod.at == *at) else {
            return;
        };
        if let Order::Evict(..) = order {
            pod.evict(word, &self.actor, &mut *self.runtime, self.second);
        } else if let Some(id) = pod.container(word) {
            self.runtime.kill(id);
        }
    }

    /// The changes of this node's pods at the API server since the last look, one by one: a change of status that
    /// comes alone is another thing than one that comes along with an annotation.
    fn look(&mut self) {
        if self.reflector.is_away() {
            // After the gap it lists anew, like a reflector whose version has expired.
            self.seen = 0;
            return;
        }
        let store = self.actor.cluster().store();
        // The first look has no change to begin with.
        let changes: Vec<(Value, bool)> = match store.since(self.seen).filter(|_| self.seen > 0) {
            Some(changes) => changes
                .filter(|change| change.key.stored == "pods")
                .map(|change| (Value::clone(&change.object), change.gone))
                .collect(),
            None => store
                .list("pods", "")
                .map(|(_, pod)| (Value::clone(pod), false))
                .collect(),
        };
        self.seen = store.version;
        drop(store);
        for (object, gone) in changes {
            if object["spec"]["nodeName"] == *self.node {
                self.changed(object, gone);
            }
        }
    }

    fn changed(&mut self, object: Value, gone: bool) {
        let uid = object["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let ended = matches!(
            object["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        );
        match self.pods.get_mut(&uid) {
            None if gone || ended => {}
            None => {
                // A pod that can't start has no place here; the test sees it pending.
                if let Ok(pod) = Pod::start(object, &mut *self.runtime, &self.exits) {
                    pod.report(&self.actor);
                    self.pods.insert(uid, pod);
                }
            }
            Some(pod) if gone => {
                pod.deleted(&mut *self.runtime, self.second);
                if pod.is_over() {
                    self.pods.remove(&uid);
                }
            }
            Some(pod) => {
                if pod.changed(object, &mut *self.runtime, self.second) {
                    pod.report(&self.actor);
                }
                finish(pod, &self.actor);
            }
        }
    }

    fn ended(&mut self, id: &str, code: i32) {
        // Earlier changes decide how this end is reported.
        self.look();
        for pod in self.pods.values_mut() {
            if let Ok(true) = pod.ended(id, code, &mut *self.runtime, &self.exits) {
                pod.report(&self.actor);
                finish(pod, &self.actor);
                break;
            }
        }
        self.pods.retain(|_, pod| !(pod.forgotten && pod.is_over()));
    }

    fn tick(&mut self) {
        self.look();
        for pod in self.pods.values() {
            pod.report(&self.actor);
        }
        self.heartbeat();
    }

    fn heartbeat(&self) {
        let mut node = self.actor.get("nodes", &self.node).unwrap_or_else(|| {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}});
            self.actor.create(node).unwrap_or_default()
        });
        let now = self.actor.time();
        for kind in STANDARD {
            conditions::set(
                &mut node,
                kind,
                kind == "Ready",
                ("Kubelet", "as the kubelet sees it"),
                &now,
            );
        }
        let mut all = node["status"]["conditions"].take();
        for condition in all.as_array_mut().into_iter().flatten() {
            condition["lastHeartbeatTime"] = now.clone();
        }
        if let Some(all) = all.as_array_mut() {
            all.retain(|condition| {
                condition["type"]
                    .as_str()
                    .is_some_and(|kind| STANDARD.contains(&kind))
            });
        }
        // The node may have been deleted in this moment.
        let _ = self.actor.strategic(
            "nodes/status",
            &self.node,
            json!({"status": {"conditions": all}}),
        );
    }
}

/// Reports to the API server the end of a pod that is being deleted.
fn finish(pod: &Pod, actor: &Actor) {
    if pod.is_over() && pod.is_being_deleted() && !pod.forgotten {
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid()}});
        // The pod may be deleted already.
        let _ = actor.delete("pods", &pod.at, options);
    }
}
