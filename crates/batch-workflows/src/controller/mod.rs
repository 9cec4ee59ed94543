//! The controllers of objects that create jobs, as values: cron jobs, flows and job templates (S6-226 to S6-241).
//!
//! A sync is a function of the objects at its start and of the answers to its calls so far. It stops at the first call
//! without an answer, and is run again with one more answer: from the start, but for the items of a loop that are settled. A
//! [`WorkflowMachine`] runs one sync for each object at a time, and retries failed ones.

mod call;
pub(crate) mod cron_job;
pub(crate) mod job_flow;
pub(crate) mod job_template;
mod jobs;
mod machine;
mod names;
mod replay;
mod round;
mod times;

pub use call::{Answer, Call, Done, Kind, Object, WorkflowKey};
pub(crate) use jobs::Jobs;
pub use machine::{WorkflowCommand, WorkflowEvent, WorkflowMachine};
pub(crate) use round::{Input, Next, Round};
