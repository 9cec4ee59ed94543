//! The rows of behaviour of the PodGroup controller.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_jobs::pod_group::{Call, Plain, Scaled, group_name, plain_pod, scaled};
use evictd_batch_objects::PodGroup;
use evictd_pod::wire::{Metadata, Pod, TextMap};
use serde_json::{Value, json};

fn pod(change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "p1"},
        "spec": {
            "schedulerName": "volcano", "priorityClassName": "high",
            "containers": [{"resources": {"requests": {"cpu": "500m"}}}],
        },
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn calls(pod: &Pod, owners: &[TextMap], group: Option<&PodGroup>) -> Vec<Call> {
    plain_pod(Plain { pod, owners, group }, &["volcano".to_owned()])
}

fn made(pod: &Pod, owners: &[TextMap]) -> Value {
    match calls(pod, owners, None).swap_remove(0) {
        Call::CreateGroup { group, .. } => group,
        other => panic!("{other:?}"),
    }
}

fn owned(pod: &mut Value) {
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r1", "controller": true},
    ]);
}

fn texts(key: &str, text: &str) -> TextMap {
    [(key.to_owned(), text.to_owned())].into_iter().collect()
}

#[test]
fn a_pod_of_a_group_of_kubernetes_own_gets_no_other() {
    let grouped = pod(|pod| pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"}));
    assert_eq!(calls(&grouped, &[], None), []);
}

#[test]
fn s6_059_a_plain_pod_gets_a_group_and_then_its_name() {
    let plain = pod(|_| {});
    let group = made(&plain, &[]);
    assert_eq!(group["metadata"]["name"], "podgroup-p1");
    assert_eq!(
        (
            &group["spec"]["minMember"],
            &group["spec"]["priorityClassName"]
        ),
        (&json!(1), &json!("high"))
    );
    assert_eq!(group["metadata"]["ownerReferences"][0]["kind"], "Pod");
    let named = calls(&plain, &[], None).swap_remove(1);
    let wanted = Call::AnnotatePod {
        namespace: "shop".to_owned(),
        name: "web-1".to_owned(),
        patch: json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-p1"}}}),
    };
    assert_eq!(named, wanted);
    // Not with a group already, not of another scheduler, no second group.
    let grouped =
        pod(|pod| pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "g"}));
    assert_eq!(calls(&grouped, &[], None), []);
    let other = pod(|pod| pod["spec"]["schedulerName"] = json!("default-scheduler"));
    assert_eq!(calls(&other, &[], None), []);
    assert_eq!(calls(&plain, &[], Some(&PodGroup::default())).len(), 1);
    assert_eq!(
        made(&pod(owned), &[])["metadata"]["ownerReferences"][0]["uid"],
        "r1"
    );
}

#[test]
fn s6_060_the_queue_is_that_of_the_pods_annotation_or_left_open() {
    assert_eq!(made(&pod(|_| {}), &[])["spec"].get("queue"), None);
    let named = pod(|pod| {
        pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "research"});
    });
    assert_eq!(made(&named, &[])["spec"]["queue"], "research");
}

#[test]
fn s6_061_an_owner_says_how_many_and_one_without_replicas_has_no_group() {
    let min = |text: &str| {
        let owner = texts("scheduling.volcano.sh/group-min-member", text);
        made(&pod(owned), &[owner])["spec"].take()
    };
    let three = min("3");
    assert_eq!(
        (&three["minMember"], &three["minResources"]["cpu"]),
        (&json!(3), &json!("1500m"))
    );
    for wrong in ["many", "-1"] {
        assert_eq!(min(wrong)["minMember"], 1);
    }
    // Ends at once, whatever stands there.
    assert_eq!(min("2147483647")["minMember"], i32::MAX);
    let inherited = made(
        &pod(owned),
        &[texts("volcano.sh/preemptable", "true"), texts("other", "x")],
    );
    assert_eq!(
        inherited["metadata"]["annotations"],
        json!({"volcano.sh/preemptable": "true"})
    );
    let set = Metadata {
        namespace: "shop".to_owned().into(),
        uid: "r1".into(),
        ..Metadata::default()
    };
    let call = |replicas| {
        scaled(Scaled {
            metadata: &set,
            replicas,
        })
    };
    let wanted = Call::DeleteGroup {
        namespace: "shop".to_owned(),
        name: "podgroup-r1".to_owned(),
    };
    assert_eq!(
        (call(Some(0)), call(Some(1)), call(None)),
        (Some(wanted), None, None)
    );
}

#[test]
fn s6_062_pods_of_one_owner_share_a_group() {
    let first = pod(owned);
    let second = pod(|pod| {
        owned(pod);
        pod["metadata"]["uid"] = json!("p2");
    });
    assert_eq!(group_name(&first.metadata), "podgroup-r1");
    assert_eq!(group_name(&first.metadata), group_name(&second.metadata));
}
