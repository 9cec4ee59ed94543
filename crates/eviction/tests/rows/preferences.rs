//! What pods and administrators wish for: preferences of pods, protected namespaces and labels.

use crate::node::{MI, evictd, kubelet, memory, pod_with, priority, ranked, ranking};
use crate::ranking::both;
use evictd_decision::Spared;
use evictd_eviction::{
    Rules,
    rules::{PREFERENCE_ANNOTATION, PodSelection},
};
use evictd_pod::Pod;
use evictd_signals::Signal;
use serde_json::json;

const MEMORY: Signal = Signal::MemoryAvailable;

fn asking(name: &str, namespace: &str, preference: &str) -> Pod {
    let annotations = json!({ PREFERENCE_ANNOTATION: preference });
    let metadata = json!({ "namespace": namespace, "annotations": annotations });
    pod_with(name, &metadata, &json!({}))
}

#[test]
fn preferences_count_only_in_namespaces_that_may_have_them() {
    let pods = |namespace| {
        [
            (asking("never", namespace, "never"), memory(9 * MI)),
            (asking("avoid", namespace, "avoid"), memory(8 * MI)),
            (asking("odd", namespace, "sometimes"), memory(7 * MI)),
            (priority("silent", 0), memory(6 * MI)),
            (asking("prefer", namespace, "prefer"), memory(5 * MI)),
        ]
    };
    let allowing = Rules {
        pod_preference_namespaces: vec!["trusted".to_owned()],
        ..evictd(Vec::new())
    };
    let as_it_is = ["never", "avoid", "odd", "silent", "prefer"];
    for rules in [&allowing, &kubelet(Vec::new()), &evictd(Vec::new())] {
        assert_eq!(ranked(rules, MEMORY, &pods("other")), as_it_is);
        let spared = ranking(rules, MEMORY, &pods("other"));
        assert!(spared.iter().all(|row| row.spared.is_none()));
    }
    assert_eq!(
        ranked(&kubelet(Vec::new()), MEMORY, &pods("trusted")),
        as_it_is
    );
    let heard = ["prefer", "never", "odd", "silent", "avoid"];
    assert_eq!(ranked(&allowing, MEMORY, &pods("trusted")), heard);
    let rows = ranking(&allowing, MEMORY, &pods("trusted"));
    assert_eq!(rows[1].spared, Some(Spared::Never));
    assert_eq!(rows.iter().filter(|row| row.spared.is_some()).count(), 1);
}

#[test]
fn a_preference_never_lifts_a_pod_within_its_request_over_one_above() {
    let rules = Rules {
        pod_preference_namespaces: vec!["trusted".to_owned()],
        ..evictd(Vec::new())
    };
    let mut eager = asking("eager", "trusted", "prefer");
    eager.set_memory_request("1Gi".parse().unwrap());
    let reluctant = (asking("reluctant", "trusted", "avoid"), memory(MI));
    let pods = [(eager, memory(MI)), reluctant];
    assert_eq!(ranked(&rules, MEMORY, &pods), ["reluctant", "eager"]);
}

#[test]
fn protected_namespaces_and_labels_are_ranked_and_never_chosen() {
    let labelled = json!({ "labels": { "app": "database" } });
    let elsewhere = json!({ "namespace": "kube-system" });
    let pods = [
        (pod_with("labelled", &labelled, &json!({})), memory(9 * MI)),
        (
            pod_with("elsewhere", &elsewhere, &json!({})),
            memory(8 * MI),
        ),
        (priority("ordinary", 0), memory(7 * MI)),
    ];
    let protect = PodSelection {
        namespaces: vec!["kube-system".to_owned()],
        selectors: vec![
            serde_json::from_value(json!({ "matchLabels": { "app": "database" } })).unwrap(),
        ],
    };
    let protecting = Rules {
        protect,
        ..evictd(Vec::new())
    };
    let spared = |rules: &Rules| -> Vec<Option<Spared>> {
        ranking(rules, MEMORY, &pods)
            .iter()
            .map(|row| row.spared)
            .collect()
    };
    let protected = Some(Spared::Protected);
    assert_eq!(spared(&protecting), [protected, protected, None]);
    for (_, rules) in both() {
        assert_eq!(spared(&rules), [None; 3]);
    }
}

#[test]
fn a_label_selector_matches_as_kubernetes_has_it() {
    let labels = json!({ "app": "a", "tier": "back" });
    let pod = pod_with("a", &json!({ "labels": labels }), &json!({}));
    let demand = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    let table = [
        (json!({}), true),
        (json!({ "matchLabels": { "app": "a" } }), true),
        (json!({ "matchLabels": { "app": "a", "zone": "x" } }), false),
        (demand("app", "In", &["a", "b"]), true),
        (demand("app", "In", &["b"]), false),
        (demand("zone", "In", &["b"]), false),
        (demand("app", "NotIn", &["a"]), false),
        (demand("zone", "NotIn", &["a"]), true),
        (demand("tier", "Exists", &[]), true),
        (demand("zone", "Exists", &[]), false),
        (demand("zone", "DoesNotExist", &[]), true),
        (demand("tier", "DoesNotExist", &[]), false),
    ];
    for (selector, matches) in table {
        let shown = selector.to_string();
        let protect = PodSelection {
            namespaces: Vec::new(),
            selectors: vec![serde_json::from_value(selector).unwrap()],
        };
        assert_eq!(protect.covers(&pod), matches, "{shown}");
    }
}
