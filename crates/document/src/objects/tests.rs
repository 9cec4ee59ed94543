use super::*;
use evictd_manifests::Object;
use serde_json::{Value, json};

fn source(name: &str, text: &str) -> Source<std::io::Cursor<Vec<u8>>> {
    let text = std::io::Cursor::new(text.as_bytes().to_vec());
    Source::new(name.to_owned(), text)
}

/// The titles of the objects of a cluster, and the rest that was loaded.
fn cluster(texts: &[&str]) -> Result<(Vec<String>, Loaded), String> {
    let mut objects: Vec<Object> = Vec::new();
    let mut loader = Loader::of_cluster(&mut objects, true);
    for (index, text) in texts.iter().enumerate() {
        let read = loader.read(source(&format!("file{index}"), text));
        read.map_err(|error| error.to_string())?;
    }
    let rest = loader.finish().map_err(|error| error.to_string())?;
    Ok((objects.iter().map(Object::to_string).collect(), rest))
}

fn titles(texts: &[&str]) -> Vec<String> {
    cluster(texts).unwrap().0
}

#[test]
fn lists_arrays_and_several_documents_hold_the_same_objects() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "1"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "2"}});
    let inner = json!({"kind": "List", "items": [pod]});
    let forms = [
        json!({"kind": "List", "items": [node, pod]}).to_string(),
        json!([node, pod]).to_string(),
        json!({"kind": "List", "items": [node, inner]}).to_string(),
        format!("{node}\n{pod}\n"),
        format!("---\n{node}\n---\n---\n# nothing\n---\n{pod}\n"),
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1, uid: '1'}\n---\nkind: PodList\nitems:\n- metadata: {name: web, namespace: shop, uid: '2'}\n"
            .to_owned(),
    ];
    for form in forms {
        assert_eq!(titles(&[&form]), ["Node n1", "Pod shop/web"], "{form}");
    }
    let (node, pod) = (node.to_string(), pod.to_string());
    assert_eq!(titles(&[&node, &pod]), ["Node n1", "Pod shop/web"]);
}

#[test]
fn a_custom_resource_with_the_name_of_a_kind_is_another_kind() {
    let text = json!([
        {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "n1"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "1"}},
        {"apiVersion": "extensions/v1beta1", "kind": "ReplicaSet", "metadata": {"name": "web"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
    ]);
    let (titles, loaded) = cluster(&[&text.to_string()]).unwrap();
    assert_eq!(titles, ["Node n1", "ReplicaSet default/web"]);
    let ignored: Vec<_> = loaded.ignored.into_iter().collect();
    assert_eq!(
        ignored,
        [
            ("Node of longhorn.io".to_owned(), 1),
            ("Secret".to_owned(), 1)
        ]
    );
}

#[test]
fn every_mistake_of_every_file_is_reported_with_its_place() {
    let json = "{\"kind\": \"List\", \"items\": [\n{\"kind\": \"Node\", \"metadata\": {\"name\": 5}},\n{\"kind\": \"Pod\", \"metadata\": {}},\n7]}";
    let yaml = "kind: Pod\nmetadata: {name: web}\nspec:\n  priority: high\n  containers:\n  - name: a\n    resources:\n      requests:\n        cpu: -1\n---\nkind: Pod\nmetadata: {name: low}\nspec:\n  containers:\n  - name: a\n    resources:\n      requests:\n        cpu: -1\n";
    let broken = "kind: [";
    let text = cluster(&[json, yaml, broken]).unwrap_err();
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "file0:2:39: Node items[0]: metadata.name: invalid type: integer `5`, expected a string",
        "file0:3:1: Pod items[1]: metadata.name: is missing",
        "file0:4:1: items[2]: is no object",
        "file1:4:13: Pod web: spec.priority: invalid type: string \"high\", expected i32",
        "file1:18:14: Pod default/low: spec.containers[0].resources.requests.cpu: -1 is negative",
    ];
    assert_eq!(lines[..5], expected, "{text}");
    assert!(lines[5].starts_with("file2:1:7: "), "{text}");
    assert_eq!(lines.len(), 6, "{text}");
}

