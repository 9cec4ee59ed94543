//! The job controller as values (S6-012 to S6-058).
//!
//! A [`JobMachine`] is the life of one job: [`JobMachine::on_event`] takes an event and returns commands. It keeps the
//! job and its pods ([`JobInfo`]), pending requests, delayed actions ([`Delays`]), and retries. The job's policies turn
//! a request into an action ([`choose`]), and an action in a phase becomes a [`Procedure`]: sync or kill. A [`Round`]
//! carries it out: it returns [`Call`]s, takes an [`Answer`] to each, and ends with a written status or an error. A
//! failed request is retried. One round runs at a time, so a job is handled serially (S6-014).
//!
//! ```
//! use evictd_batch_objects::bus::Action;
//! use evictd_batch_jobs::job::{Procedure, Retain, Rule, procedure};
//! use evictd_batch_objects::JobPhase;
//!
//! let restart = procedure(JobPhase::Running, &Action::RestartJob);
//! assert_eq!(restart, Procedure::Kill(Retain::None, Rule::Restart));
//! ```
//!
//! Where ours is better than Volcano, a [`Difference`](evictd_batch_objects::Difference) says so.

mod belonging;
mod call;
mod claims;
mod command;
mod creation;
mod delay;
mod dependencies;
mod expectations;
mod failure;
mod group;
mod handler;
mod info;
mod kill;
mod lister;
mod machine;
mod names;
mod object;
mod pending_objects;
mod plugins;
mod pod_counts;
mod pod_diff;
mod pods;
mod policy;
mod request;
mod round;
mod status;
mod step;
mod sync;
mod template;
mod termination;
mod transition;
mod ttl;
mod waiting;

pub use belonging::Belonging;
pub(crate) use belonging::is_marked;
pub use call::{Answer, Call, Done, KeyPair, Resource};
pub use command::{CommandTarget, Fate, fate};
pub use creation::Creation;
pub use delay::{Delayed, Delays};
pub use failure::RoundError;
pub use handler::pod_added;
pub(crate) use handler::{group_changed, job_changed, pod_changed, pod_deleted};
pub use info::JobInfo;
pub use lister::Lister;
pub use machine::{JobCommand, JobEvent, JobMachine};
pub use pending_objects::PendingObjects;
pub(crate) use policy::decided;
pub use policy::{Choice, choose};
pub use request::Request;
pub use round::{Round, Task};
pub use step::Next;
pub use transition::{Procedure, Retain, Rule, Target, procedure};
pub use ttl::expires;
