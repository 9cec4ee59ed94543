#![doc = include_str!("../README.md")]
//!
//! [`plan`] runs the filters on every node. It then removes the pods of lower priority from each node, puts back as many
//! as it can, and picks one node. It returns the candidates and the actions in order, and carries out none of them.
//! [`explain_node`] returns the steps on one node.
//!
//! No clock, no I/O, no randomness: the caller passes the offset that kube-scheduler draws at random.
#![forbid(unsafe_code)]

mod action;
mod actions;
mod budget;
mod candidate;
mod compat;
mod extender;
mod groups;
mod in_place;
mod messages;
mod pick;
mod plan;
mod replacement;
mod search;
mod units;
mod victims;

pub use action::{Action, Event};
pub use budget::{Budget, BudgetPolicy, breaking, budgets_of, within_budgets};
pub use candidate::{Candidate, NotCandidate};
pub use compat::Compat;
pub use extender::{Extender, ExtenderError, Offer};
pub use groups::{Victim, VictimGroup, VictimGroups, VictimRules};
pub use in_place::{InPlace, preempt_in_place};
pub use pick::{Rule, Why};
pub use plan::{Ineligible, Plan};
pub use replacement::{Replacement, owner, replacements};
pub use search::{Nodes, Options, PlanError, explain_node, plan, preempt};
pub use victims::Step;
