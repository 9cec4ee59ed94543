//! The volumes that a pod gets with its node.

/// The update of a claim before its pod can be bound (S5-094).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeChoice {
    /// Bind the claim to this volume.
    Bind {
        /// The claim's name in the pod's namespace.
        claim: String,
        /// The volume.
        volume: String,
    },
    /// Provision a volume for the claim on the chosen node.
    Provision {
        /// The claim's name in the pod's namespace.
        claim: String,
    },
}