#[test]
fn pods_are_completed_from_objects_that_follow_them() {
    let pod =
        json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"priorityClassName": "vip"}});
    let class = json!({"kind": "PriorityClass", "metadata": {"name": "vip"}, "value": 7});
    let mut objects: Vec<Object> = Vec::new();
    let mut loader = Loader::of_cluster(&mut objects, false);
    loader.read(source("pod", &pod.to_string())).unwrap();
    loader.read(source("class", &class.to_string())).unwrap();
    loader.finish().unwrap();
    let Some(Object::Pod(manifest)) = objects.last() else {
        panic!("{objects:?}")
    };
    assert_eq!(manifest.pod.spec.priority, Some(7));
    let text = cluster(&[&pod.to_string()]).unwrap_err();
    assert_eq!(
        text,
        "file0:1:1: Pod default/web: spec.priorityClassName: \"vip\" is not in the input; known are \
         system-cluster-critical, system-node-critical"
    );
}

/// The titles of the objects that manifests add to a cluster, and the assumptions.
fn manifests(there: &Value, coming: &[&str]) -> (Vec<String>, Vec<String>) {
    let (_, there) = cluster(&[&there.to_string()]).unwrap();
    let mut objects: Vec<Object> = Vec::new();
    let mut loader = Loader::of_manifests(&mut objects, there);
    for text in coming {
        loader.read(source("chart", text)).unwrap();
    }
    let rest = loader.finish().unwrap();
    let titles = objects.iter().map(Object::to_string).collect();
    (titles, rest.assumptions.lines())
}

#[test]
fn a_rendered_chart_becomes_its_pods_in_order() {
    let there = json!([
        {"kind": "Node", "metadata": {"name": "n1", "uid": "1"}, "status": {"capacity": {"cpu": "1"}}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0", "uid": "2"}},
    ]);
    let template = "template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}";
    let chart = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n---\n\
         apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db}}\nspec:\n  replicas: 2\n  {template}\n  \
         volumeClaimTemplates: [{{metadata: {{name: data}}}}]\n---\n\
         kind: Pod\nmetadata: {{name: one}}\n---\n\
         apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: agent}}\nspec:\n  {template}\n"
    );
    let (titles, _) = manifests(&there, &[&chart]);
    assert_eq!(
        titles,
        [
            "Service default/s",
            "PersistentVolumeClaim default/data-db-1",
            "Pod default/db-0",
            "Pod default/db-1",
            "Pod default/one",
            "Pod default/agent-n1",
        ]
    );
}

#[test]
fn workloads_of_a_dump_are_not_expanded_beside_their_pods() {
    let owner = |kind: &str, name: &str| json!([{"kind": kind, "name": name, "controller": true}]);
    let template = json!({"spec": {"containers": [{"name": "c"}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "uid": "2", "ownerReferences": owner("Deployment", "web")},
        "spec": {"replicas": 2, "template": template}});
    let pod = json!({"kind": "Pod", "metadata": {"name": "web-1-x", "uid": "3", "ownerReferences": owner("ReplicaSet", "web-1")},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    let there = json!([{"kind": "Node", "metadata": {"name": "n1", "uid": "1"}}, set, pod]);
    assert_eq!(
        titles(&[&there.to_string()]),
        ["Node n1", "ReplicaSet default/web-1", "Pod default/web-1-x"]
    );
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "template": template}});
    let (titles, assumptions) = manifests(&there, &[&deployment.to_string()]);
    assert_eq!(titles, ["Pod default/web-0"]);
    let note = "Deployment default/web: 1 of 2 pods exist already";
    assert!(
        assumptions.iter().any(|line| line == note),
        "{assumptions:?}"
    );
}

#[test]
fn a_file_of_a_directory_is_left_out_only_if_it_can_have_no_objects() {
    let name = || "file".to_owned();
    let read = |kind: std::io::ErrorKind| DocumentError::Read {
        name: name(),
        source: kind.into(),
    };
    let limit = LARGEST_YAML;
    for (error, expected) in [
        (
            DocumentError::TooLarge {
                name: name(),
                limit,
            },
            true,
        ),
        (read(std::io::ErrorKind::PermissionDenied), true),
        (read(std::io::ErrorKind::InvalidData), false),
        (
            DocumentError::NotText {
                name: name(),
                line: 1,
            },
            false,
        ),
        (DocumentError::Empty(name()), false),
    ] {
        assert_eq!(loader::may_hide_objects(&error), expected, "{error}");
    }
}
