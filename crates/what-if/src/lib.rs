//! The fewest and smallest changes with which a pod or a job could be placed.
//!
//! A caller implements [`Trial`]: it applies changes to a cluster, looks whether they suffice, and restores the cluster. The
//! search asks it for ever fewer and smaller changes. So every answer was tried. `evictd-scheduler explain`,
//! `evictd-scheduler pending` and `evictd-batch why` search in this way.
//!
//! [`Suggestion`] is a change of one node or of the pod in question, which all of them propose.
//!
//! ```
//! use evictd_what_if::{Scaled, Trial, least, necessary, smallest};
//!
//! /// A pod that needs 7 cores in all and the label `gpu`.
//! struct Pod;
//!
//! impl Trial for Pod {
//!     type Change = &'static str;
//!     type Obstacle = &'static str;
//!
//!     fn obstacle(&mut self, changes: &[&'static str]) -> Option<&'static str> {
//!         let cores = changes.iter().filter(|change| **change == "core").count();
//!         match changes.contains(&"gpu") {
//!             false => Some("no label"),
//!             true if cores < 7 => Some("too few cores"),
//!             true => None,
//!         }
//!     }
//! }
//!
//! let changes = |cores: i64| {
//!     let cores = (0..cores).map(|_| "core");
//!     cores.chain(["gpu", "ssd"]).collect::<Vec<_>>()
//! };
//! assert_eq!(least(&mut Pod, (0, 100), changes), 7);
//! let needed = necessary(&mut Pod, changes(7), <[&str]>::to_vec);
//! assert!(!needed.contains(&"ssd"));
//!
//! let cores = Scaled::new(100, |cores| vec!["core"; usize::try_from(cores).unwrap_or(0)]);
//! let found = smallest(&mut Pod, &[cores, Scaled::fixed("gpu"), Scaled::fixed("ssd")]);
//! assert_eq!(found.map(|changes| changes.len()), Some(8));
//! ```
#![forbid(unsafe_code)]

mod search;
mod suggestion;

pub use search::{Scaled, Trial, least, necessary, one_by_one, smallest, step_by_step};
pub use suggestion::{SpreadChange, Suggestion};
