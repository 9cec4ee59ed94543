//! The server as a test holds it.

use crate::access::User;
use crate::actor::Actor;
use crate::cluster::{Cluster, Proxied, Settings};
use crate::fault::Fault;
use crate::log::{Counters, Entry};
use crate::worker::Worker;
use crate::{defaults, server};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;

type Orders = mpsc::UnboundedSender<(bool, std::sync::mpsc::Sender<()>)>;

/// A running API server. It has a thread of its own, so that a test may block, or have its own time; dropped, it ends.
#[derive(Debug)]
pub struct ApiServer {
    cluster: Arc<Cluster>,
    address: SocketAddr,
    orders: Orders,
    _worker: Worker,
}

impl ApiServer {
    /// Starts on a free port of 127.0.0.1 with the namespaces and priority classes that every cluster has.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let cluster = Cluster::new();
        let actor = Actor::new(&cluster, "bootstrap");
        for object in defaults::bootstrap() {
            // They are well-formed and the first: nothing can refuse them.
            let _ = actor.create(object);
        }
        let (orders, obeys) = mpsc::unbounded_channel();
        let served = Arc::clone(&cluster);
        let worker = Worker::start("api-server", move || async move {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                server::serve(served, address, listener, obeys).await;
            }
        })?;
        Ok(Self {
            cluster,
            address,
            orders,
            _worker: worker,
        })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for it, as JSON.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_with(&serde_json::json!({}))
    }

    /// The same with this token.
    pub fn kubeconfig_of(&self, token: &str) -> String {
        self.kubeconfig_with(&serde_json::json!({ "token": token }))
    }

    fn kubeconfig_with(&self, user: &serde_json::Value) -> String {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "testkit",
            "clusters": [{"name": "testkit", "cluster": {"server": self.url()}}],
            "contexts": [{"name": "testkit", "context": {"cluster": "testkit", "user": "testkit"}}],
            "users": [{"name": "testkit", "user": user}],
        })
        .to_string()
    }

    /// A client without HTTP, with which a test sets up and reads objects. The name owns the fields that it writes.
    pub fn actor(&self, name: &str) -> Actor {
        Actor::new(&self.cluster, name)
    }

    /// Changes the settings. Requests under way keep the old ones.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.cluster.settings());
    }

    /// Every request so far.
    pub fn log(&self) -> Vec<Entry> {
        self.cluster.log()
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.cluster.counters()
    }

    /// Forgets every change up to now: older watches and pages get 410.
    pub fn compact(&self) {
        self.cluster.store().compact();
    }

    /// From now on this answers `nodes/proxy` of the node.
    pub(crate) fn proxy_to(&self, node: &str, kubelet: Weak<dyn Proxied>) {
        self.cluster.proxy_to(node, kubelet);
    }

    /// Cuts the connection of every watch in the middle of its answer.
    pub fn cut_watches(&self) {
        self.cluster.cuts.send_modify(|count| *count += 1);
    }

    /// Ends every connection and refuses new ones, until [`Self::come_back`].
    pub fn go_away(&self) {
        self.order(false);
    }

    /// Takes connections again, at the same port.
    pub fn come_back(&self) {
        self.order(true);
    }

    fn order(&self, up: bool) {
        let (obeyed, done) = std::sync::mpsc::channel();
        // The server may have ended already.
        let _ = self.orders.send((up, obeyed));
        let _ = done.recv();
    }

    /// Injects this fault from now on.
    pub fn fault(&self, fault: Fault) {
        self.cluster.faults().push(fault);
    }

    /// Removes every fault.
    pub fn clear_faults(&self) {
        self.cluster.faults().clear();
    }

    /// Knows a bearer token. `rules` are those of a `Role` or `ClusterRole` and hold in every namespace; `None` allows
    /// everything. Who comes without a token may do everything until [`Self::require_tokens`].
    pub fn grant(&self, token: &str, user: &str, rules: Option<serde_json::Value>) {
        let user = User {
            name: user.to_owned(),
            node: None,
        };
        self.cluster.access().grant(token, user, rules);
    }

    /// The same for the token of a pod on a node, which names that node.
    pub fn grant_on(&self, node: &str, token: &str, user: &str, rules: Option<serde_json::Value>) {
        let user = User {
            name: user.to_owned(),
            node: Some(node.to_owned()),
        };
        self.cluster.access().grant(token, user, rules);
    }

    /// That token is answered 401 until it is granted anew.
    pub fn expire(&self, token: &str) {
        self.cluster.access().expire(token);
    }

    /// Who has no token is answered 401.
    pub fn require_tokens(&self) {
        self.cluster.access().tokens_only = true;
    }
}
