//! The plugin trait: what a plugin contributes to a scheduling decision. The built-in plugins are in
//! [`crate::plugins`]; your own plugin is a type that implements the trait.

use crate::cluster::Cluster;
use crate::filter::{Code, Filter, Here};
use crate::id::NodeId;
use crate::pod::Pod;
use crate::symbol::Symbol;
use evictd_pod::wire;
use jiff::SignedDuration;

/// The result of `PreFilter` (S5-043).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreFilter {
    /// No restriction.
    Pass,
    /// Only the nodes of these names are filtered.
    Nodes(Vec<Symbol>),
    /// No node fits, with the reason.
    Rejected(Code, String),
}

/// A pod whose node is chosen but that is not bound yet.
#[derive(Clone, Copy)]
pub struct Chosen<'c> {
    /// The cluster.
    pub cluster: &'c Cluster,
    /// The pod.
    pub pod: &'c wire::Pod,
    /// The name of its node.
    pub node: &'c str,
}

/// The result of Permit (S5-059).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// This plugin permits the binding.
    Allow,
    /// The plugin is asked again whenever the cluster changes. After this time the pod is rejected.
    Wait(SignedDuration),
    /// The pod is rejected, with the reason.
    Reject(String),
}

/// A scheduling plugin. It may implement `PreFilter`, Filter, Score, Reserve, Permit and `PreBind`. It decides by its
/// arguments and by its own reservations.
pub trait Plugin: Send + Sync {
    /// Its name in configurations and messages.
    fn name(&self) -> &str;

    /// Runs before any node is filtered.
    fn pre_filter(&self, _cluster: &Cluster, _pod: &Pod) -> PreFilter {
        PreFilter::Pass
    }

    /// Compiles its filter for a pod; `None` if there is nothing to check.
    fn filter(&self, _cluster: &Cluster, _pod: &Pod) -> Option<Box<dyn Filter>> {
        None
    }

    /// Compiles its score for a pod and the nodes that passed all filters; `None` if all nodes score the same.
    fn score(&self, _cluster: &Cluster, _pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        None
    }

    /// Reserves what the pod needs on its node. For a gang it is called for each pod while the gang is tried, and
    /// undone if the gang does not fit.
    ///
    /// # Errors
    /// Why the reservation is impossible. `unreserve` is then called on all plugins that implement it (S5-058).
    fn reserve(&self, _chosen: Chosen<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Undoes a reservation, if there is one, because the pod does not get this node.
    fn unreserve(&self, _chosen: Chosen<'_>) {}

    /// Whether the pod may be bound. In a gang one waiting pod delays all, and one rejected pod rejects all.
    fn permit(&self, _chosen: Chosen<'_>) -> Permit {
        Permit::Allow
    }

    /// Runs last before the pod is bound.
    ///
    /// # Errors
    /// Why it must not be bound. The pod is tried again later.
    fn pre_bind(&self, _chosen: Chosen<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// The highest normalized score of a node.
pub const MAX_SCORE: i64 = 100;

/// Scores nodes for one pod, compiled for the nodes to compare.
pub trait Score: Send + Sync {
    /// The score of a node on the plugin's own scale.
    fn raw(&self, here: Here<'_>) -> i64;

    /// Whether a node's score depends only on that node, so that it can be cached while other nodes change.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether [`Score::normalize`] changes nothing.
    fn is_normal(&self) -> bool {
        false
    }

    /// Normalizes the scores of all nodes to the range from 0 to [`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// Scales scores so that the highest becomes [`MAX_SCORE`], or 0 with `reverse`.
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
