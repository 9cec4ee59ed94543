//! A binding waits for the volumes of its pod, but not in vain (S5-094).

use super::{AT_MOST, BindOptions, Outcome, Shop};
use crate::run::api_retry::FailureKind;
use crate::run::pod_ref::PodRef;
use evictd_placement::VolumeChoice;
use evictd_testkit::{Actor, Fault};
use serde_json::{Value, json};

const CLAIM: &str = "default/data";

fn volume(name: &str, zone: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "5Gi" }, "local": { "path": "/data" },
        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "zone", "operator": "In", "values": [zone] }] }] } } } })
}

/// A binding to node `one` that waits for the volume `there`, or for one that is provisioned.
async fn waiting(provisioned: bool) -> (Shop, PodRef) {
    let shop = Shop::open().await;
    let create = |object: Value| shop.admin.create(object).unwrap();
    create(
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "one", "labels": { "zone": "a" } } }),
    );
    create(volume("there", "a"));
    create(json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data", "namespace": "default" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }));
    let pod = shop.pod("a", None);
    let (claim, volume) = ("data".to_owned(), "there".to_owned());
    let mut options = BindOptions::default();
    options.pre_bind.volumes = vec![if provisioned {
        VolumeChoice::Provision { claim }
    } else {
        VolumeChoice::Bind { claim, volume }
    }];
    let begun = shop.writer.bind(pod.clone(), "one".to_owned(), options);
    assert!(begun.is_ok());
    let chosen = |admin: &Actor| {
        let selected = "/metadata/annotations/volume.kubernetes.io~1selected-node";
        let (found, at) = if provisioned {
            (admin.get("persistentvolumeclaims", CLAIM)?, selected)
        } else {
            (
                admin.get("persistentvolumes", "there")?,
                "/spec/claimRef/uid",
            )
        };
        found.pointer(at).map(|_| ())
    };
    shop.admin.wait(AT_MOST, chosen).await.unwrap();
    (shop, pod)
}

impl Shop {
    /// Why the binding failed; empty if it did not.
    async fn why(&mut self) -> String {
        match self.outcome().await {
            Outcome::NotBound { failure, .. } => failure.message,
            _ => String::new(),
        }
    }

    fn claim(&self, patch: Value) {
        let patched = self.admin.merge("persistentvolumeclaims", CLAIM, patch);
        patched.unwrap();
    }
}

fn reason(why: &str) -> String {
    format!("running PreBind plugin \"VolumeBinding\": binding volumes: {why}")
}

#[tokio::test]
async fn s5_094_the_wait_ends_with_the_node_the_pod_or_the_claim() {
    let gone = [
        (
            "nodes",
            "one",
            "failed to get node \"one\": node \"one\" not found",
        ),
        (
            "pods",
            "default/a",
            "pod does not exist any more: pod \"a\" not found",
        ),
        (
            "persistentvolumeclaims",
            CLAIM,
            "failed to check binding: persistentvolumeclaims \"default/data\" not found",
        ),
    ];
    for (kind, at, why) in gone {
        let (mut shop, _) = waiting(false).await;
        let now = json!({ "gracePeriodSeconds": 0 });
        shop.admin.delete(kind, at, now).unwrap();
        assert_eq!(shop.why().await, reason(why));
    }
}

#[tokio::test]
async fn s5_094_the_wait_ends_when_no_volume_will_come() {
    let (mut shop, _) = waiting(false).await;
    let without = json!({ "spec": { "claimRef": null } });
    shop.admin
        .merge("persistentvolumes", "there", without)
        .unwrap();
    assert_eq!(
        shop.why().await,
        reason("ClaimRef got reset for pv \"there\"")
    );
    for (node, why) in [
        (
            Value::Null,
            "selectedNode annotation reset for PVC \"data\"",
        ),
        (json!("two"), "provisioning failed for PVC \"data\""),
    ] {
        let (mut shop, _) = waiting(true).await;
        let selected = json!({ "volume.kubernetes.io/selected-node": node });
        shop.claim(json!({ "metadata": { "annotations": selected } }));
        assert_eq!(shop.why().await, reason(why));
    }
}

/// The provisioner has made a volume in this zone.
fn provisioned(shop: &Shop, zone: &str) {
    shop.admin.create(volume("made", zone)).unwrap();
    shop.claim(json!({ "spec": { "volumeName": "made" } }));
    let bound = json!({ "status": { "phase": "Bound" } });
    shop.admin
        .merge("persistentvolumeclaims/status", CLAIM, bound)
        .unwrap();
}

#[tokio::test]
async fn s5_094_a_pod_is_bound_only_where_its_new_volume_is() {
    for zone in ["a", "b"] {
        let (mut shop, _) = waiting(true).await;
        provisioned(&shop, zone);
        let why = match zone {
            "a" => String::new(),
            _ => reason(
                "pv \"made\" node affinity doesn't match node \"one\": no matching NodeSelectorTerms",
            ),
        };
        assert_eq!(shop.why().await, why);
    }
}

#[tokio::test]
async fn s5_094_the_wait_outlasts_a_server_that_fails_for_a_while() {
    // Six are more than the attempts of one read.
    for times in [2, 6] {
        let (mut shop, _) = waiting(true).await;
        let fails = Fault::answer(500).on("list", "nodes").times(times);
        shop.api.fault(fails);
        provisioned(&shop, "a");
        assert_eq!(shop.why().await, "", "after {times} failed reads");
    }
}

#[tokio::test]
async fn s5_094_the_wait_ends_when_the_node_may_not_be_read() {
    let (mut shop, _) = waiting(true).await;
    shop.api.fault(Fault::answer(403).on("list", "nodes"));
    let Outcome::NotBound { failure, .. } = shop.outcome().await else {
        panic!("the binding has not failed");
    };
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(
        failure
            .message
            .starts_with("running PreBind plugin \"VolumeBinding\": "),
        "{failure}"
    );
}
