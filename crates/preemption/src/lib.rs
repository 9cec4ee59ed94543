//! Who gives way to a pod that fits nowhere, and on which node: kube-scheduler's preemption as a pure function.
//!
//! [`plan`] asks every node whether the pod fits, takes the less important pods of each off and puts back as many as it
//! can, and picks one node. It returns what it found and, in order, what a scheduler would have to do; it does nothing.
//! No clock, no I/O, no dice: where kube-scheduler throws one, the number comes in.
#![forbid(unsafe_code)]

mod action;
mod actions;
mod budget;
mod candidate;
mod extender;
mod form;
mod pick;
mod plan;
mod replacement;
mod search;
mod victims;
mod words;

pub use action::{Action, Event};
pub use budget::{Budget, BudgetPolicy, budgets_of};
pub use candidate::{Candidate, NotCandidate};
pub use extender::{Extender, ExtenderError, Offer};
pub use form::Form;
pub use pick::{Rule, Why};
pub use plan::{Ineligible, Plan};
pub use replacement::{Replacement, owner, replacements};
pub use search::{Nodes, Options, PlanError, explain_node, plan};
pub use victims::Step;
