//! An API server and a kubelet of our own, for tests: real HTTP on the loopback, objects in memory, faults on command.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! let api = evictd_testkit::ApiServer::start()?;
//! let admin = api.actor("test");
//! admin.create(serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}));
//! println!("kubectl --server {} get nodes", api.url());
//! # Ok(()) }
//! ```

mod body;
mod call;
mod cluster;
mod defaults;
mod delete;
mod discovery;
mod event;
mod log;
mod patch;
mod read;
mod resource;
mod select;
mod server;
mod status;
mod store;
mod watch;
mod write;

pub use call::Call;
pub use cluster::{Actor, Settings};
pub use log::{Counters, Entry};
pub use resource::Resource;
pub use status::Status;

use cluster::Cluster;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A running API server. It has a thread of its own, so that a test may block, or have its own time; dropped, it ends.
#[derive(Debug)]
pub struct ApiServer {
    cluster: Arc<Cluster>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Starts on a free port of 127.0.0.1 with the namespaces and priority classes that every cluster has.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let cluster = Cluster::new();
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&cluster);
        let thread = std::thread::Builder::new()
            .name("api-server".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        () = server::serve(served, listener) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            cluster,
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for it, as JSON.
    pub fn kubeconfig(&self) -> String {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "testkit",
            "clusters": [{"name": "testkit", "cluster": {"server": self.url()}}],
            "contexts": [{"name": "testkit", "context": {"cluster": "testkit", "user": "testkit"}}],
            "users": [{"name": "testkit", "user": {}}],
        })
        .to_string()
    }

    /// Somebody who acts without HTTP, for what a test sets up and looks at. The name owns the fields that it writes.
    pub fn actor(&self, name: &str) -> Actor {
        Actor::new(&self.cluster, name)
    }

    /// Changes the settings; what is under way goes on with the old ones.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.cluster.settings());
    }

    /// Every request so far.
    pub fn log(&self) -> Vec<Entry> {
        self.cluster.log()
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.cluster.counters()
    }

    /// Forgets every change up to now: watches and pages that begin before are told 410.
    pub fn compact(&self) {
        self.cluster.store().compact();
    }

    /// Cuts the connection of every watch in the middle of its answer.
    pub fn cut_watches(&self) {
        self.cluster.cuts.send_modify(|count| *count += 1);
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell but that it panicked, and then a request of the test has failed.
            let _ = thread.join();
        }
    }
}
