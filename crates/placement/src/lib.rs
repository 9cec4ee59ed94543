#![doc = include_str!("../README.md")]
//!
//! A [`Cluster`] takes nodes, pods, volumes and namespaces from an API server in any order, and follows their changes.
//! Removing an object also frees everything that only it referred to. [`Checks`] runs the filters for one pod, with
//! kube-scheduler's order and messages. [`Checks::on`] runs them as if some pods had left a node, without changing the
//! cluster.
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
    Code, DEVICES_GIVEN_UP, DEVICES_GO_ON, Filter, FreedClaims, Here, Reason, Rejection,
    device_choices, has_claims, left_over_claim, share_claims_of_group, shared_claims,
    unavailable_claim, volume_choices,
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
