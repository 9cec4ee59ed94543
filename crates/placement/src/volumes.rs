//! What is decided about volumes for a pod that gets a node.

/// What has to be done for a claim of a pod before the pod can be bound to its node (S5-094).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeChoice {
    /// The claim gets this volume.
    Bind {
        /// The claim's name in the pod's namespace.
        claim: String,
        /// The volume.
        volume: String,
    },
    /// A volume is made for the claim, for this node.
    Provision {
        /// The claim's name in the pod's namespace.
        claim: String,
    },
}
