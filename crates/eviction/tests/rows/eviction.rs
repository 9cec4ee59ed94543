//! The eviction itself: one a cycle, critical pods spared, with how much grace (S1-044 to S1-053).

use crate::node::{MI, Node, evictd, hard, kubelet, memory, pod, pod_with, priority, soft};
use evictd_decision::{Cause, Spared, Withheld};
use evictd_eviction::Rules;
use evictd_pod::{Critical, Pod};
use evictd_signals::Signal;
use serde_json::json;

const MEMORY: Signal = Signal::MemoryAvailable;

fn critical_pods() -> Vec<(Pod, Critical)> {
    let annotated = |name: &str, key: &str, value: &str| {
        pod_with(name, &json!({ "annotations": { key: value } }), &json!({}))
    };
    vec![
        (
            annotated("file", "kubernetes.io/config.source", "file"),
            Critical::Static,
        ),
        (
            annotated("http", "kubernetes.io/config.source", "http"),
            Critical::Static,
        ),
        (
            annotated("mirror", "kubernetes.io/config.mirror", "hash"),
            Critical::Mirror,
        ),
        (priority("system", 2_000_000_000), Critical::Priority),
    ]
}

#[test]
fn s1_044_one_pod_a_cycle_the_first_in_rank() {
    let thresholds = hard(&[("memory.available", "100Mi")]);
    for rules in [kubelet(thresholds.clone()), evictd(thresholds)] {
        let pods = vec![
            (priority("small", 0), memory(MI)),
            (priority("large", 0), memory(9 * MI)),
        ];
        let mut node = Node::new(rules, pods);
        let decision = node.cycle(0, &[(MEMORY, 0)]).unwrap();
        assert_eq!(decision.eviction.unwrap().pod, "default/large");
        assert_eq!(decision.uid.as_deref(), Some("uid-large"));
        assert_eq!(decision.runner_up.as_deref(), Some("default/small"));
        assert_eq!(decision.ranked.len(), 2);
    }
}

#[test]
fn s1_045_critical_pods_are_ranked_and_the_next_one_is_evicted() {
    let thresholds = hard(&[("memory.available", "100Mi")]);
    for rules in [kubelet(thresholds.clone()), evictd(thresholds)] {
        let mut pods: Vec<_> = critical_pods()
            .into_iter()
            .map(|(pod, _)| (pod, memory(9 * MI)))
            .collect();
        pods.push((priority("ordinary", 1_999_999_999), memory(MI)));
        let mut node = Node::new(rules, pods);
        let decision = node.cycle(0, &[(MEMORY, 0)]).unwrap();
        assert_eq!(decision.ranked.len(), 5);
        assert_eq!(decision.eviction.unwrap().pod, "default/ordinary");
    }
}

#[test]
fn s1_045_where_all_are_critical_no_pod_is_evicted() {
    let pods = critical_pods();
    let pods = pods.into_iter().map(|(pod, _)| (pod, memory(9 * MI)));
    let rules = kubelet(hard(&[("memory.available", "100Mi")]));
    let mut node = Node::new(rules, pods.collect());
    let decision = node.cycle(0, &[(MEMORY, 0)]).unwrap();
    assert_eq!(decision.withheld, Some(Withheld::AllSpared));
    assert!(decision.eviction.is_none());
    assert_eq!(decision.ranked.len(), 4, "they are ranked nevertheless");
}

#[test]
fn s1_046_a_pod_is_critical_by_source_or_priority() {
    for (pod, critical) in critical_pods() {
        let spared = Some(Spared::Critical(critical));
        assert_eq!(Rules::kubelet().spares(&pod), spared, "{pod}");
        assert_eq!(Rules::evictd().spares(&pod), spared, "{pod}");
    }
    let from_the_api = json!({ "annotations": { "kubernetes.io/config.source": "api" } });
    let ordinary = [
        pod_with("api", &from_the_api, &json!({})),
        priority("just-below", 1_999_999_999),
        pod("silent", &json!({})),
    ];
    for pod in ordinary {
        assert_eq!(Rules::kubelet().spares(&pod), None, "{pod}");
    }
}

#[test]
fn s1_047_a_hard_threshold_leaves_one_second_by_the_kubelet_and_none_by_ours() {
    let thresholds = hard(&[("memory.available", "100Mi")]);
    for (rules, grace) in [(kubelet(thresholds.clone()), 1), (evictd(thresholds), 0)] {
        let patient = pod("a", &json!({ "terminationGracePeriodSeconds": 600 }));
        let mut node = Node::new(rules, vec![(patient, memory(MI))]);
        let decision = node.cycle(0, &[(MEMORY, 0)]).unwrap();
        assert_eq!(decision.kind, Cause::Hard);
        assert_eq!(decision.eviction.unwrap().grace_period_seconds, grace);
    }
}

#[test]
fn s1_048_s1_049_a_soft_threshold_leaves_the_smaller_grace_and_reports_it_without_a_floor() {
    let of = |own: Option<i64>| pod("a", &json!({ "terminationGracePeriodSeconds": own }));
    let table = [
        (Some(0), Some(30), 0),
        (Some(20), Some(30), 20),
        (Some(40), Some(30), 30),
        (Some(40), Some(0), 0),
        (Some(20), None, 20),
        (Some(-1), Some(30), -1),
    ];
    for (most, own, grace) in table {
        let rules = Rules {
            max_pod_grace_period_seconds: most,
            ..kubelet(soft("memory.available", "100Mi", "10s", "0"))
        };
        let mut node = Node::new(rules, vec![(of(own), memory(MI))]);
        node.cycle(0, &[(MEMORY, 0)]);
        let decision = node.cycle(10, &[(MEMORY, 0)]).unwrap();
        assert_eq!(decision.kind, Cause::Soft);
        let given = decision.eviction.unwrap().grace_period_seconds;
        assert_eq!(given, grace, "{most:?} {own:?}");
    }
}

#[test]
fn s1_048_without_a_cap_ours_leave_the_pods_own_grace() {
    let of = |own: Option<i64>| pod("a", &json!({ "terminationGracePeriodSeconds": own }));
    let capped = Rules {
        max_pod_grace_period_seconds: Some(0),
        ..Rules::evictd()
    };
    for (own, grace) in [(Some(300), 300), (Some(0), 0), (None, 30), (Some(-5), 0)] {
        let given = Rules::evictd().grace_period_seconds(&of(own), false);
        assert_eq!(given, grace, "{own:?}");
        let at_once = capped.grace_period_seconds(&of(own), false);
        assert!(at_once <= 0, "0 has to be written to mean at once");
    }
}

#[test]
fn s1_051_s1_052_s1_053_reason_words_and_condition_of_an_evicted_pod() {
    let pods = vec![(priority("a", 0), memory(MI))];
    let mut node = Node::new(kubelet(hard(&[("memory.available", "100Mi")])), pods);
    let decision = node.cycle(0, &[(MEMORY, 0)]).unwrap();
    let eviction = decision.eviction.unwrap();
    assert_eq!(eviction.reason, "Evicted");
    assert!(
        eviction
            .message
            .starts_with("The node was low on resource: memory. ")
    );
    assert_eq!(eviction.annotations["starved_resource"], "memory");
    assert!(eviction.disruption_target);
}
