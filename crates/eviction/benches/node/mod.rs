//! The node that the kubelet's own figures were taken on: two containers a pod, QoS in turn, eight priorities, an
//! emptyDir with a limit, figures of every pod.

use evictd_pod::Pod;
use evictd_usage::{ContainerUsage, FsUsage, PodUsage, Usage, VolumeUsage, figure::Figure};

const MIB: i64 = 1 << 20;

/// A node full of pods.
pub(crate) struct Node {
    /// The pods.
    pub(crate) pods: Vec<Pod>,
    /// What they use.
    pub(crate) usage: Usage,
}

/// A number that looks random but is the same in every run.
fn scattered(seed: usize) -> i64 {
    let mut bits = (seed as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    i64::try_from((bits ^ (bits >> 31)) % 1000).unwrap_or(0)
}

impl Node {
    /// With that many pods.
    pub(crate) fn new(pods: usize) -> Self {
        Self {
            pods: (0..pods).map(pod).collect(),
            usage: (0..pods).map(|index| Some(usage(index))).collect(),
        }
    }
}

fn pod(index: usize) -> Pod {
    let requests = r#""requests":{"cpu":"100m","memory":"200Mi","ephemeral-storage":"100Mi"}"#;
    let limits = r#""limits":{"cpu":"100m","memory":"200Mi","ephemeral-storage":"2Gi"}"#;
    let resources = match index % 3 {
        0 => String::new(),
        1 => requests.to_owned(),
        _ => format!("{requests},{limits}"),
    };
    let container = |name: &str| format!(r#"{{"name":"{name}","resources":{{{resources}}}}}"#);
    let json = format!(
        r#"{{"metadata":{{"namespace":"default","name":"pod-{index:05}","uid":"00000000-0000-0000-0000-{index:012}"}},
            "spec":{{"priority":{},"containers":[{},{}],"volumes":[{{"name":"cache","emptyDir":{{"sizeLimit":"1Gi"}}}}]}}}}"#,
        index % 8 * 1000,
        container("app"),
        container("sidecar"),
    );
    Pod::from_wire(serde_json::from_str(&json).expect("a pod"))
}

fn usage(index: usize) -> PodUsage {
    let files = |seed: usize| FsUsage {
        bytes: Some(Figure::bytes(scattered(index * 7 + seed) * MIB / 10)),
        inodes: Some(Figure::inodes(scattered(index * 7 + seed))),
        ..FsUsage::default()
    };
    let container = |name: &str, seed: usize| ContainerUsage {
        name: name.to_owned(),
        working_set: Some(Figure::bytes(scattered(index * 7 + seed) * MIB / 2)),
        rootfs: files(seed),
        logs: files(seed + 2),
        directories: None,
    };
    PodUsage {
        working_set: Some(Figure::bytes(scattered(index) * MIB)),
        processes: Some(Figure::processes(scattered(index))),
        ephemeral_storage: Some(Figure::bytes(scattered(index) * MIB)),
        containers: vec![container("app", 1), container("sidecar", 2)],
        volumes: vec![VolumeUsage {
            name: "cache".to_owned(),
            usage: files(5),
            directories: None,
        }],
        ..PodUsage::default()
    }
}
