//! The controllers of jobs, queues and pod groups as state machines, without I/O, clock or threads.
//!
//! * [`job`] keeps a job's pods, pod group and status as its spec and its policies ask.
//! * [`queue`] opens and closes queues.
//! * [`pod_group`] makes the groups of pods without a job.
//! * [`reconcile`] runs jobs and queues on a file instead of a cluster.
//!
//! ```
//! use evictd_batch_jobs::reconcile::JobCase;
//! use evictd_batch_objects::Compat;
//!
//! let case: JobCase = serde_json::from_value(serde_json::json!({
//!     "job": {
//!         "metadata": {"name": "train", "namespace": "ml", "uid": "u1"},
//!         "spec": {"queue": "default", "minAvailable": 1, "tasks": [{"name": "worker", "replicas": 1}]},
//!     },
//!     "request": {"event": "OutOfSync"},
//! }))?;
//! let outcome = case.answer(Compat::EVICTD, "2026-01-01T01:00:00Z".parse()?)?;
//! assert_eq!(serde_json::to_value(&outcome)?["action"], "SyncJob");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod job;
pub mod pod_group;
pub mod queue;
pub mod reconcile;
