//! The scores of kube-scheduler, one file each, compiled for one pod and the nodes that passed all filters.

pub(crate) mod devices;
pub(crate) mod image_locality;
pub(crate) mod inter_pod_affinity;
pub(crate) mod node_affinity;
pub(crate) mod resources;
pub(crate) mod taints;
pub(crate) mod topology_spread;
pub(crate) mod volume_binding;
