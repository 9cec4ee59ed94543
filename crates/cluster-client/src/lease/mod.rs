//! Leader election on a Lease (`coordination.k8s.io/v1`), by the rule of client-go, so that it can share a Lease with
//! programs that use that.
//!
//! ```text
//!   Event (time has come, an answer, stop) -> Election -> Command (read, write, wake me, your role is)
//!                                    lease::run carries the commands out
//! ```
//!
//! A record of another holder counts for its duration from when this process has seen it change, by this process's own
//! clock; the times in it are never compared. So wrong clocks do no harm. Of two candidates the one that starts later
//! waits at least once for the whole duration. A leader that could not renew in time stops leading before another may
//! take over.
//!
//! ```
//! use evictd_cluster_client::lease::{Command, Election, Event, Moment, Settings};
//! use std::time::Duration;
//!
//! let mut election = Election::new(Settings::new("node-1_1234".to_owned()));
//! let now = Moment { elapsed: Duration::ZERO, time: jiff::Timestamp::UNIX_EPOCH, chance: 0.5 };
//! assert_eq!(election.on_event(now, Event::Wake), [Command::Read]);
//! // There is no Lease yet.
//! let commands = election.on_event(now, Event::Found(Ok(None)));
//! let [Command::Create(record)] = commands.as_slice() else { panic!() };
//! assert_eq!(record.holder, "node-1_1234");
//! ```

mod driver;
mod elected;
mod election;
mod memo;
mod record;
#[cfg(test)]
mod tests;

pub use driver::{LeaseLock, identity, run};
pub use elected::Elected;
pub use election::{Command, Election, Event, Moment, Role, Settings, Unreachable};
pub use memo::Memo;
pub use record::Record;
