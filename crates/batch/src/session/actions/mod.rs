//! What a session does, one file an action.

mod allocate;
mod backfill;
mod confined;
mod enqueue;
mod placing;
mod preempt;
mod reclaim;
mod taking;
mod victims;
