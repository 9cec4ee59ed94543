//! An API server and a kubelet of our own, for tests: real HTTP on the loopback, objects in memory, faults on command.
//! [`cri`] has a container runtime that answers from memory, and a real one; [`objects`] has builders of objects.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use evictd_testkit::{ApiServer, Controllers, Fault, FakeRuntime, Kubelet};
//! use std::time::Duration;
//!
//! let api = ApiServer::start()?;
//! // Ten seconds of this kubelet last 100 ms; it makes its node.
//! let kubelet = Kubelet::start(&api, "one", Duration::from_millis(10), FakeRuntime::default())?;
//! let controllers = Controllers::start(&api)?;
//! // A client without HTTP for the test itself; `admin.wait` waits for a condition.
//! let admin = api.actor("test");
//! admin.create(serde_json::json!({
//!     "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
//!     "spec": {"nodeName": "one", "containers": [{"name": "main", "image": "none"}]},
//! }))?;
//! // For a program: `api.url()`, or a file with `api.kubeconfig()` in it.
//! api.fault(Fault::answer(503).on("patch", "pods/status").times(2));
//! api.cut_watches();
//! # Ok(()) }
//! ```

mod access;
mod actor;
mod api_server;
mod apply;
mod authorizer;
mod binding;
mod body;
mod call;
mod cluster;
mod conditions;
mod connections;
mod controllers;
pub mod cri;
mod defaults;
mod delete;
mod discovery;
mod event;
mod evict;
mod fault;
mod fields;
pub mod http;
mod kubelet;
mod log;
pub mod pages;
mod patch;
mod policy;
pub mod program;
mod read;
mod resource;
mod review;
pub mod rights;
mod select;
mod server;
mod status;
mod store;
mod suite_cluster;
pub mod testing;
mod time;
mod tls;
mod watch;
mod webhooks;
mod worker;
mod write;

pub use evictd_test_objects as objects;

pub use actor::Actor;
pub use api_server::ApiServer;
pub use call::Call;
pub use cluster::Settings;
pub use controllers::Controllers;
pub use fault::Fault;
pub use kubelet::{CriContainers, Driver, Exits, FakeRuntime, KILLED, Kubelet, Processes, Runtime};
pub use log::{Counters, Entry};
pub use resource::Resource;
pub use status::Status;
pub use suite_cluster::SuiteCluster;
pub use tls::{Authority, Identity, TlsProxy};
