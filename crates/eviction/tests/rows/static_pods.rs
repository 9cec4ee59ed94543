//! Static pods, which the kubelet never evicts.

use crate::node::{MI, evictd, kubelet, memory, pod_with, ranking};
use evictd_eviction::{Rules, rules::PodSelection};
use evictd_signals::Signal;
use serde_json::{Value, json};

const MEMORY: Signal = Signal::MemoryAvailable;

#[test]
fn s1_046_static_pods_go_like_others_where_that_is_chosen_and_critical_ones_never() {
    let of = |name: &str, annotation: &str, labels: Value, priority: i32| {
        let annotations = json!({ annotation: "file" });
        let metadata = json!({ "annotations": annotations, "labels": labels });
        pod_with(name, &metadata, &json!({ "priority": priority }))
    };
    let (source, mirror) = ("kubernetes.io/config.source", "kubernetes.io/config.mirror");
    let labels = json!({ "app": "db" });
    let pods = [
        (of("static", source, labels.clone(), 0), memory(9 * MI)),
        (of("mirror", mirror, labels.clone(), 0), memory(8 * MI)),
        (
            of("etcd", mirror, labels.clone(), 2_000_000_000),
            memory(7 * MI),
        ),
        (of("other", source, json!({}), 0), memory(6 * MI)),
    ];
    let spared = |rules: &Rules| -> Vec<bool> {
        let ranked = ranking(rules, MEMORY, &pods);
        let spared = |name: &str| {
            let row = ranked.iter().find(|row| row.pod.ends_with(name));
            row.unwrap().spared.is_some()
        };
        ["static", "mirror", "etcd", "other"].map(spared).to_vec()
    };
    let evictable_static_pods = PodSelection {
        namespaces: Vec::new(),
        selectors: vec![serde_json::from_value(json!({ "matchLabels": labels })).unwrap()],
    };
    let chosen = Rules {
        evictable_static_pods,
        ..evictd(Vec::new())
    };
    assert_eq!(spared(&chosen), [false, false, true, true]);
    for rules in [evictd(Vec::new()), kubelet(Vec::new())] {
        assert_eq!(spared(&rules), [true; 4]);
    }
}
