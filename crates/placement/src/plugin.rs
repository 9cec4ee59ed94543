//! What a plugin contributes to a decision. The built-in ones are in [`crate::plugins`]; a plugin of one's own is a type
//! with this trait.

use crate::cluster::Cluster;
use crate::filter::{Code, Filter, Here};
use crate::id::NodeId;
use crate::pod::Pod;
use crate::symbol::Symbol;
use evictd_pod::wire;
use jiff::SignedDuration;

/// What a plugin says before any node is looked at (S5-043).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreFilter {
    /// Nothing.
    Pass,
    /// Only nodes of these names have to be looked at.
    Nodes(Vec<Symbol>),
    /// No node will do, with the reason.
    Rejected(Code, String),
}

/// A pod for which a node was chosen, but which is not bound to it yet.
#[derive(Clone, Copy)]
pub struct Chosen<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The pod.
    pub pod: &'c wire::Pod,
    /// The name of its node.
    pub node: &'c str,
}

/// Whether a pod may be bound (S5-059).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Now, as far as this plugin is concerned.
    Allow,
    /// Later: the plugin is asked again whenever something changes in the cluster. After this time the pod is rejected.
    Wait(SignedDuration),
    /// Not there, with the reason.
    Reject(String),
}

/// A plugin: it may take part before the nodes are filtered, while they are, when they are scored, and from the choice of a
/// node to the binding. It decides by what it is given and by what it has reserved.
pub trait Plugin: Send + Sync {
    /// Its name in configurations and answers.
    fn name(&self) -> &str;

    /// What it says before any node is looked at.
    fn pre_filter(&self, _cluster: &Cluster, _pod: &Pod) -> PreFilter {
        PreFilter::Pass
    }

    /// Its filter, compiled for one pod; `None` where it has nothing to check.
    fn filter(&self, _cluster: &Cluster, _pod: &Pod) -> Option<Box<dyn Filter>> {
        None
    }

    /// Its score, compiled for one pod and the nodes that passed all filters; `None` where it leaves the choice to others.
    fn score(&self, _cluster: &Cluster, _pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        None
    }

    /// Sets aside what the pod needs on its node. Of a gang each pod is asked about while the gang is tried, and what was set
    /// aside is given back if it does not fit.
    ///
    /// # Errors
    /// The reason why that is not possible. Then every plugin that reserves is asked to give back what it has (S5-058).
    fn reserve(&self, _chosen: Chosen<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Gives back what was set aside, if anything was: the pod does not get this node.
    fn unreserve(&self, _chosen: Chosen<'_>) {}

    /// Whether the pod may be bound. Of a gang one that waits has all wait, and one that is rejected then takes all with it.
    fn permit(&self, _chosen: Chosen<'_>) -> Permit {
        Permit::Allow
    }

    /// The last look before the pod is bound.
    ///
    /// # Errors
    /// The reason why it must not be. It is tried again later.
    fn pre_bind(&self, _chosen: Chosen<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// The highest normalized score of a node.
pub const MAX_SCORE: i64 = 100;

/// How well a node suits a pod, for one pod and the nodes that are to be compared.
pub trait Score: Send + Sync {
    /// The score of a node in a unit of its own.
    fn raw(&self, here: Here<'_>) -> i64;

    /// Whether the score of a node depends on nothing but that node, so that it may be kept while the rest of the cluster
    /// changes.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether [`Score::normalize`] leaves scores as they are.
    fn is_normal(&self) -> bool {
        false
    }

    /// Turns the scores of all nodes, in the order in which they were given, into ones from 0 to [`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// Scales scores so that the highest becomes [`MAX_SCORE`]; with `reverse` the highest becomes 0.
pub fn normalize_by_highest(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0).max(0);
    for score in scores {
        let scaled = if highest == 0 {
            0
        } else {
            MAX_SCORE * *score / highest
        };
        *score = if reverse { MAX_SCORE - scaled } else { scaled };
    }
}
