//! What a pod is judged by while its requests are resized, and where only a part of them is set at pod level.

use crate::node::*;
use evictd_decision::{Excess, why};
use evictd_eviction::{Rules, rules::PodRequests};
use evictd_pod::Pod;
use evictd_signals::Signal;
use serde_json::{Value, json};

fn resized(name: &str, at_pod_level: bool, reason: &str) -> Pod {
    let own = json!({"requests": {"memory": "64Gi"}});
    let report = json!({
        "name": "c", "allocatedResources": {"memory": "1Gi"}, "resources": {"requests": {"memory": "1Gi"}},
    });
    let mut pod = if at_pod_level {
        json!({"spec": {"containers": [{"name": "c"}], "resources": own}, "status": report})
    } else {
        json!({"spec": {"containers": [{"name": "c", "resources": own}]}, "status": {"containerStatuses": [report]}})
    };
    pod["metadata"] = json!({"name": name, "uid": name});
    pod["status"]["conditions"] =
        json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    Pod::from_wire(serde_json::from_value(pod).unwrap())
}

#[test]
fn s1_068_an_amount_that_the_node_did_not_grant_protects_no_pod() {
    for (reason, state) in [
        ("Infeasible", "infeasible"),
        ("Deferred", "deferred"),
        ("Strange", "pending"),
    ] {
        for at_pod_level in [false, true] {
            for rules in [Rules::kubelet(), Rules::evictd()] {
                let pods = [
                    (requesting("honest", "2Gi"), memory(2 * GI + 300 * MI)),
                    (resized("greedy", at_pod_level, reason), memory(9 * GI)),
                ];
                let rows = ranking(&rules, Signal::MemoryAvailable, &pods);
                let case = format!("{reason} {at_pod_level} {:?}", rules.pod_requests);
                assert_eq!(rows[0].pod.as_ref(), "default/greedy", "{case}");
                assert_eq!(rows[0].excess, Excess::Exceeds, "{case}");
                assert_eq!(rows[0].request.to_string(), "1Gi", "{case}");
                let row = why::rows(&rows, Signal::MemoryAvailable.resource())
                    .next()
                    .unwrap();
                let words = format!(
                    "8Gi above its request of 1Gi (what is allocated; a resize to 64Gi is {state})"
                );
                assert!(row.why.contains(&words), "{}", row.why);
            }
        }
    }
}

/// A record of today's is read again, and one without the resize as before.
#[test]
fn a_record_keeps_the_resize() {
    use evictd_decision::record::RankingRow;
    let pods = [(resized("greedy", true, "Infeasible"), memory(9 * GI))];
    let row = ranking(&Rules::kubelet(), Signal::MemoryAvailable, &pods).remove(0);
    let row = RankingRow::of(&row);
    let text = serde_json::to_value(&row).unwrap();
    let note = json!({"resize": {"state": "infeasible", "desired": "64Gi"}});
    assert_eq!(text["requestNote"], note);
    assert_eq!(
        serde_json::from_value::<RankingRow>(text.clone()).unwrap(),
        row
    );
    let mut strange = text;
    strange["requestNote"]["resize"]["state"] = json!("unheard of");
    let read: RankingRow = serde_json::from_value(strange).unwrap();
    assert_eq!(read.request_note, None);
    assert_eq!(read.request, row.request);
}

/// Resources at pod level can name cpu, memory and huge pages alone. The kubelet does not look at the containers beside them;
/// the disk that the scheduler reserved counts with ours.
#[test]
fn s1_068_a_cpu_request_at_pod_level_hides_the_disk_from_the_kubelet_alone() {
    let gi = |count: i64| disk(files(count * GI, 10), files(0, 1), files(0, 0));
    let requests = json!({"requests": {"ephemeral-storage": "40Gi", "memory": "1Gi"}});
    let containers: Value = json!([{"name": "c", "resources": requests}]);
    let spec = json!({"containers": containers, "resources": {"requests": {"cpu": "300m"}}});
    let pods = [
        (pod("builder", &spec), gi(30)),
        (requesting("scribbler", "1Gi"), gi(20)),
    ];
    let first = |rules: &Rules| ranking(rules, Signal::NodefsAvailable, &pods).remove(0);
    let kubelets = first(&Rules::kubelet());
    assert_eq!(kubelets.pod.as_ref(), "default/builder");
    assert!(kubelets.request.is_zero());
    let words = "uses 30Gi, and the kubelet counts nothing of the 40Gi that it requested";
    assert_eq!(kubelets.uses(Signal::NodefsAvailable.resource()), words);
    let ours = first(&Rules::evictd());
    assert_eq!(ours.pod.as_ref(), "default/scribbler");
    let builder = ranking(&Rules::evictd(), Signal::NodefsAvailable, &pods).remove(1);
    assert_eq!(builder.request.to_string(), "40Gi");
    let words = builder.uses(Signal::NodefsAvailable.resource());
    assert_eq!(words, "uses 30Gi, within its request of 40Gi");
    let as_kubelet = Rules {
        pod_requests: PodRequests::Kubelet,
        ..Rules::evictd()
    };
    assert_eq!(first(&as_kubelet).pod.as_ref(), "default/builder");
    // The memory of the containers likewise.
    let memory_of = |rules: &Rules| {
        let pods = [(pod("builder", &spec), memory(MI))];
        ranking(rules, Signal::MemoryAvailable, &pods)
            .remove(0)
            .request
            .to_string()
    };
    assert_eq!(memory_of(&Rules::kubelet()), "0");
    assert_eq!(memory_of(&Rules::evictd()), "1Gi");
}
