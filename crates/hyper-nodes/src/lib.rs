//! Groups of nodes by their distance in the network: the objects, their tree, and their discovery by node labels.
//!
//! * [`HyperNode`] is Volcano's object. Its members are nodes, or other HyperNodes.
//! * [`Tree`] is the hierarchy of all HyperNodes. [`TreeMistake`] is a mistake in it.
//! * [`Discovery`] makes HyperNodes from the labels of nodes, and [`changes`] says which calls make a cluster agree with them.
//! * [`DiscoveryConf`] is the configuration of the discovery. [`HyperNodeMachine`] is the controller as a state machine: it keeps
//!   the discovered HyperNodes and the counts of all.
//! * [`HyperNodeCase`] runs one step of the controller on a file instead of a cluster.
//!
//! Everything here is pure: nodes and objects come in, trees and calls go out.
//!
//! ```
//! use evictd_hyper_nodes::{HyperNode, Order, Tree};
//! use evictd_pod::Node;
//!
//! let hyper_node = |name: &str, tier: i32, kind: &str, member: &str| -> HyperNode {
//!     serde_json::from_value(serde_json::json!({
//!         "metadata": {"name": name},
//!         "spec": {"tier": tier, "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}}]},
//!     }))
//!     .expect("a HyperNode")
//! };
//! let node: Node = serde_json::from_value(serde_json::json!({"metadata": {"name": "one"}}))?;
//! let rack = hyper_node("rack", 1, "Node", "one");
//! let row = hyper_node("row", 2, "HyperNode", "rack");
//!
//! let tree = Tree::build(&[&row, &rack], &[&node.metadata], Order::ByName);
//! let row = tree.find("row").expect("it is there");
//! assert!(tree.at(row).nodes.contains("one"));
//! assert_eq!(tree.at(row).children.len(), 1);
//! assert!(tree.is_ready());
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod case;
mod changes;
mod conf;
mod discovery;
mod machine;
mod object;
mod selection;
mod tree;

pub use case::{HyperNodeCase, HyperNodeOutcome, UnknownKind};
pub use changes::{Change, changes, written};
pub use conf::DiscoveryConf;
pub use discovery::{Discovered, Discovery, LabelConfig, NodeLabel};
pub use machine::{
    HyperNodeAnswer, HyperNodeCall, HyperNodeCommand, HyperNodeEvent, HyperNodeMachine,
};
pub use object::{
    ExactMatch, HyperNode, HyperNodeSpec, HyperNodeStatus, Member, MemberKind, MemberSelector,
    RegexMatch, SOURCE_LABEL,
};
pub use selection::{LONGEST_PATTERN, node_count};
pub use tree::{HyperNodeId, MOST_HYPER_NODES, Order, Tree, TreeEntry, TreeMistake};
