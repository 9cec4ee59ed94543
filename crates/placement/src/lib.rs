//! kube-scheduler's filters and scores over a cluster that is stored as dense integers.
//!
//! A [`Cluster`] takes nodes, pods, volumes and namespaces from an API server in any order, and follows their changes.
//! Removing an object also frees everything that only it referred to. [`Checks`] runs the filters for one pod, with
//! kube-scheduler's order and messages. [`Checks::on`] runs them as if some pods had left a node, without changing the
//! cluster.
//!
//! ```
//! use evictd_placement::{Checks, Cluster};
//! use evictd_pod::{Node, wire};
//!
//! let mut cluster = Cluster::new();
//! let node = r#"{"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}"#;
//! let node: Node = serde_json::from_str(node)?;
//! assert!(cluster.add_node(&node));
//! let pod = |name: &str, node: &str| -> serde_json::Result<wire::Pod> {
//!     let container = r#"{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}"#;
//!     serde_json::from_str(&format!(
//!         r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"nodeName": "{node}", "containers": [{container}]}}}}"#
//!     ))
//! };
//! cluster.add_pod(pod("there", "one")?).expect("a good pod");
//!
//! let incoming = cluster.pod(pod("incoming", "")?).expect("a good pod");
//! let one = cluster.find_node("one").expect("it was added");
//! let mut checks = Checks::new(&cluster, &incoming);
//! let rejection = checks.fits(one).expect_err("too little cpu is free");
//! assert_eq!(checks.messages(rejection), ["Insufficient cpu"]);
//! // Without the running pod it fits.
//! let mut trial = checks.on(one);
//! trial.remove(0);
//! assert!(trial.fits().is_ok());
//! drop(trial);
//! drop(checks);
//!
//! // Removing one pod and releasing the other frees everything that they referred to.
//! assert!(cluster.remove_pod(&pod("there", "one")?.metadata));
//! cluster.release(incoming);
//! assert_eq!((cluster.sizes().pods, cluster.sizes().templates), (0, 0));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Repeated labels and names are [`Symbol`]s, and pods with an equal spec share a [`Template`]. A node stores its pods
//! side by side in order of importance, so that filtering a cluster is one pass over memory. Spread constraints,
//! affinity and budgets visit [`Group`]s. A group keeps only labels that some selector names. The pods of a
//! `StatefulSet` or `Job` therefore share a group, though each has its own template. No clock, no I/O, no logging.
#![forbid(unsafe_code)]

pub mod agent;
mod attached;
mod changes;
mod checks;
mod cluster;
mod cost;
mod devices;
mod domains;
mod evicted;
mod extended_requests;
mod extended_resources;
mod features;
pub mod filter;
mod group;
mod id;
mod images;
mod interrupt;
mod invalid_object;
mod labels;
mod name_ranks;
mod node;
mod plugin;
pub mod plugins;
mod pod;
mod pod_terms;
mod pressure;
mod resources;
mod score;
mod selector;
mod spread_sources;
mod storage;
mod symbol;
mod table;
mod template;
mod topology;
mod volumes;

pub use changes::Changes;
pub use checks::{Checks, Trial};
pub use cluster::{Cluster, PodSelector, Sizes, Statement};
pub use cost::estimated_cost;
pub use devices::DeviceChoice;
pub use domains::{Domain, Domains};
pub use evictd_pod::selector::SelectorError;
pub use extended_requests::ExtendedRequests;
pub use extended_resources::SPECIAL_CLAIM;
pub use features::Features;
pub use filter::{
    Code, DEVICES_GIVEN_UP, DEVICES_GO_ON, Filter, Here, Reason, Rejection, device_choices,
    has_claims, left_over_claim, shared_claims, unavailable_claim, volume_choices,
};
pub use group::{Group, GroupId};
pub use id::NodeId;
pub use interrupt::{Ended, INTERRUPTED, Interrupt};
pub use invalid_object::{InvalidField, InvalidObject};
pub use labels::Labels;
pub use node::{Node, Taint};
pub use plugin::{Chosen, MAX_SCORE, Permit, Plugin, PreFilter, Score, normalize_by_highest};
pub use pod::{Identity, NO_START, Pod};
pub use pressure::Pressure;
pub use resources::{Amounts, ScalarSums, ScalarsId, Scored};
pub use selector::{NodeSelector, Requirement, Selector};
pub use spread_sources::SpreadSource;
pub use symbol::{Symbol, Symbols};
pub use template::{
    Claim, HostPort, Owner, PodTerm, Spread, Template, TemplateId, Toleration, Volume,
};
pub use volumes::VolumeChoice;
