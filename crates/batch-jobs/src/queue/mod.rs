//! The queue controller as values (S6-063 to S6-073): the requests to a queue, and the round that carries one out, call
//! by call.
//!
//! `Groups` keeps the PodGroups of each queue, and turns changes in the cluster into requests. A `Round`
//! carries one request out: it returns [`Call`]s and takes their answers, until it is done. It may also return requests
//! for other queues of the hierarchy. A [`QueueMachine`] runs requests one after the other and retries failed ones.

mod groups;
mod machine;
mod round;
mod state;
mod view;

pub(crate) use groups::{Groups, queue_added, queue_changed};
pub use machine::{QueueCommand, QueueEvent, QueueMachine};
pub use round::{Answer, Call};
pub(crate) use round::{Next, Request, Round};
pub use state::{Procedure, Wanted, procedure};
pub use view::{Lister, View, ViewMetadata, ViewSpec, ViewStatus};
