//! A queue of a snapshot.

use crate::session::snapshot::ids::QueueId;
use crate::session::snapshot::resource::Resource;
use evictd_batch_objects::Affinity;
use jiff::Timestamp;
use std::sync::Arc;

/// Whether a job may pass one that cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dequeue {
    Traverse,
    Fifo,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    /// A deleted queue, whose slot is reused.
    pub(crate) gone: bool,
    /// The name of the queue above it; empty for the one above all.
    pub(crate) parent_name: Box<str>,
    pub(crate) created: Option<Timestamp>,
    /// The queue above it.
    pub(crate) parent: Option<QueueId>,
    pub(crate) weight: f64,
    pub(crate) priority: i32,
    pub(crate) open: bool,
    pub(crate) reclaimable: bool,
    pub(crate) dequeue: Dequeue,
    pub(crate) capability: Option<Resource>,
    pub(crate) guarantee: Option<Resource>,
    pub(crate) deserved: Resource,
    /// `root/a/b` and the weights along it, as its annotations say (S6-128).
    pub(crate) path: Box<str>,
    pub(crate) path_weights: Box<str>,
    /// The groups of nodes that it uses or avoids.
    pub(crate) affinity: Option<Affinity>,
    /// The annotation with its limits in groups of nodes.
    pub(crate) group_limits: Option<Box<str>>,
}
