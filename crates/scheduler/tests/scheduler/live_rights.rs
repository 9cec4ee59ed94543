//! `evictd-scheduler run` in kube-scheduler's place, with kube-scheduler's rights.

use crate::live_scheduling::{Live, pod};
use evictd_testkit::ApiServer;
use serde_json::{Value, json};

/// The rules of `system:kube-scheduler` and `system:volume-scheduler` in Kubernetes 1.36, without rights on pod groups.
fn rules() -> Value {
    let read = ["get", "list", "watch"];
    let write = ["get", "list", "watch", "patch", "update"];
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let mut own_lease = rule("coordination.k8s.io", &["leases"], &write);
    own_lease["resourceNames"] = json!(["kube-scheduler"]);
    json!([
        own_lease,
        rule("coordination.k8s.io", &["leases"], &["create"]),
        rule("events.k8s.io", &["events"], &["create", "patch", "update"]),
        rule("", &["events"], &["create", "patch", "update"]),
        rule(
            "",
            &[
                "nodes",
                "namespaces",
                "services",
                "replicationcontrollers",
                "pods"
            ],
            &read
        ),
        rule("", &["pods"], &["delete"]),
        rule("", &["bindings", "pods/binding"], &["create"]),
        rule("", &["pods/status"], &["patch", "update"]),
        rule("apps", &["replicasets", "statefulsets"], &read),
        rule("policy", &["poddisruptionbudgets"], &read),
        rule("", &["persistentvolumes", "persistentvolumeclaims"], &write),
        rule(
            "storage.k8s.io",
            &[
                "storageclasses",
                "csinodes",
                "csidrivers",
                "csistoragecapacities",
                "volumeattachments",
            ],
            &read
        ),
        rule(
            "resource.k8s.io",
            &["deviceclasses", "resourceslices"],
            &read
        ),
        rule(
            "resource.k8s.io",
            &["resourceclaims", "resourceclaims/status"],
            &write
        ),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"]
        ),
    ])
}

#[test]
fn a_server_without_pod_groups_and_the_role_of_kube_scheduler_are_enough() {
    let api = ApiServer::start().unwrap();
    // It has taint rules, which do not count in 1.36, so that they need no right.
    api.set(|settings| {
        settings.minor_version = 36;
        settings.unknown_kinds = vec!["podgroups", "compositepodgroups"];
    });
    api.grant("token", "system:kube-scheduler", Some(rules()));
    let kubeconfig = api.kubeconfig_of("token");
    let live = Live::by(&kubeconfig, api, &[("one", "2")], &["--leader-elect=true"]);
    live.admin.create(pod("web", "1", 0)).unwrap();
    live.until("default/web", "bound", |pod| {
        pod["spec"]["nodeName"] == "one"
    });
    let refused = live.api.log();
    let refused = refused.iter().filter(|entry| entry.status == 403);
    let refused: Vec<&str> = refused.map(|entry| entry.what.as_str()).collect();
    assert!(
        refused
            .iter()
            .all(|what| ["podgroups", "compositepodgroups"].contains(what)),
        "{refused:?}"
    );
}
