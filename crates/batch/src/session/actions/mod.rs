//! The actions of a session, one file each.

mod admission;
mod allocate;
mod backfill;
mod domain_placement;
mod enqueue;
mod preempt;
mod reclaim;
mod starving;
mod task_placement;
mod victims;

pub(crate) use allocate::allocate;
pub(crate) use backfill::backfill;
pub(crate) use enqueue::enqueue;
pub(crate) use preempt::preempt;
pub(crate) use reclaim::reclaim;
