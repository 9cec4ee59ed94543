//! A client of this node's container runtime (containerd, CRI-O, cri-dockerd) through CRI v1 on its unix socket.
//!
//! It lists pods, containers, images and their usage, and stops and removes them. It makes no decisions.
//!
//! - [`Client`] has a method for each call. It connects at the first call and reconnects after a restart of the runtime.
//! - Every call has a deadline: 2 s for a query, 30 s for a removal, and 30 s plus the grace period for a stop
//!   ([`Settings`]).
//! - It rejects an answer longer than 16 MiB or with more than 20 000 entries ([`Error::TooLarge`], [`Error::TooMany`]).
//! - A feature that an older runtime lacks is `None`, not an error: containerd 1.6 has no events and no cgroup driver.
//! - [`Error`] names the call and the socket, and distinguishes a frozen, stopped, outdated or foreign server.
//!
//! CRI knows a pod's names, labels and annotations, and at best its containers' limits, but no requests or priority.
//!
//! ```no_run
//! use evictd_cri::{Client, ContainerState, Error, Settings};
//! use std::time::Duration;
//!
//! # async fn clean() -> Result<(), Error> {
//! let runtime = Client::new(Settings {
//!     endpoint: Some("unix:///run/containerd/containerd.sock".to_owned()),
//!     question: Duration::from_secs(1),
//!     ..Settings::default()
//! })?;
//! for container in runtime.containers().await? {
//!     if container.state == ContainerState::Exited {
//!         runtime.remove_container(&container.id).await?;
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! `cargo run -p evictd-cri --example containers` lists the containers of this machine.

mod client;
mod codec;
mod error;
mod events;
mod model;
mod socket;
mod wire;

pub use client::{Client, Settings};
pub use error::Error;
pub use events::{Event, EventKind, Events};
pub use model::{
    CgroupDriver, Condition, Container, ContainerState, ContainerStats, ContainerStatus,
    FilesystemUsage, Filesystems, Image, Memory, PodName, Resources, Sandbox, SandboxStats,
    Version,
};
pub use socket::{USUAL_RUNTIMES, UsualRuntime, usual_root, usual_sockets};
/// The gRPC code in [`Error::Runtime`].
pub use tonic::Code;

use model::timestamp;
