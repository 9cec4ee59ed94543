//! kube-scheduler's preemption as a pure function: the victims and the node for a pod that fits on no node.
//!
//! [`plan`] runs the filters on every node. It then removes the pods of lower priority from each node, puts back as many
//! as it can, and picks one node. It returns the candidates and the actions in order, and carries out none of them.
//! [`explain_node`] returns the steps on one node.
//!
//! ```
//! use evictd_placement::Cluster;
//! use evictd_pod::{Node, wire};
//! use evictd_preemption::{Options, VictimRules, plan};
//!
//! let mut cluster = Cluster::new();
//! let node = r#"{"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}"#;
//! let node: Node = serde_json::from_str(node)?;
//! assert!(cluster.add_node(&node));
//! let pod = |name: &str, node: &str, priority: i32| -> serde_json::Result<wire::Pod> {
//!     let container = r#"{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}"#;
//!     let spec = format!(r#"{{"nodeName": "{node}", "priority": {priority}, "containers": [{container}]}}"#);
//!     serde_json::from_str(&format!(r#"{{"metadata": {{"name": "{name}"}}, "spec": {spec}}}"#))
//! };
//! cluster.add_pod(pod("batch", "one", 0)?).expect("a good pod");
//! let web = cluster.pod(pod("web", "", 1000)?).expect("a good pod");
//!
//! // No budgets, no groups, no extenders, and no victim waits to be bound.
//! let found = plan(&cluster, VictimRules::default(), &web, Options::default(), &mut [], &|_| false).expect("there is a node");
//! let choice = found.choice().expect("it can be freed");
//! let victims = found.victims(choice).iter();
//! let names: Vec<_> = victims.map(|victim| cluster.full_name(victim.pod(&cluster))).collect();
//! assert_eq!(names, ["default/batch"]);
//! # Ok::<(), serde_json::Error>(())
//! ```
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
pub use budget::{Budget, BudgetPolicy, breaking, budgets_of};
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
