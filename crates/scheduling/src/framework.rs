//! A profile, ready to decide: its plugins in their order.

use evictd_placement::{Cluster, Plugin, plugins};
use std::sync::Arc;

/// A plugin that a decision asks.
pub type Shared = Arc<dyn Plugin>;

/// What is tried for a pod that fits nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostFilter {
    /// Devices that could be given back. It knows only pods that hold none.
    DynamicResources,
    /// Pods of less importance give way.
    DefaultPreemption,
}

impl PostFilter {
    /// Its name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DynamicResources => "DynamicResources",
            Self::DefaultPreemption => "DefaultPreemption",
        }
    }
}

/// The plugins of one profile, each list in the order in which it is asked.
#[derive(Clone)]
pub struct Framework {
    /// `schedulerName` of the pods that it decides about.
    pub scheduler_name: String,
    /// Asked before any node is looked at.
    pub pre_filters: Vec<Shared>,
    /// Asked about each node.
    pub filters: Vec<Shared>,
    /// Tried for a pod that fits nowhere.
    pub post_filters: Vec<PostFilter>,
    /// Score the nodes that passed, each with its weight.
    pub scores: Vec<(Shared, i64)>,
}

impl Framework {
    /// The default profile of kube-scheduler 1.36 (S5-076).
    pub fn of_default(cluster: &mut Cluster) -> Self {
        let node_affinity: Shared = Arc::new(plugins::NodeAffinity::default());
        let fit: Shared = Arc::new(plugins::NodeResourcesFit::default());
        let restrictions: Shared = Arc::new(plugins::VolumeRestrictions);
        let binding: Shared = Arc::new(plugins::VolumeBinding);
        let zone: Shared = Arc::new(plugins::VolumeZone);
        let spread: Shared = Arc::new(plugins::PodTopologySpread::of_system(cluster));
        let affinity: Shared = Arc::new(plugins::InterPodAffinity::default());
        let taints: Shared = Arc::new(plugins::TaintToleration);
        let devices: Shared = Arc::new(plugins::DynamicResources);
        let balanced: Shared = Arc::new(plugins::NodeResourcesBalancedAllocation::default());
        Self {
            scheduler_name: "default-scheduler".to_owned(),
            pre_filters: vec![
                Arc::clone(&node_affinity),
                Arc::clone(&restrictions),
                Arc::clone(&binding),
                Arc::clone(&zone),
                Arc::clone(&devices),
            ],
            filters: vec![
                Arc::new(plugins::NodeUnschedulable),
                Arc::new(plugins::NodeName),
                Arc::clone(&taints),
                Arc::clone(&node_affinity),
                Arc::new(plugins::NodePorts),
                Arc::clone(&fit),
                restrictions,
                Arc::new(plugins::NodeVolumeLimits),
                Arc::clone(&binding),
                zone,
                Arc::clone(&spread),
                Arc::clone(&affinity),
            ],
            post_filters: vec![PostFilter::DynamicResources, PostFilter::DefaultPreemption],
            scores: vec![
                (taints, 3),
                (node_affinity, 2),
                (fit, 1),
                (binding, 1),
                (spread, 2),
                (affinity, 2),
                (devices, 2),
                (balanced, 1),
                (Arc::new(plugins::ImageLocality), 1),
            ],
        }
    }
}
