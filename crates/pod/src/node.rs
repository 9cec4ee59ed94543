//! The Node object in dumps and API answers, with only the fields that are used.

use crate::compatibility::Release;
use crate::toleration;
use crate::wire::{Condition, Metadata, ResourceList, Taint, Toleration, null_is_default};
use jiff::Timestamp;
use serde::Deserialize;

/// A v1 Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// `Node`, where given.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
    /// Name and labels.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: NodeSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// Taints, which keep pods away that do not tolerate them.
    #[serde(deserialize_with = "null_is_default")]
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned: no new pod is placed on it.
    #[serde(deserialize_with = "null_is_default")]
    pub unschedulable: bool,
    /// Which pods may be preempted for others on it.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_preemption_policy: PodPreemptionPolicy,
}

/// `spec.podPreemptionPolicy` of a node, since Kubernetes 1.37.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodPreemptionPolicy {
    /// The components that forbid preemption for deferred resizes (S7-241).
    #[serde(deserialize_with = "null_is_default")]
    pub disable_resize_preemption: Vec<String>,
}

/// `status` of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// The amounts that the node has, reserved ones included.
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: ResourceList,
    /// Versions of its software.
    #[serde(deserialize_with = "null_is_default")]
    pub node_info: NodeInfo,
    /// The amounts that pods may request in all.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: ResourceList,
    /// `Ready`, `MemoryPressure` and the others.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// Optional features of its kubelet that pods may need.
    #[serde(deserialize_with = "null_is_default")]
    pub declared_features: Vec<String>,
    /// Container images on the node.
    #[serde(deserialize_with = "null_is_default")]
    pub images: Vec<NodeImage>,
}

/// `status.nodeInfo` of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeInfo {
    /// Such as `v1.36.2`.
    #[serde(deserialize_with = "null_is_default")]
    pub kubelet_version: String,
}

impl NodeInfo {
    /// Major and minor version of the kubelet; `None` if they are not known.
    pub fn kubelet(&self) -> Option<(u32, u32)> {
        let version = self.kubelet_version.strip_prefix('v')?;
        let mut parts = version.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// The release of the kubelet; the default one if its version is not known.
    pub fn release(&self) -> Release {
        self.kubelet()
            .map_or_else(Release::default, |(major, minor)| {
                Release::of_version(major, minor)
            })
    }
}

impl NodeStatus {
    /// Memory that is set aside as huge pages, of all sizes, in bytes.
    pub fn huge_pages(&self) -> i64 {
        let sizes = self.capacity.iter();
        let sizes = sizes.filter(|(name, _)| name.starts_with("hugepages-"));
        sizes.fold(0_i64, |sum, (_, quantity)| {
            sum.saturating_add(quantity.value())
        })
    }
}

/// A container image on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeImage {
    /// Its names, with tags and digests.
    #[serde(deserialize_with = "null_is_default")]
    pub names: Vec<String>,
    /// Bytes.
    #[serde(deserialize_with = "null_is_default")]
    pub size_bytes: i64,
}

/// A lease of `coordination.k8s.io/v1`; each node has one of its name, which its kubelet renews every 10 s.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Its name is the node's.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// Its holder, and when it was renewed.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: LeaseSpec,
}

/// `spec` of a lease.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// When it was last renewed.
    pub renew_time: Option<Timestamp>,
}

impl Taint {
    /// Whether any of these tolerates it.
    pub fn is_tolerated(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| {
            let toleration = toleration::Toleration::new(toleration, &mut |text| text);
            toleration
                .is_some_and(|toleration| toleration.covers(&self.key, &self.value, &self.effect))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_and_the_kubelets_version() {
        let status: NodeStatus = serde_json::from_str(
            r#"{"capacity":{"memory":"64Gi","hugepages-1Gi":"32Gi","hugepages-2Mi":"4Mi"},
                "nodeInfo":{"kubeletVersion":"v1.37.0-rc.1+k3s1"}}"#,
        )
        .unwrap();
        assert_eq!(status.huge_pages(), (32 << 30) + (4 << 20));
        assert_eq!(status.node_info.kubelet(), Some((1, 37)));
        for unknown in ["", "v1", "1.37.0", "vx.37.1"] {
            let kubelet_version = unknown.to_owned();
            assert_eq!(NodeInfo { kubelet_version }.kubelet(), None, "{unknown}");
        }
        assert_eq!(NodeStatus::default().huge_pages(), 0);
    }

    #[test]
    fn which_taints_a_toleration_covers() {
        let taint: Taint =
            serde_json::from_str(r#"{"key":"k","value":"v","effect":"NoExecute"}"#).unwrap();
        let table = [
            (r#"{"operator":"Exists"}"#, true),
            (r#"{"key":"k","operator":"Exists"}"#, true),
            (r#"{"key":"k","value":"v"}"#, true),
            (r#"{"key":"k","operator":"Equal","value":"v"}"#, true),
            (r#"{"key":"k","value":"w"}"#, false),
            (r#"{"key":"other","operator":"Exists"}"#, false),
            (r#"{"operator":"Exists","effect":"NoExecute"}"#, true),
            (r#"{"operator":"Exists","effect":"NoSchedule"}"#, false),
            (r#"{"key":"k","operator":"Sometimes","value":"v"}"#, false),
        ];
        for (toleration, tolerated) in table {
            let tolerations = [serde_json::from_str(toleration).unwrap()];
            assert_eq!(taint.is_tolerated(&tolerations), tolerated, "{toleration}");
        }
        assert!(!taint.is_tolerated(&[]));
    }
}
