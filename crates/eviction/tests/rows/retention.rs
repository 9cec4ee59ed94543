//! Evicted pods do not pile up (users #9).

use crate::node::{at, pod_with};
use evictd_eviction::retention::{DeletionReason, EvictedPod, Retention};
use evictd_pod::Pod;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn of(kind: &str, owner: &str) -> Value {
    json!([{ "kind": kind, "name": owner, "uid": owner, "controller": true }])
}

fn pod(name: &str, metadata: &Value, grace: i64) -> Pod {
    pod_with(
        name,
        metadata,
        &json!({ "terminationGracePeriodSeconds": grace }),
    )
}

/// A pod without grace that was evicted at that second, of that owner.
fn left(name: &str, second: i64, owners: &Value) -> (Pod, i64) {
    (pod(name, &json!({ "ownerReferences": owners }), 0), second)
}

fn retention(ttl: Option<i64>, keep_per_owner: Option<u32>) -> Retention {
    Retention {
        ttl: ttl.map(SignedDuration::from_secs),
        keep_per_owner,
    }
}

fn overdue(rule: Retention, second: i64, pods: &[(Pod, i64)]) -> Vec<(&str, DeletionReason)> {
    let remains: Vec<EvictedPod<'_>> = pods
        .iter()
        .map(|(pod, evicted)| EvictedPod {
            pod,
            evicted_at: at(*evicted),
        })
        .collect();
    let found = rule.due(at(second), &remains).into_iter();
    found
        .map(|(index, why)| (pods[index].0.name.as_str(), why))
        .collect()
}

fn names(rule: Retention, second: i64, pods: &[(Pod, i64)]) -> Vec<&str> {
    let found = overdue(rule, second, pods).into_iter();
    found.map(|(name, _)| name).collect()
}

#[test]
fn by_default_everything_stays() {
    let pods = [
        left("a", 0, &Value::Null),
        left("b", 0, &of("ReplicaSet", "r")),
    ];
    assert_eq!(
        names(Retention::default(), i64::from(u32::MAX), &pods),
        [""; 0]
    );
    assert!(!Retention::default().is_limited());
}

#[test]
fn old_evicted_pods_are_deleted_oldest_first_and_pods_of_jobs_are_kept() {
    let pods = [
        left("younger", 200, &Value::Null),
        left("older", 100, &of("ReplicaSet", "r")),
        left("job", 0, &of("Job", "j")),
        left("young", 201, &of("DaemonSet", "d")),
    ];
    let rule = retention(Some(100), None);
    let old = DeletionReason::Old(SignedDuration::from_secs(100));
    assert_eq!(
        overdue(rule, 300, &pods),
        [("older", old), ("younger", old)]
    );
    assert_eq!(old.to_string(), "it was evicted 1m40s ago or earlier");
}

#[test]
fn an_owner_keeps_its_newest_pods_and_pods_without_an_owner_stay() {
    let mut pods = vec![
        left("a", 1, &of("ReplicaSet", "r")),
        left("b", 3, &of("ReplicaSet", "r")),
    ];
    pods.push(left("c", 2, &of("ReplicaSet", "r")));
    pods.push(left("other", 0, &of("ReplicaSet", "s")));
    for (name, second) in [("x", 1), ("y", 2), ("z", 3)] {
        pods.push(left(name, second, &Value::Null));
        pods.push(left(&format!("job-{name}"), second, &of("Job", "j")));
    }
    let table = [
        (0, vec!["other", "a", "c", "b"]),
        (1, vec!["a", "c"]),
        (2, vec!["a"]),
        (3, vec![]),
    ];
    for (most, expected) in table {
        assert_eq!(
            names(retention(None, Some(most)), 1000, &pods),
            expected,
            "{most}"
        );
    }
    let (_, why) = overdue(retention(None, Some(2)), 1000, &pods)[0];
    assert_eq!(why.to_string(), "its owner has 2 newer ones");
    // The same owner's UID in another namespace is another's.
    let elsewhere = json!({ "namespace": "elsewhere", "ownerReferences": of("ReplicaSet", "r") });
    let pods = [pods.remove(0), (pod("a", &elsewhere, 0), 9)];
    assert_eq!(names(retention(None, Some(1)), 1000, &pods), [""; 0]);
}

