//! Manifests as an API server stores them and as its controllers expand them.
//!
//! A pod that a person wrote lacks many fields of a stored pod: the overhead of its `RuntimeClass`, the requests of a
//! `LimitRange`, the priority of its class, the claims of its volumes. [`Admission`] fills that in, as the admission plugins
//! do that are on by default in Kubernetes 1.36. [`expand`] makes the pods of a workload, as its controller would.
//! Objects with a UID were stored by an API server, and stay as they are.
//!
//! ```
//! use evictd_manifests::{Admission, Kind, PodManifest};
//! use serde_json::json;
//!
//! let mut admission = Admission::default();
//! admission.learn(&Kind::RuntimeClass.read_value(&json!({
//!     "metadata": {"name": "kata"},
//!     "overhead": {"podFixed": {"cpu": "1"}},
//! }))?);
//! let pod = PodManifest::from_value(&json!({
//!     "metadata": {"name": "web"},
//!     "spec": {"runtimeClassName": "kata"},
//! }))?;
//! let admitted = admission.admit(pod)?;
//! assert_eq!(admitted.notes[0], "RuntimeClass kata adds overhead of cpu=1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No clock, no I/O, no logging.
#![forbid(unsafe_code)]

mod admission;
mod manifest;
mod object;
mod stored;
mod wire;
mod workload;

pub use admission::{Admission, Admitted, Completed, Refusal};
pub use manifest::PodManifest;
pub use object::{Kind, KindVisitor, Object, group_of};
pub use wire::{LimitRange, ResourceClaimTemplate, RuntimeClass};
pub use workload::{
    Existing, Expansion, ExpansionError, SpreadOwner, expand, expand_one, is_workload,
};
