//! The container runtime of this node, through CRI v1 on its unix socket: containerd, CRI-O, cri-dockerd.
//!
//! It lists pods, containers, images and what they use, and stops and removes them. It decides nothing.
//!
//! - [`Client`] has a method for each call. It connects at the first one and, after the runtime was restarted, again.
//! - Every call has a deadline, within which it ends whatever the runtime does: 2 s for a question, 30 s for a removal, and
//!   30 s on top of the grace period for a stop ([`Settings`]).
//! - An answer longer than 16 MiB or with more than 20 000 entries is refused ([`Error::TooLarge`], [`Error::TooMany`]).
//! - What an older runtime cannot tell is `None`, not an error: containerd 1.6 has no events and no cgroup driver.
//! - [`Error`] says what was asked of which socket, and tells a runtime that is frozen, gone, too old or no runtime at all apart.
//!
//! Of a pod, CRI knows names, labels and annotations, and of its containers the limits at best; no requests, no priority.
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
//! `cargo run -p evictd-cri --example containers` shows what the runtime of this machine has.

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
/// The kind of a runtime's refusal, in [`Error::Runtime`].
pub use tonic::Code;

use model::timestamp;