#[test]
fn one_that_may_still_be_ending_stays_and_one_that_is_being_deleted_does_not_count() {
    let owners = of("ReplicaSet", "r");
    let leaving = json!({ "deletionTimestamp": "2030-01-01T00:00:00Z", "ownerReferences": owners });
    let pods = [
        (pod("slow", &json!({}), 30), 0),
        (pod("leaving", &leaving, 0), 6),
        left("newer", 5, &owners),
        left("older", 4, &owners),
    ];
    let rule = retention(Some(20), Some(1));
    let table = [
        (13, vec![]),
        (14, vec!["older"]),
        (24, vec!["older"]),
        (25, vec!["older", "newer"]),
        (40, vec!["slow", "older", "newer"]),
    ];
    for (second, expected) in table {
        assert_eq!(names(rule, second, &pods), expected, "{second}");
    }
}

fn remains() -> impl Strategy<Value = Vec<(Pod, i64)>> {
    let kinds = ["", "ReplicaSet", "DaemonSet", "Job"];
    let one = (
        prop::sample::select(kinds.to_vec()),
        0..3_u8,
        0..1000_i64,
        0..60_i64,
    );
    prop::collection::vec(one, 0..30).prop_map(|all| {
        let pods = all.into_iter().enumerate();
        pods.map(|(number, (kind, owner, second, grace))| {
            let owners = if kind.is_empty() {
                Value::Null
            } else {
                of(kind, &format!("{kind}{owner}"))
            };
            let metadata = json!({ "ownerReferences": owners });
            (pod(&format!("p{number}"), &metadata, grace), second)
        })
        .collect()
    })
}

proptest! {
    #[test]
    fn no_owner_loses_more_than_asked_and_nothing_comes_back(
        pods in remains(), ttl in prop::option::of(0..1000_i64), most in prop::option::of(0..5_u32), second in 0..3000_i64,
    ) {
        let rule = retention(ttl, most);
        let gone = names(rule, second, &pods);
        let owner = |pod: &Pod| pod.controller.as_ref().map(|owner| owner.uid.clone());
        let is_jobs = |pod: &Pod| pod.controller.as_ref().is_some_and(|owner| owner.kind == "Job");
        prop_assert!(rule.is_limited() || gone.is_empty());
        let mut kept: BTreeMap<String, u32> = BTreeMap::new();
        for (pod, evicted) in &pods {
            let goes = gone.contains(&pod.name.as_str());
            prop_assert!(!(goes && is_jobs(pod)));
            let young = ttl.is_none_or(|ttl| second - evicted < ttl);
            prop_assert!(!(goes && young && (most.is_none() || owner(pod).is_none())));
            if let Some(owner) = owner(pod).filter(|_| !goes) {
                *kept.entry(owner).or_default() += 1;
            }
        }
        // Where age takes none, an owner keeps as many as it may.
        for (owner_uid, has) in count(&pods) {
            let kept = kept.get(&owner_uid).copied().unwrap_or(0);
            prop_assert!(ttl.is_some() || kept >= most.unwrap_or(u32::MAX).min(has), "{}", owner_uid);
        }
        // Later no fewer go.
        let later = names(rule, second + 100, &pods);
        prop_assert!(gone.iter().all(|name| later.contains(name)));
        // And once those are gone, at that moment no further ones.
        let rest: Vec<(Pod, i64)> = pods.iter().filter(|(pod, _)| !gone.contains(&pod.name.as_str())).cloned().collect();
        prop_assert_eq!(names(rule, second, &rest), Vec::<&str>::new());
    }
}

fn count(pods: &[(Pod, i64)]) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    for owner in pods.iter().filter_map(|(pod, _)| pod.controller.as_ref()) {
        *all.entry(owner.uid.clone()).or_default() += 1;
    }
    all
}
