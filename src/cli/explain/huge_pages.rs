//! Memory that is set aside as huge pages, which kubelets before 1.37 count as available (S7-280).

use evictd_node_config::Kind;
use evictd_pod::Node;
use evictd_signals::{Signal, human_bytes};
use evictd_usage::Summary;

/// The first version whose summary leaves huge pages out.
const LEFT_OUT_SINCE: (u32, u32) = (1, 37);

/// The figure of memory that decides.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemoryFigure {
    /// The summary's, which leaves the huge pages out already.
    LeavesOut(i64),
    /// The summary's less the huge pages.
    Less(i64),
    /// The summary's, for a kubelet that counts the huge pages as available; and the rest without them.
    Counts { huge_pages: i64, really: i64 },
}

/// Subtracts the Node's huge pages from the available memory. It does not if the summary leaves them out already, or if
/// the kubelet that decides counts them. `None`: there are no huge pages, or no figure of memory.
pub(super) fn subtract(summary: &mut Summary, node: &Node, kind: Kind) -> Option<MemoryFigure> {
    let huge_pages = node.status.huge_pages();
    let seen = summary.observations();
    let memory = seen
        .get(Signal::MemoryAvailable)
        .filter(|_| huge_pages > 0)?;
    let left_out = if let Some(version) = node.status.node_info.kubelet() {
        version >= LEFT_OUT_SINCE
    } else {
        // The version may be hidden. A kubelet that leaves them out reports a smaller capacity.
        let capacity = node.status.capacity.get("memory");
        let without = capacity.map(|all| all.value().saturating_sub(huge_pages));
        without.is_some_and(|without| memory.capacity <= without)
    };
    Some(match kind {
        _ if left_out => MemoryFigure::LeavesOut(huge_pages),
        Kind::Evictd => {
            summary.subtract_huge_pages(huge_pages);
            MemoryFigure::Less(huge_pages)
        }
        Kind::Kubelet => MemoryFigure::Counts {
            huge_pages,
            really: memory.available.saturating_sub(huge_pages).max(0),
        },
    })
}

impl std::fmt::Display for MemoryFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LeavesOut(bytes) => write!(
                f,
                "memory.available is the summary's figure, which leaves out {} of huge pages",
                human_bytes(*bytes)
            ),
            Self::Less(bytes) => write!(
                f,
                "memory.available is the summary's figure less {} of huge pages (hugepages-* of the Node)",
                human_bytes(*bytes)
            ),
            Self::Counts { huge_pages, really } => write!(
                f,
                "memory.available is the kubelet's figure, which counts {} of huge pages as available before 1.37; without them {} is left",
                human_bytes(*huge_pages),
                human_bytes(*really)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GI: i64 = 1 << 30;

    /// Of 64Gi with 32Gi of huge pages 31Gi are used.
    fn summary(available: i64) -> Summary {
        let memory = json!({ "availableBytes": available * GI, "workingSetBytes": 31 * GI });
        let pods = json!({ "name": "pods", "memory": memory });
        let node = json!({ "memory": memory, "systemContainers": [pods] });
        serde_json::from_value(json!({ "node": node })).unwrap()
    }

    fn node(version: &str, huge_pages: &str) -> Node {
        let status = json!({
            "capacity": { "memory": "64Gi", "hugepages-1Gi": huge_pages },
            "nodeInfo": { "kubeletVersion": version },
        });
        serde_json::from_value(json!({ "status": status })).unwrap()
    }

    #[test]
    fn s7_280_by_which_figure_it_is_decided() {
        use Kind::{Evictd, Kubelet};
        let (less, left_out) = (
            MemoryFigure::Less(32 * GI),
            MemoryFigure::LeavesOut(32 * GI),
        );
        let counts = MemoryFigure::Counts {
            huge_pages: 32 * GI,
            really: GI,
        };
        // What the summary has available, the kubelet's version, the rules; what is available then.
        let table = [
            (33, "v1.36.2", Evictd, less, 1),
            (33, "v1.36.2", Kubelet, counts, 33),
            (1, "v1.37.0", Evictd, left_out, 1),
            (1, "v1.37.0", Kubelet, MemoryFigure::LeavesOut(32 * GI), 1),
            (33, "", Evictd, MemoryFigure::Less(32 * GI), 1),
            (1, "", Evictd, MemoryFigure::LeavesOut(32 * GI), 1),
        ];
        for (available, version, kind, expected, left) in table {
            let mut summary = summary(available);
            let found = subtract(&mut summary, &node(version, "32Gi"), kind);
            let case = format!("{available} {version} {}", kind.as_str());
            assert_eq!(found, Some(expected), "{case}");
            let seen = summary.observations();
            for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
                assert_eq!(
                    seen.get(signal).unwrap().available,
                    left * GI,
                    "{case} {signal}"
                );
            }
        }
        let mut none = summary(33);
        assert_eq!(subtract(&mut none, &node("v1.36.2", "0"), Evictd), None);
        let mut nothing = Summary::default();
        assert_eq!(
            subtract(&mut nothing, &node("v1.36.2", "32Gi"), Evictd),
            None
        );
    }

    #[test]
    fn a_limit_of_the_pods_own_leaves_huge_pages_out_already() {
        let mut summary = summary(33);
        let pods = json!({ "availableBytes": 9 * GI, "workingSetBytes": 22 * GI });
        summary.node.system_containers[0] =
            serde_json::from_value(json!({ "name": "pods", "memory": pods })).unwrap();
        subtract(&mut summary, &node("v1.36.2", "32Gi"), Kind::Evictd);
        let seen = summary.observations();
        let pods = seen.get(Signal::AllocatableMemoryAvailable).unwrap();
        assert_eq!(pods.available, 9 * GI);
    }
}
