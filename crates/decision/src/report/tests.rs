use super::*;
use evictd_pod::Quantity;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn record(id: &str, second: i64, more: &Value) -> Record {
    let mut record = json!({
        "id": id, "time": at(second), "kind": "hard", "signal": "memory.available", "resource": "memory",
    });
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    serde_json::from_value(record).unwrap()
}

fn row(pod: &str, usage: i64, request: i64, priority: i32) -> Value {
    json!({
        "pod": pod, "usage": usage.to_string(), "request": request.to_string(), "priority": priority,
        "exceedsRequest": usage > request, "overage": (usage - request).to_string(),
    })
}

#[test]
fn decisions_are_counted_by_signal_and_owner_in_their_time() {
    let gone = |seconds: f64| json!({ "processes": 1, "method": "cgroup-kill", "reactionSeconds": seconds });
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "shop", "name": "cart", "uid": "o", "evictions": 2 });
    let records = [
        record("old", -1, &json!({ "pod": "shop/old", "uid": "u" })),
        record(
            "1",
            0,
            &json!({ "pod": "shop/cart-1", "uid": "u1", "owner": owner, "outcome": gone(0.4) }),
        ),
        record(
            "2",
            5,
            &json!({ "pod": "shop/cart-2", "uid": "u2", "owner": owner, "outcome": gone(0.2) }),
        ),
        record(
            "3",
            6,
            &json!({ "pod": "shop/cart-3", "uid": "u3", "owner": owner, "outcome": { "error": "EPERM" } }),
        ),
        record("4", 7, &json!({ "pod": "shop/dry", "dryRun": true })),
        record("5", 8, &json!({ "why": "nobody" })),
        record(
            "6",
            9,
            &json!({ "kind": "admission", "signal": "MemoryPressure", "pod": "shop/new", "uid": "n" }),
        ),
        record("late", 11, &json!({ "pod": "shop/late", "uid": "u" })),
    ];
    let report = Report::of(&records, at(0), at(10));
    let expected = Counts {
        evicted: 2,
        would_evict: 1,
        failed: 1,
        rejected: 1,
        withheld: 1,
        ..Counts::default()
    };
    assert_eq!(report.total, expected);
    assert!(!report.may_lack_some());
    assert_eq!(report.later, 1, "the clock was set back");
    assert!(report.is_incomplete());
    assert!(!Report::of(&records, at(0), at(11)).is_incomplete());
    assert!(Report::of(&records[1..], at(-1), at(10)).may_lack_some());
    let memory = report
        .signals
        .iter()
        .find(|one| one.signal == "memory.available")
        .unwrap();
    assert_eq!(memory.longest_reaction_seconds, Some(0.4));
    assert_eq!(memory.median_reaction_seconds, Some(0.2));
    assert_eq!(memory.least_available, None, "unknown is not zero");
    let first = &report.owners[0];
    assert_eq!(
        (first.owner.as_str(), first.counts.evicted),
        ("ReplicaSet shop/cart", 2)
    );
    assert_eq!((first.last_id.as_str(), first.counts.failed), ("3", 1));
    assert_eq!(report.owners.len(), 3);
    let empty = Report::of(&[], at(0), at(10));
    assert_eq!((empty.total, empty.oldest), (Counts::default(), None));
}

#[test]
fn pods_above_their_request_have_percentiles() {
    let usages = 1..=100;
    let records: Vec<Record> = usages
        .map(|usage| {
            let ranking = [row("a/hog", usage * 10, 500, 0), row("a/calm", 5, 10, 0)];
            record(&usage.to_string(), usage, &json!({ "ranking": ranking }))
        })
        .collect();
    let report = Report::of(&records, at(0), at(1000));
    let [hog] = report.above_request.as_slice() else {
        panic!("{:?}", report.above_request);
    };
    let bytes = Quantity::bytes;
    assert_eq!(
        (hog.pod.as_str(), hog.decisions, hog.above),
        ("a/hog", 100, 50)
    );
    assert_eq!(
        (hog.p50, hog.p99, hog.request),
        (bytes(500), bytes(990), bytes(500))
    );
}

#[test]
fn the_kubelets_choice_for_the_same_figures() {
    let unknown = json!({ "pod": "a/unknown", "priority": 9 });
    let mut critical = row("a/critical", 900, 0, 0);
    critical["critical"] = json!(true);
    let within = row("a/within", 50, 100, 0);
    let above = row("a/above", 300, 100, 5);
    let far_above = row("a/far", 800, 100, 5);
    let low = row("a/low", 110, 100, 1);
    for (signal, ranking, expected) in [
        (
            "memory.available",
            json!([within, above, far_above, critical]),
            Some("a/far"),
        ),
        (
            "memory.available",
            json!([above, far_above, low]),
            Some("a/low"),
        ),
        (
            "memory.available",
            json!([above, unknown]),
            Some("a/unknown"),
        ),
        ("pid.available", json!([above, low]), Some("a/low")),
        // No kubelet has it.
        ("memory.psi", json!([above]), None),
        ("memory.available", json!([critical]), None),
    ] {
        let resource = if signal == "pid.available" {
            "pids"
        } else {
            "memory"
        };
        let more = json!({ "pod": "a/far", "uid": "u", "signal": signal, "resource": resource, "ranking": ranking });
        let report = Report::of(&[record("1", 1, &more)], at(0), at(10));
        let kubelet = &report.kubelet;
        let choice = match expected {
            Some("a/far") => kubelet.same == 1,
            Some(other) => kubelet.different[0].kubelet == other,
            None => kubelet.compared == 0,
        };
        assert!(choice, "{signal} {expected:?}: {kubelet:?}");
    }
}
