//! Objects of other parts of the cluster that single plugins read.

use super::numa::Numa;
use crate::session::extender_calls::ExtenderCalls;
use evictd_batch_objects::NodeMetrics;
use evictd_pod::wire::{ResourceList, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The quota of a namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Quota {
    pub(crate) hard: ResourceList,
    pub(crate) used: ResourceList,
}

/// A disruption budget.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) namespace: Box<str>,
    pub(crate) selector: Selector,
    pub(crate) allowed: i32,
    /// Pods whose disruption it counts already.
    pub(crate) disrupted: BTreeSet<Box<str>>,
}

/// Such objects, by `namespace/name` or by the name of their node.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// By namespace, then by name.
    pub(crate) quotas: BTreeMap<Box<str>, BTreeMap<Box<str>, Quota>>,
    pub(crate) budgets: BTreeMap<Arc<str>, Budget>,
    pub(crate) node_metrics: BTreeMap<Box<str>, NodeMetrics>,
    pub(crate) numa: Numa,
    /// The port to the server of plugin extender; without it the plugin is left out.
    pub(crate) extender: Option<Arc<dyn ExtenderCalls>>,
}
