//! The queue controller as values (S6-063 to S6-073): what a queue is asked to do, and the round that does it, call by
//! call.
//!
//! [`Groups`] knows which PodGroups are in which queue, and turns changes in the cluster into [`Request`]s. A [`Round`]
//! carries one request out: it hands out [`Call`]s, and takes their answers, until it is done. Requests for other queues of
//! the hierarchy come out of it as well. A [`QueueMachine`] carries requests out one after the other, and tries again what
//! failed.

mod groups;
mod machine;
mod round;
mod state;
mod view;

pub use groups::{Groups, queue_added, queue_changed};
pub use machine::{MOST_TRIES, QueueCommand, QueueEvent, QueueMachine};
pub use round::{Answer, Call, Next, Notice, Request, Round, RoundError, Step};
pub use state::{Procedure, State, Wanted, procedure};
pub use view::{CLOSED_BY_PARENT, ROOT, Surroundings, View, ViewMetadata, ViewSpec, ViewStatus};
