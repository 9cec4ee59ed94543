//! Could this pod be on that node, and if not, what is in the way? A cluster as dense integers, and one file a filter.
//!
//! A [`Cluster`] takes nodes, pods, volumes and namespaces as they come from an API server, in any order, takes their
//! changes, and forgets those that are removed with everything that only they referred to. [`Checks`] asks it about one
//! pod: all filters of kube-scheduler, in its order, and with its words where one says no. [`Checks::on`] tries what would
//! be if some pods left a node; that changes nothing in the cluster.
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
//! assert_eq!(checks.words(rejection), ["Insufficient cpu"]);
//! // Without the pod that is there it would fit.
//! let mut trial = checks.on(one);
//! trial.remove(0);
//! assert!(trial.fits().is_ok());
//! drop(trial);
//! drop(checks);
//!
//! // It goes, and the one that waited is asked about no more: nothing is left of both.
//! assert!(cluster.remove_pod(&pod("there", "one")?.metadata));
//! cluster.release(incoming);
//! assert_eq!((cluster.sizes().pods, cluster.sizes().templates), (0, 0));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Labels and names that repeat are [`Symbol`]s, pods made from one template share a [`Template`], and the pods of a
//! node lie side by side in the order of their importance, so that a whole cluster is asked in one pass over memory.
//! What pods offer to others is a [`Group`]: only those of their labels that some selector names, so that the pods of a
//! `StatefulSet` or a `Job` are one there, though each has a template of its own. Spread, affinity and budgets look
//! through the groups.
//! No clock, no I/O, no logging.
#![forbid(unsafe_code)]

pub mod agent;
mod attached;
mod changes;
mod checks;
mod cluster;
mod devices;
mod domains;
mod evicted;
mod features;
pub mod filter;
mod group;
mod id;
mod images;
mod interrupt;
mod labels;
mod mistake;
mod name_ranks;
mod node;
mod places;
mod plugin;
pub mod plugins;
mod pod;
mod pressure;
mod resources;
mod score;
mod selector;
mod spreaders;
mod storage;
mod symbol;
mod table;
mod template;
mod volumes;

pub use changes::Changes;
pub use checks::{Checks, Trial};
pub use cluster::{Cluster, PodSelector, Sizes, Statement};
pub use devices::DeviceChoice;
pub use domains::{Domain, Domains};
pub use evictd_pod::selector::SelectorError;
pub use features::Features;
pub use filter::{
    Code, DEVICES_GO_ON, Filter, Here, Reason, Rejection, device_choices, shared_claims,
    unavailable_claim, volume_choices,
};
pub use group::{Group, GroupId};
pub use id::NodeId;
pub use interrupt::{INTERRUPTED, Interrupt};
pub use labels::Labels;
pub use mistake::{Mistake, Wrong};
pub use node::{Node, Taint};
pub use plugin::{Chosen, MAX_SCORE, Permit, Plugin, PreFilter, Score, normalize_by_highest};
pub use pod::{Identity, NO_START, Pod};
pub use pressure::Pressure;
pub use resources::{Amounts, ScalarSums, ScalarsId, Scored};
pub use selector::{NodeSelector, Requirement, Selector};
pub use spreaders::Spreader;
pub use symbol::{Symbol, Symbols};
pub use template::{
    Claim, HostPort, Owner, PodTerm, Spread, Template, TemplateId, Toleration, Volume,
};
pub use volumes::VolumeChoice;
