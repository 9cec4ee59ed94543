//! `evictd-scheduler run --batch-conf`: pods of no group.

use crate::live_batch::{GROUPS, conf, queue, start, start_at};
use crate::live_scheduling::{node_of, pod};
use evictd_testkit::ApiServer;
use serde_json::{Value, json};

#[test]
fn a_bare_pod_is_bound_and_an_unschedulable_one_gets_a_condition() {
    let conf = conf("enqueue, allocate, backfill");
    let live = start(&[("one", "3")], &conf);
    let plain = |name: &str, cpu: &str| {
        let mut pod = pod(name, cpu, 0);
        pod["spec"]["schedulerName"] = json!("volcano");
        live.admin.create(pod).unwrap();
    };
    plain("large", "8");
    plain("web", "1");
    live.bound("default/web");
    let is_reported = |pod: &Value| pod["status"]["conditions"][0]["reason"] == "Unschedulable";
    live.until("default/large", "reported", is_reported);
    // No PodGroup is created for either.
    assert!(live.admin.list(GROUPS).is_empty());
}

#[test]
fn s6_061_bare_pods_of_a_set_start_together_as_its_annotation_says() {
    let conf = conf("enqueue, allocate, backfill");
    let api = ApiServer::start().unwrap();
    let admin = api.actor("admin");
    queue(&admin, "default");
    // All kinds are listed before the first session, so the set is known to it.
    let marks = json!({ "scheduling.volcano.sh/group-min-member": "3" });
    let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "web", "namespace": "default", "annotations": marks },
        "spec": { "selector": { "matchLabels": { "app": "web" } } } });
    let uid = admin.create(set).unwrap()["metadata"]["uid"].take();
    let owner = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true });
    for index in 0..3 {
        let mut pod = pod(&format!("web-{index}"), "1", 0);
        pod["spec"]["schedulerName"] = json!("volcano");
        pod["metadata"]["ownerReferences"] = json!([owner]);
        admin.create(pod).unwrap();
    }
    let live = start_at(api, &[("one", "2500m")], &conf);
    let is_reported = |pod: &Value| pod["status"]["conditions"][0]["reason"] == "Unschedulable";
    live.until("default/web-0", "reported", is_reported);
    assert!(node_of(&live, "web-0").is_null());
    let marks = json!({ "scheduling.volcano.sh/group-min-member": "2" });
    let patch = json!({ "metadata": { "annotations": marks } });
    live.admin
        .merge("statefulsets", "default/web", patch)
        .unwrap();
    for name in ["default/web-0", "default/web-1"] {
        live.bound(name);
    }
    assert!(live.admin.list(GROUPS).is_empty());
}
