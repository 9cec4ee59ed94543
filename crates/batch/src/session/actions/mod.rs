//! The actions of a session, one file each.

mod admission;
mod allocate;
mod backfill;
mod bundles;
mod domain_placement;
mod enqueue;
mod gang_evict;
mod group_placement;
mod hardest_first;
mod preempt;
mod reclaim;
mod shuffle;
mod starving;
mod task_placement;
mod victims;

pub(crate) use allocate::{allocate, allocate_nominated};
pub(crate) use backfill::backfill;
pub(crate) use enqueue::enqueue;
pub(crate) use gang_evict::{gang_preempt, gang_reclaim};
pub(crate) use preempt::preempt;
pub(crate) use reclaim::reclaim;
pub(crate) use shuffle::shuffle;
