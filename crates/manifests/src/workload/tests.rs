use super::*;
use serde_json::json;

fn workload(api_version: &str, kind: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}}}});
    let all = object["spec"].as_object_mut().unwrap();
    all.extend(spec.as_object().unwrap().clone());
    object
}

fn expanded(object: &Value, existing: &Existing) -> Expansion {
    expand(object, existing, &Admission::default()).unwrap()
}

fn names(expansion: &Expansion) -> Vec<&str> {
    let pods = expansion.pods.iter();
    pods.map(|made| made.pod.metadata.name.as_str()).collect()
}

fn pod(name: &str, owner: (&str, &str), node: &str) -> wire::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop",
            "ownerReferences": [{"kind": owner.0, "name": owner.1, "controller": true}]},
        "spec": {"nodeName": node}, "status": {"phase": "Running"}}))
    .unwrap()
}

#[test]
fn a_deployment_has_the_pods_of_one_replica_set() {
    let object = workload("apps/v1", "Deployment", &json!({"replicas": 2}));
    let expansion = expanded(&object, &Existing::default());
    assert_eq!(names(&expansion), ["web-0", "web-1"]);
    let pod = &expansion.pods[0].pod;
    let hash = pod.metadata.labels.get("pod-template-hash").unwrap();
    let owner = &pod.metadata.owner_references[0];
    assert_eq!(
        (owner.kind.as_str(), owner.name.clone()),
        ("ReplicaSet", format!("web-{hash}"))
    );
    let Some(SpreadOwner::ReplicaSet(set)) = &expansion.owner else {
        panic!()
    };
    let selector = set.spec.selector.as_ref().unwrap();
    assert_eq!(selector.match_labels.get("pod-template-hash"), Some(hash));
    assert_eq!(selector.match_labels.get("app"), Some("web"));
}

#[test]
fn the_hash_of_a_template_changes_with_it_and_with_nothing_else() {
    let hash = |spec: &Value| {
        let object = workload("apps/v1", "Deployment", spec);
        let expansion = expanded(&object, &Existing::default());
        expansion.pods[0]
            .pod
            .metadata
            .labels
            .get("pod-template-hash")
            .unwrap()
            .to_owned()
    };
    let first = hash(&json!({"replicas": 1}));
    assert_eq!(hash(&json!({"replicas": 3})), first);
    assert_ne!(
        hash(&json!({"template": {"spec": {"containers": [{"name": "b"}]}}})),
        first
    );
}

#[test]
fn pods_that_exist_are_not_made_a_second_time() {
    let mut existing = Existing::default();
    let set: Metadata = serde_json::from_value(json!({"name": "web-abc", "namespace": "shop",
        "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": true}]}))
    .unwrap();
    existing.add_workload("ReplicaSet", &set);
    existing.add_workload(
        "Deployment",
        &serde_json::from_value(json!({"name": "web", "namespace": "shop"})).unwrap(),
    );
    existing.add_pod(&pod("web-0", ("ReplicaSet", "web-abc"), "n1"));
    let mut failed = pod("web-abc-y", ("ReplicaSet", "web-abc"), "n1");
    failed.status.phase = evictd_pod::wire::PodPhase::Failed;
    existing.add_pod(&failed);
    let object = workload("apps/v1", "Deployment", &json!({"replicas": 3}));
    let expansion = expanded(&object, &existing);
    assert_eq!(names(&expansion), ["web-1", "web-2"]);
    assert_eq!(
        expansion.notes,
        ["Deployment shop/web: 1 of 3 pods exist already"]
    );
    let mut of_deployment = workload("apps/v1", "ReplicaSet", &json!({"replicas": 3}));
    of_deployment["metadata"] = json!({"name": "web-abc", "namespace": "shop",
        "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": true}]});
    let expansion = expanded(&of_deployment, &existing);
    assert!(expansion.pods.is_empty());
    assert_eq!(
        expansion.notes,
        ["ReplicaSet shop/web-abc: its pods are those of Deployment shop/web"]
    );
}

#[test]
fn a_stateful_set_has_ordinals_and_claims() {
    let object = workload(
        "apps/v1",
        "StatefulSet",
        &json!({"replicas": 2, "ordinals": {"start": 3},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "std"}}]}),
    );
    let mut existing = Existing::default();
    existing.add_pod(&pod("web-3", ("StatefulSet", "web"), "n1"));
    let expansion = expanded(&object, &existing);
    assert_eq!(names(&expansion), ["web-4"]);
    let claims: Vec<_> = expansion
        .volume_claims
        .iter()
        .map(|claim| claim.metadata.full_name())
        .collect();
    assert_eq!(claims, ["shop/data-web-4"]);
    let volumes = &expansion.pods[0].pod.spec.volumes;
    assert_eq!(
        volumes[0]
            .persistent_volume_claim
            .as_ref()
            .unwrap()
            .claim_name,
        "data-web-4"
    );
    assert_eq!(
        expansion.notes,
        ["StatefulSet shop/web: 1 of 2 pods exist already"]
    );
    assert!(matches!(expansion.owner, Some(SpreadOwner::StatefulSet(_))));
}

