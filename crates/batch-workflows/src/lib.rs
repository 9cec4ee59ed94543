//! Volcano's workflows: cron jobs, flows and job templates, and the controllers that create their jobs, as values.
//!
//! * [`CronJob`], [`JobFlow`] and [`JobTemplate`] are the objects; [`schedule`] reads a cron job's times.
//! * [`WorkflowMachine`] runs the syncs of all of them in a cluster: events go in, calls come out.
//! * [`WorkflowCase`] runs one sync on a file instead of a cluster.
//!
//! ```
//! use evictd_batch_objects::Compat;
//! use evictd_batch_workflows::WorkflowCase;
//!
//! let case: WorkflowCase = serde_json::from_value(serde_json::json!({
//!     "kind": "cronjob", "now": "2026-03-02T10:05:00Z",
//!     "cronJob": {
//!         "metadata": {"name": "nightly", "namespace": "ml", "uid": "u1", "creationTimestamp": "2026-03-02T09:59:00Z"},
//!         "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"queue": "default"}}},
//!     },
//! }))?;
//! let outcome = case.answer(Compat::EVICTD, "2026-03-02T10:05:00Z".parse()?)?;
//! let outcome = serde_json::to_value(&outcome)?;
//! assert_eq!(outcome["createdJobs"][0]["metadata"]["name"], "nightly-29540765");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod case;
mod controller;
mod objects;
pub mod schedule;

pub use case::{WorkflowCase, WorkflowOutcome};
pub use controller::{
    Answer, Call, Done, Kind, Object, WorkflowCommand, WorkflowEvent, WorkflowKey, WorkflowMachine,
};
pub use objects::{
    ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, Flow, FlowCondition, FlowDependsOn,
    FlowJobStatus, JobFlow, JobFlowPhase, JobFlowSpec, JobFlowState, JobFlowStatus, JobReference,
    JobTemplate, JobTemplateStatus, RunningHistory,
};
