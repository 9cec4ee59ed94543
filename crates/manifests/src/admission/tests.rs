use super::*;
use crate::object::Kind;
use serde_json::{Value, json};

fn admission(objects: &[Value]) -> Admission {
    let mut admission = Admission::default();
    for object in objects {
        let kind = Kind::of(object["kind"].as_str().unwrap(), "").unwrap();
        admission.learn(&kind.read_value(object).unwrap());
    }
    admission
}

fn admit(objects: &[Value], spec: &Value) -> Result<Admitted, Refusal> {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
    admission(objects).admit(PodManifest::from_value(&pod).unwrap())
}

fn cpu(requests: &str) -> Value {
    json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": requests}}}]})
}

fn priority_class(name: &str, value: i32, more: &Value) -> Value {
    let mut class = json!({"kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    class
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    class
}

#[test]
fn a_stored_pod_stays_as_it_is() {
    let objects = [
        priority_class("normal", 500, &json!({"globalDefault": true})),
        json!({"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}}),
    ];
    let pod = json!({"metadata": {"name": "web", "uid": "1"}, "spec": {
        "runtimeClassName": "kata",
        "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}],
    }});
    let manifest = PodManifest::from_value(&pod).unwrap();
    let before = serde_json::to_value(&manifest.pod).unwrap();
    let admitted = admission(&objects).admit(manifest).unwrap();
    assert_eq!(serde_json::to_value(&admitted.pod).unwrap(), before);
    assert!(admitted.notes.is_empty());
}

#[test]
fn the_lowest_global_default_gives_pods_without_a_class_their_priority() {
    let objects = [
        priority_class("high", 700, &json!({"globalDefault": true})),
        priority_class(
            "normal",
            500,
            &json!({"globalDefault": true, "preemptionPolicy": "Never"}),
        ),
    ];
    let admitted = admit(&objects, &cpu("1")).unwrap();
    let spec = &admitted.pod.spec;
    assert_eq!(spec.priority, Some(500));
    assert_eq!(spec.priority_class_name, "normal");
    assert_eq!(spec.preemption_policy, "Never");
    assert_eq!(
        admitted.notes,
        ["PriorityClass normal is the global default: priority 500"]
    );
}

#[test]
fn a_class_gives_its_value_and_its_preemption_policy() {
    let never = priority_class("vip", 1000, &json!({"preemptionPolicy": "Never"}));
    let admitted = admit(&[never], &json!({"priorityClassName": "vip"})).unwrap();
    assert_eq!(admitted.pod.spec.priority, Some(1000));
    assert_eq!(admitted.pod.spec.preemption_policy, "Never");
    let system = admit(&[], &json!({"priorityClassName": "system-node-critical"})).unwrap();
    assert_eq!(system.pod.spec.priority, Some(2_000_001_000));
}

#[test]
fn an_unknown_priority_class_is_refused_with_those_that_are_known() {
    let class = priority_class("vip", 1000, &json!({}));
    let refusal = admit(&[class], &json!({"priorityClassName": "vpi"})).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "shop/web: spec.priorityClassName: \"vpi\" is not in the input; known are \
         system-cluster-critical, system-node-critical, vip"
    );
}

#[test]
fn a_runtime_class_adds_overhead_node_labels_and_tolerations() {
    let class = json!({"kind": "RuntimeClass", "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "1", "memory": "120Mi"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}});
    let spec = json!({"runtimeClassName": "kata", "nodeSelector": {"disk": "ssd"}});
    let admitted = admit(&[class], &spec).unwrap();
    let spec = &admitted.pod.spec;
    assert_eq!(amounts(&spec.overhead), "cpu=1, memory=120Mi");
    assert_eq!(spec.node_selector.get("kata"), Some("yes"));
    assert_eq!(spec.node_selector.get("disk"), Some("ssd"));
    assert!(spec.tolerations.iter().any(|known| known.key == "kata"));
    assert_eq!(
        admitted.notes,
        [
            "RuntimeClass kata adds overhead of cpu=1, memory=120Mi",
            "RuntimeClass kata selects nodes with kata=yes"
        ]
    );
}

#[test]
fn a_pod_that_contradicts_its_runtime_class_is_refused() {
    let class = json!({"kind": "RuntimeClass", "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"kata": "yes"}}});
    let other_overhead = json!({"runtimeClassName": "kata", "overhead": {"cpu": "2"}});
    let refusal = admit(std::slice::from_ref(&class), &other_overhead).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "shop/web: spec.overhead: is cpu=2, but RuntimeClass kata has cpu=1"
    );
    let other_nodes = json!({"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}});
    let refusal = admit(&[class], &other_nodes).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "shop/web: spec.nodeSelector: kata=no, but RuntimeClass kata runs on nodes with kata=yes"
    );
}

#[test]
fn a_runtime_class_outside_the_input_is_said_to_be_unknown() {
    let admitted = admit(&[], &json!({"runtimeClassName": "kata"})).unwrap();
    assert_eq!(
        admitted.notes,
        ["RuntimeClass kata is not in the input; its overhead and its nodes are not known"]
    );
}

fn limit_range(item: &Value) -> Value {
    json!({"kind": "LimitRange", "metadata": {"name": "lr", "namespace": "shop"}, "spec": {"limits": [item]}})
}

#[test]
fn a_limit_range_sets_missing_requests_and_keeps_given_ones() {
    let range = limit_range(&json!({"type": "Container", "default": {"cpu": "3"}}));
    let spec = json!({"containers": [
        {"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}},
    ], "initContainers": [{"name": "i"}]});
    let admitted = admit(&[range], &spec).unwrap();
    let spec = &admitted.pod.spec;
    let request =
        |container: &wire::Container| container.resources.requests.get("cpu").unwrap().value();
    assert_eq!(
        spec.containers.iter().map(request).collect::<Vec<_>>(),
        [3, 1]
    );
    assert_eq!(request(&spec.init_containers[0]), 3);
    assert_eq!(
        admitted.notes,
        ["LimitRange shop/lr sets missing requests of containers to cpu=3"]
    );
}

#[test]
fn a_maximum_is_the_default_of_its_namespace_and_that_of_another_is_not_asked() {
    let range = limit_range(&json!({"type": "Container", "max": {"cpu": "2"}}));
    let spec = json!({"containers": [{"name": "a"}]});
    let admitted = admit(std::slice::from_ref(&range), &spec).unwrap();
    let requests = &admitted.pod.spec.containers[0].resources.requests;
    assert_eq!(amounts(requests), "cpu=2");
    let mut elsewhere = range;
    elsewhere["metadata"]["namespace"] = json!("other");
    let admitted = admit(&[elsewhere], &spec).unwrap();
    assert!(
        admitted.pod.spec.containers[0]
            .resources
            .requests
            .is_empty()
    );
}

#[test]
fn amounts_outside_the_bounds_of_a_namespace_are_refused() {
    let table = [
        (
            json!({"type": "Container", "max": {"cpu": "1"}}),
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            json!({"type": "Container", "min": {"cpu": "3"}}),
            "minimum cpu usage per Container is 3, but request is 2",
        ),
        (
            json!({"type": "Pod", "max": {"cpu": "3"}}),
            "maximum cpu usage per Pod is 3, but limit is 4",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"memory": "1.5"}}),
            "memory max limit to request ratio per Container is 1500m, but limit is 2Gi and request is 1Gi",
        ),
    ];
    let container = |name: &str| {
        json!({"name": name, "resources": {
        "limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}}})
    };
    for (item, message) in table {
        let spec = json!({"containers": [container("a"), container("b")]});
        let refusal = admit(&[limit_range(&item)], &spec).unwrap_err();
        assert!(refusal.message.contains(message), "{item}: {refusal}");
    }
    let fits = limit_range(
        &json!({"type": "Container", "max": {"cpu": "2"}, "maxLimitRequestRatio": {"memory": "2"}}),
    );
    admit(&[fits], &json!({"containers": [container("a")]})).unwrap();
}

#[test]
fn pods_tolerate_a_lost_node_for_five_minutes_unless_they_say_otherwise() {
    let admitted = admit(&[], &cpu("1")).unwrap();
    let seconds: Vec<_> = admitted
        .pod
        .spec
        .tolerations
        .iter()
        .map(|toleration| toleration.toleration_seconds)
        .collect();
    assert_eq!(seconds, [Some(300), Some(300)]);
    let all = json!({"tolerations": [{"operator": "Exists"}]});
    assert_eq!(admit(&[], &all).unwrap().pod.spec.tolerations.len(), 1);
}

#[test]
fn an_ephemeral_volume_gets_a_claim_of_the_newest_default_class() {
    let class = |name: &str, created: &str| {
        json!({"kind": "StorageClass", "metadata": {"name": name,
        "creationTimestamp": created, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    let objects = [
        class("old", "2026-01-01T00:00:00Z"),
        class("new", "2026-02-01T00:00:00Z"),
        json!({"kind": "StorageClass", "metadata": {"name": "other", "creationTimestamp": "2026-03-01T00:00:00Z"}}),
    ];
    let spec = json!({"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}}}]});
    let admitted = admit(&objects, &spec).unwrap();
    let [claim] = admitted.volume_claims.as_slice() else {
        panic!()
    };
    assert_eq!(claim.metadata.full_name(), "shop/web-tmp");
    assert_eq!(claim.metadata.labels.get("a"), Some("b"));
    assert_eq!(claim.metadata.owner_references[0].name, "web");
    assert_eq!(claim.spec.storage_class_name.as_deref(), Some("new"));
}

#[test]
fn a_claim_that_asks_for_no_class_gets_none() {
    let class = json!({"kind": "StorageClass", "metadata": {"name": "std",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let admission = admission(&[class]);
    let mut none: wire::PersistentVolumeClaim =
        serde_json::from_value(json!({"spec": {"storageClassName": ""}})).unwrap();
    admission.claims.complete(&mut none);
    assert_eq!(none.spec.storage_class_name.as_deref(), Some(""));
    let mut absent = wire::PersistentVolumeClaim::default();
    admission.claims.complete(&mut absent);
    assert_eq!(absent.spec.storage_class_name.as_deref(), Some("std"));
}

#[test]
fn a_claim_on_devices_is_made_from_its_template_once() {
    let template = json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "gpu", "namespace": "shop"},
        "spec": {"spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.example"}}]}}}});
    let spec = json!({"resourceClaims": [
        {"name": "one", "resourceClaimTemplateName": "gpu"},
        {"name": "shared", "resourceClaimName": "other"},
        {"name": "missing", "resourceClaimTemplateName": "none"},
    ]});
    let admitted = admit(std::slice::from_ref(&template), &spec).unwrap();
    let [claim] = admitted.resource_claims.as_slice() else {
        panic!()
    };
    assert_eq!(claim.metadata.full_name(), "shop/web-one");
    assert_eq!(claim.spec.devices.requests[0].name, "g");
    let [status] = admitted.pod.status.resource_claim_statuses.as_slice() else {
        panic!()
    };
    assert_eq!(
        (status.name.as_str(), status.resource_claim_name.as_deref()),
        ("one", Some("web-one"))
    );
    let again = PodManifest {
        pod: admitted.pod,
        ..PodManifest::default()
    };
    assert!(
        admission(&[template])
            .admit(again)
            .unwrap()
            .resource_claims
            .is_empty()
    );
}

#[test]
fn s7_015_a_group_gets_its_priority_from_its_class_as_a_pod_does() {
    let group = |spec: Value, uid: &str| {
        let metadata = json!({"name": "train", "namespace": "shop", "uid": uid});
        let group = json!({"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v1beta1",
            "metadata": metadata, "spec": spec});
        Kind::PodGroup.read_value(&group).unwrap()
    };
    let classes = [
        priority_class("vip", 1000, &json!({})),
        priority_class("normal", 500, &json!({"globalDefault": true})),
    ];
    let priority = |object: Object| {
        let completed = admission(&classes).complete(object).unwrap();
        match completed.objects.into_iter().next() {
            Some(Object::PodGroup(group)) => group.spec.priority,
            _ => None,
        }
    };
    let vip = json!({"priorityClassName": "vip"});
    assert_eq!(priority(group(vip.clone(), "")), Some(1000));
    assert_eq!(priority(group(json!({}), "")), Some(500));
    assert_eq!(priority(group(json!({"priority": 7}), "")), Some(7));
    // An API server has stored this one without a priority.
    assert_eq!(priority(group(vip, "1")), None);
    let unknown = group(json!({"priorityClassName": "vpi"}), "");
    let refusal = admission(&classes).complete(unknown).unwrap_err();
    let start = "shop/train: spec.priorityClassName: \"vpi\" is not in the input";
    assert!(refusal.to_string().starts_with(start), "{refusal}");
}