#[test]
fn a_job_runs_no_more_pods_than_completions_are_missing() {
    let table = [
        (json!({}), 1),
        (json!({"parallelism": 4}), 4),
        (json!({"parallelism": 4, "completions": 3}), 3),
        (json!({"parallelism": 0}), 0),
        (json!({"parallelism": 4, "suspend": true}), 0),
    ];
    for (spec, count) in table {
        let expansion = expanded(&workload("batch/v1", "Job", &spec), &Existing::default());
        assert_eq!(expansion.pods.len(), count, "{spec}");
    }
    let mut half_done = workload(
        "batch/v1",
        "Job",
        &json!({"parallelism": 4, "completions": 5}),
    );
    half_done["status"] = json!({"succeeded": 3});
    assert_eq!(expanded(&half_done, &Existing::default()).pods.len(), 2);
    let indexed = workload("batch/v1", "Job", &json!({"completionMode": "Indexed"}));
    let expansion = expanded(&indexed, &Existing::default());
    let labels = &expansion.pods[0].pod.metadata.labels;
    assert_eq!(
        labels.get("batch.kubernetes.io/job-completion-index"),
        Some("0")
    );
    assert_eq!(labels.get("job-name"), Some("web"));
}

#[test]
fn a_cron_job_is_the_job_of_one_run() {
    let job = workload("batch/v1", "Job", &json!({"parallelism": 2}));
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cj"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job["spec"]}}});
    assert_eq!(
        names(&expanded(&cron, &Existing::default())),
        ["cj-0", "cj-1"]
    );
    let mut suspended = cron;
    suspended["spec"]["suspend"] = json!(true);
    let expansion = expanded(&suspended, &Existing::default());
    assert_eq!(expansion.notes, ["CronJob default/cj is suspended"]);
}

#[test]
fn a_daemon_set_has_a_pod_on_each_node_that_may_run_one() {
    let node = |name: &str, spec: Value, labels: Value| -> evictd_pod::Node {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec}))
            .unwrap()
    };
    let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
    let mut existing = Existing::default();
    let linux = json!({"os": "linux"});
    existing.nodes.push(node("a", json!({}), linux.clone()));
    existing.nodes.push(node("b", json!({}), linux.clone()));
    existing.nodes.push(node("windows", json!({}), json!({})));
    existing.nodes.push(node(
        "cordoned",
        taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        linux.clone(),
    ));
    existing
        .nodes
        .push(node("kept", taint("team", "NoSchedule"), linux));
    existing.add_pod(&pod("web-x", ("DaemonSet", "web"), "b"));
    let template = json!({"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"nodeSelector": {"os": "linux"}}}});
    let expansion = expanded(&workload("apps/v1", "DaemonSet", &template), &existing);
    assert_eq!(names(&expansion), ["web-a", "web-cordoned"]);
    let affinity = expansion.pods[0].pod.spec.affinity.as_ref().unwrap();
    let terms = &affinity
        .node_affinity
        .required
        .as_ref()
        .unwrap()
        .node_selector_terms;
    assert_eq!(terms[0].match_fields[0].values, ["a"]);
    assert_eq!(
        expansion.notes,
        [
            "DaemonSet shop/web: its controller lets it tolerate the state of 1 node",
            "DaemonSet shop/web: 2 nodes left out by its node selector, affinity or tolerations"
        ]
    );
}

#[test]
fn other_kinds_with_a_pod_template_are_expanded_by_their_replicas() {
    let rollout = workload("argoproj.io/v1alpha1", "Rollout", &json!({"replicas": 3}));
    assert!(is_workload(&rollout));
    assert_eq!(
        names(&expanded(&rollout, &Existing::default())),
        ["web-0", "web-1", "web-2"]
    );
    let controller = workload(
        "v1",
        "ReplicationController",
        &json!({"selector": {"app": "web"}}),
    );
    let expansion = expanded(&controller, &Existing::default());
    assert!(matches!(
        expansion.owner,
        Some(SpreadOwner::ReplicationController(_))
    ));
    let service =
        json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}});
    assert!(!is_workload(&service));
    let error = expand(&service, &Existing::default(), &Admission::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("\"Service\": a Pod or a workload"),
        "{error}"
    );
}

#[test]
fn more_pods_than_are_simulated_are_an_error() {
    let object = workload("apps/v1", "Deployment", &json!({"replicas": 100_001}));
    let error = expand(&object, &Existing::default(), &Admission::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.replicas: 100001: at most 100000 are simulated"
    );
}
