//! The queue controller as values (S6-063 to S6-073): the requests to a queue, and the round that carries one out, call
//! by call.
//!
//! [`Groups`] keeps the PodGroups of each queue, and turns changes in the cluster into [`Request`]s. A [`Round`]
//! carries one request out: it returns [`Call`]s and takes their answers, until it is done. It may also return requests
//! for other queues of the hierarchy. A [`QueueMachine`] runs requests one after the other and retries failed ones.

mod groups;
mod machine;
mod round;
mod state;
mod view;

pub use groups::{Groups, queue_added, queue_changed};
pub use machine::{MOST_TRIES, QueueCommand, QueueEvent, QueueMachine};
pub use round::{Answer, Call, Next, Notice, Request, Round, RoundError, Step};
pub use state::{Procedure, Wanted, procedure};
pub use view::{CLOSED_BY_PARENT, Lister, ROOT, View, ViewMetadata, ViewSpec, ViewStatus};
