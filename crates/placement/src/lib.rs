//! Could this pod be on that node, and if not, what is in the way? A cluster as dense integers, and one file a filter.
//!
//! Labels and names that repeat are [`Symbol`]s, pods made from one template share a [`Template`], and the pods of a
//! node lie side by side in the order of their importance, so that a whole cluster is asked in one pass over memory.
//! No clock, no I/O, no logging.
#![forbid(unsafe_code)]

mod checks;
mod cluster;
pub mod filter;
mod labels;
mod mistake;
mod node;
mod pod;
mod resources;
mod selector;
mod storage;
mod symbol;
mod template;

pub use checks::{Checks, Trial};
pub use cluster::Cluster;
pub use evictd_pod::selector::SelectorError;
pub use filter::{Code, Reason, Rejection};
pub use labels::Labels;
pub use mistake::Mistake;
pub use node::{Node, NodeId, Taint};
pub use pod::{Identity, NO_START, Pod};
pub use resources::{Amounts, ScalarsId};
pub use selector::{NodeSelector, Requirement, Selector};
pub use symbol::{Symbol, Symbols};
pub use template::{
    Claim, HostPort, Owner, PodTerm, Spread, Template, TemplateId, Toleration, Volume,
};
