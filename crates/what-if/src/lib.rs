//! The fewest and smallest changes with which a pod or a job could be placed.
//!
//! A caller implements [`Trial`]: it applies changes to a cluster, looks whether they suffice, and restores the cluster.
//! [`smallest`] asks it for ever fewer and smaller changes. With [`Propose`] the caller also names changes against each
//! obstacle, and [`alternatives`] combines them. So every answer was tried. `evictd-scheduler explain`,
//! `evictd-scheduler pending` and `evictd-batch why` search in this way.
//!
//! [`Suggestion`] is a change of one node or of the pod in question, which all of them propose.
//!
//! ```
//! use evictd_what_if::{Limits, Options, Propose, Scaled, Trial, alternatives, smallest};
//!
//! /// A pod that needs 7 cores in all, and one of two labels.
//! struct Pod;
//!
//! impl Trial for Pod {
//!     type Change = &'static str;
//!     type Obstacle = &'static str;
//!
//!     fn obstacle(&mut self, changes: &[&'static str]) -> Option<&'static str> {
//!         let cores = changes.iter().filter(|change| **change == "core").count();
//!         match changes.contains(&"gpu") || changes.contains(&"tpu") {
//!             false => Some("no label"),
//!             true if cores < 7 => Some("too few cores"),
//!             true => None,
//!         }
//!     }
//! }
//!
//! impl Propose for Pod {
//!     fn proposals(&mut self, _: &[&'static str], obstacle: &&'static str) -> Vec<Options<&'static str>> {
//!         match *obstacle {
//!             "no label" => vec![vec![vec!["ssd"], vec!["gpu"]], vec![vec!["tpu"]]],
//!             _ => vec![vec![vec!["core"; 7]]],
//!         }
//!     }
//!
//!     fn is_progress(before: &&'static str, after: &&'static str) -> bool {
//!         before != after
//!     }
//! }
//!
//! let cores = Scaled::new(100, |cores| vec!["core"; usize::try_from(cores).unwrap_or(0)]);
//! let found = smallest(&mut Pod, &[cores, Scaled::fixed("gpu"), Scaled::fixed("ssd")]);
//! assert_eq!(found.map(|changes| changes.len()), Some(8));
//!
//! let sets = alternatives(&mut Pod, Limits { changes: 3, sets: 5 });
//! assert_eq!(sets.iter().map(|set| set[0]).collect::<Vec<_>>(), ["gpu", "tpu"]);
//! ```
#![forbid(unsafe_code)]

mod alternatives;
mod search;
mod suggestion;

pub use alternatives::{Limits, Options, Propose, alternatives};
pub use search::{Scaled, Trial, smallest};
pub use suggestion::{SpreadChange, Suggestion};
