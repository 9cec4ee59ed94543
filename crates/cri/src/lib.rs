#![doc = include_str!("../README.md")]
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
