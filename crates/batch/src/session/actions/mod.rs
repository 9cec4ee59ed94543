//! The actions of a session, one file each.

mod admission;
mod allocate;
mod backfill;
mod domain_placement;
mod enqueue;
mod preempt;
mod reclaim;
mod starving;
mod victims;
