//! The job controller as values (S6-012 to S6-058).
//!
//! A [`JobMachine`] is the life of one job: [`JobMachine::on_event`] takes what happens and returns what is to be done. It
//! knows the job and its pods ([`JobInfo`]), the requests that wait, the actions that wait for a timeout ([`Delays`]), and
//! what is tried again. A request becomes an action by the job's policies ([`choose`]), and an action in a phase becomes a
//! [`Procedure`]: pods are made and counted, or ended. A [`Round`] carries it out: it hands out [`Call`]s, takes an
//! [`Answer`] to each, and ends with a status that is written, or with an error, after which the request is tried again.
//! One round is under way at a time, so that a job is always handled serially (S6-014).
//!
//! ```
//! use evictd_batch::bus::Action;
//! use evictd_batch::job::{Phase, Procedure, Retain, Rule, procedure};
//!
//! let restart = procedure(Phase::Running, &Action::RestartJob);
//! assert_eq!(restart, Procedure::Kill(Retain::None, Rule::Restart));
//! ```
//!
//! Where ours is better than Volcano, a switch of [`Rules`] says so.

mod call;
mod census;
mod claims;
mod command;
mod creation;
mod delay;
mod dependencies;
pub mod duration;
mod ending;
mod failure;
mod group;
mod handler;
mod info;
mod kill;
mod machine;
mod names;
mod object;
mod phase;
mod plugins;
mod pods;
mod policy;
mod request;
mod round;
mod rules;
mod status;
mod step;
mod surroundings;
mod sync;
mod template;
mod transition;
mod ttl;

pub use call::{Answer, Call, Done, KeyPair, Notice, Object, Refusal, Resource, Tone};
pub use command::{CommandTarget, Fate, fate};
pub use creation::Creation;
pub use delay::{Delayed, Delays};
pub use failure::RoundError;
pub use handler::{group_changed, job_added, job_changed, pod_added, pod_changed, pod_deleted};
pub use info::{Belonging, JobInfo, Pods, is_marked};
pub use machine::{JobCommand, JobEvent, JobMachine, MOST_TRIES};
pub(crate) use names::IN_STAGES;
pub use object::pod_name;
pub use phase::Phase;
pub use policy::{Choice, choose};
pub use request::Request;
pub use round::{Round, Task};
pub use rules::Rules;
pub use step::{Next, Step};
pub use surroundings::Surroundings;
pub use transition::{Procedure, Retain, Rule, Target, procedure};
pub use ttl::expires;
