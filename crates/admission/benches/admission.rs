//! How long it takes to choose the victims for a critical pod: the real kubelet needs 1.9 ms with 110 pods and
//! 110 ms with 1000 for the same work (two resources, about a quarter of the pods go).

use divan::{Bencher, black_box};
use evictd_admission::critical::{Need, victims};
use evictd_pod::{Pod, wire};

fn main() {
    divan::main();
}

/// Spreads an index over all bits, so that requests vary without a random source.
fn spread(index: u64) -> u64 {
    let mixed = (index ^ (index >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

/// Two containers, QoS classes in turn: nothing promised, requests only, limits equal to requests.
fn pod(index: u64) -> Pod {
    let container = |number: u64| {
        let hash = spread(index * 2 + number + 1);
        let (cpu, memory) = (50 * (1 + hash % 8), 64 * (1 + (hash >> 8) % 8));
        let amounts =
            format!(r#"{{"cpu":"{cpu}m","memory":"{memory}Mi","ephemeral-storage":"1Gi"}}"#);
        match index % 3 {
            0 => "{}".to_owned(),
            1 => format!(r#"{{"resources":{{"requests":{amounts}}}}}"#),
            _ => format!(r#"{{"resources":{{"requests":{amounts},"limits":{amounts}}}}}"#),
        }
    };
    let json = format!(
        r#"{{"metadata":{{"name":"pod-{index}"}},"spec":{{"priority":0,"containers":[{},{}]}}}}"#,
        container(0),
        container(1)
    );
    let pod: Result<wire::Pod, _> = serde_json::from_str(&json);
    Pod::from_wire(pod.unwrap_or_default())
}

#[divan::bench(args = [(110, 2), (1000, 2), (110, 3), (1000, 3)])]
fn half_of_the_node(bencher: Bencher<'_, '_>, (pods, resources): (i64, usize)) {
    let mut critical = pod(0);
    critical.critical = Some(evictd_pod::Critical::Priority);
    let needs: Vec<Need> = [
        ("cpu", pods * 120),
        ("memory", pods * (160 << 20)),
        ("ephemeral-storage", pods * (400 << 20)),
    ]
    .into_iter()
    .take(resources)
    .map(|(resource, amount)| Need {
        resource: resource.to_owned(),
        amount,
    })
    .collect();
    let pods: Vec<Pod> = (0..pods.unsigned_abs()).map(pod).collect();
    bencher.bench(|| victims(black_box(&critical), black_box(&pods), black_box(&needs)));
}
