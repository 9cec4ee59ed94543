//! The usage of a node by its pods, as far as it is known.
//!
//! Each [`figure::Figure`] carries its unit, its source, its moment and whether it is complete. A figure that is not
//! known is `None`, never zero. [`Usage`] has the figures of all pods, [`Summary`] reads them from a kubelet's
//! statistics, [`Growth`] compares two readings, and [`Stalls`] says which pods wait.
//!
//! ```
//! use evictd_usage::{PodUsage, figure::Figure};
//!
//! let known = PodUsage { working_set: Some(Figure::bytes(900 << 20)), ..PodUsage::default() };
//! assert_eq!(known.working_set.map(|figure| figure.value), Some(900 << 20));
//! assert_eq!(known.swap, None);
//! ```
#![forbid(unsafe_code)]

pub mod figure;
mod growth;
mod need;
mod stalls;
mod summary;
mod usage;

pub use growth::Growth;
pub use need::UsageNeed;
pub use stalls::{GroupStall, StallCause, Stalls};
pub use summary::Summary;
pub use usage::{
    ContainerUsage, DeletedUsage, Extent, FsUsage, LargestDirectories, LargestDirectory, PodUsage,
    Usage, VolumeUsage,
};
