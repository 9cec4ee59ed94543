//! A cluster has the same answers in every shape and encoding of a dump.

use crate::agreement::{ask, list, merge, written};
use crate::scheduler;
use evictd_testkit::program;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A small cluster with storage and devices, as an API server has stored it.
fn objects() -> Vec<Value> {
    let node = |name: &str, zone: &str| {
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "uid": name,
            "labels": { "kubernetes.io/hostname": name, "zone": zone },
            "managedFields": [{ "manager": "kubelet", "operation": "Update", "fieldsV1": { "f:status": { "f:items": {} } } }] },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } } })
    };
    let running = |name: &str, node: &str, cpu: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "shop", "uid": name, "labels": { "app": name } },
            "spec": { "nodeName": node, "priority": 0, "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
            "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z" } })
    };
    vec![
        node("n1", "a"),
        node("n2", "b"),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop", "uid": "shop" } }),
        running("hog", "n1", "3"),
        running("pig", "n2", "2"),
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "keep", "namespace": "shop", "uid": "k" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "hog" } } }, "status": { "disruptionsAllowed": 0 } }),
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "vip", "uid": "v" }, "value": 1000 }),
        json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data", "namespace": "shop", "uid": "d" },
            "spec": { "volumeName": "pv", "storageClassName": "std", "accessModes": ["ReadWriteOnce"] }, "status": { "phase": "Bound" } }),
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "pv", "uid": "pv" },
            "spec": { "claimRef": { "namespace": "shop", "name": "data", "uid": "d" }, "capacity": { "storage": "1Gi" },
                "accessModes": ["ReadWriteOnce"], "storageClassName": "std", "nodeAffinity": { "required": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["b"] }] }] } } }, "status": { "phase": "Bound" } }),
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "std", "uid": "std" }, "provisioner": "p" }),
    ]
}

/// The questions: one of each outcome.
fn questions() -> Vec<Value> {
    let pod = |name: &str, spec: &Value| {
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "shop" },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } });
        merge(&mut pod, &json!({ "spec": spec }));
        pod
    };
    let large = json!([{ "name": "c", "resources": { "requests": { "cpu": "3" } } }]);
    let volume = |claim: &str| json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] });
    vec![
        pod("fits", &json!({})),
        pod("fits-nowhere", &json!({ "containers": large })),
        pod(
            "preempts",
            &json!({ "containers": large, "priorityClassName": "vip" }),
        ),
        pod("bound", &volume("data")),
        pod("lost", &volume("absent")),
    ]
}

/// Objects that decide nothing, some of which share the name of a kind that does.
fn unrelated() -> [Value; 4] {
    [
        json!({ "apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": { "name": "n1", "namespace": "longhorn-system" },
            "spec": { "allowScheduling": true }, "status": { "conditions": "none" } }),
        json!({ "apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": { "name": "s" }, "spec": { "selector": 7 } }),
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "i" } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": { "items": "[]" } }),
    ]
}

/// The kinds of the cluster, with their versions.
const KINDS: [(&str, &str); 8] = [
    ("Node", "v1"),
    ("Namespace", "v1"),
    ("Pod", "v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("PriorityClass", "scheduling.k8s.io/v1"),
    ("PersistentVolumeClaim", "v1"),
    ("PersistentVolume", "v1"),
    ("StorageClass", "storage.k8s.io/v1"),
];

/// The same objects as users have them in files.
fn shapes() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let objects = objects();
    let of = |kinds: &[&str]| -> Vec<Value> {
        let some = objects
            .iter()
            .filter(|object| kinds.contains(&object["kind"].as_str().unwrap()));
        some.cloned().collect()
    };
    // Items of a typed list have neither kind nor apiVersion.
    let typed = |kind: &str, version: &str| {
        let mut items = of(&[kind]);
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
        json!({ "kind": format!("{kind}List"), "apiVersion": version, "metadata": { "resourceVersion": "9" }, "items": items })
    };
    let bundle = KINDS.iter().zip(["1", "2", "3", "4", "5", "6", "7", "8"]);
    let bundle = bundle.map(|((kind, version), file)| (file, typed(kind, version).to_string()));
    let mut dump = String::new();
    for (kind, version) in KINDS {
        writeln!(dump, "{:#}", typed(kind, version)).unwrap();
        dump += "==== START logs for container c of pod shop/hog ====\n{\"level\": \"info\"\n==== not the end\n";
        dump += "==== END logs for container c of pod shop/hog ====\n";
    }
    dump += &json!({ "kind": "EventList", "apiVersion": "v1", "items": [{ "reason": "Started" }] })
        .to_string();
    let export = json!({
        "pods": typed("Pod", "v1")["items"], "nodes": typed("Node", "v1")["items"],
        "pvs": typed("PersistentVolume", "v1")["items"], "pvcs": typed("PersistentVolumeClaim", "v1")["items"],
        "storageClasses": typed("StorageClass", "v1")["items"], "priorityClasses": typed("PriorityClass", "v1")["items"],
        "namespaces": typed("Namespace", "v1")["items"],
        "schedulerConfig": { "kind": "KubeSchedulerConfiguration", "profiles": [] },
    });
    let budgets = list(&of(&["PodDisruptionBudget"]));
    let yaml = |objects: &[Value]| -> String {
        let documents = objects
            .iter()
            .map(|object| serde_saphyr::to_string(object).unwrap());
        let head = "---\n# Source: chart/templates/x.yaml\n";
        documents
            .flat_map(|text| [head.to_owned(), text, "\n".to_owned()])
            .collect()
    };
    let crds = unrelated();
    let mut old = objects.clone();
    for object in &mut old {
        let version = match object["kind"].as_str().unwrap() {
            "PodDisruptionBudget" => "policy/v1beta1",
            "PriorityClass" => "scheduling.k8s.io/v1beta1",
            "StorageClass" => "storage.k8s.io/v1beta1",
            _ => continue,
        };
        object["apiVersion"] = json!(version);
    }
    let inner = json!({ "apiVersion": "v1", "kind": "List", "items": of(&["Node", "Pod"]) });
    let rest = of(&[
        "Namespace",
        "PodDisruptionBudget",
        "PriorityClass",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
    ]);
    let nested = json!({ "apiVersion": "v1", "kind": "List", "items": [inner, { "kind": "List", "items": rest }] });
    vec![
        ("a List", vec![("1", list(&objects))]),
        ("an array", vec![("1", json!(objects).to_string())]),
        ("a support bundle", bundle.collect()),
        ("kubectl cluster-info dump", vec![("1", dump)]),
        (
            "an export of a simulator",
            vec![("1", export.to_string()), ("2", budgets.clone())],
        ),
        (
            "the same in YAML",
            vec![
                ("1.yaml", serde_saphyr::to_string(&export).unwrap()),
                ("2", budgets),
            ],
        ),
        ("several documents", vec![("1.yaml", yaml(&objects))]),
        (
            "a rendered chart beside",
            vec![("1", list(&objects)), ("2.yaml", yaml(&crds))],
        ),
        (
            "resources that share a kind's name",
            vec![("1", list(&[&crds[..], &objects].concat()))],
        ),
        ("older versions", vec![("1", list(&old))]),
        ("Lists in a List", vec![("1", nested.to_string())]),
    ]
}

/// Files of a shape by path, and the path that a user gives.
struct Tree {
    shape: &'static str,
    files: Vec<(String, Vec<u8>)>,
    given: &'static str,
}

/// The same objects in other encodings, and in the directories that tools write.
fn trees() -> Vec<Tree> {
    let objects = objects();
    let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        let text = format!("\u{feff}{text}");
        text.encode_utf16().flat_map(bytes).collect()
    };
    let windows = list(&objects).replace(',', ",\r\n");
    let yaml = serde_saphyr::to_string(&json!({ "kind": "List", "items": objects })).unwrap();
    let (some, others) = objects.split_at(3);
    let appended = format!("\u{feff}{}\r\n\u{feff}{}", list(some), list(others));
    let file = |shape, bytes| Tree {
        shape,
        files: vec![("cluster.json".to_owned(), bytes)],
        given: "cluster.json",
    };
    let directory = |shape, files| Tree {
        shape,
        files,
        given: "",
    };
    vec![
        file("UTF-16 of PowerShell", utf16(&windows, u16::to_le_bytes)),
        file("UTF-16, high byte first", utf16(&windows, u16::to_be_bytes)),
        file("YAML in UTF-16", utf16(&yaml, u16::to_le_bytes)),
        file("marked UTF-8", format!("\u{feff}{windows}").into_bytes()),
        file("two marked files in one", appended.into_bytes()),
        directory("cluster-info dump --output-directory", cluster_info_dump()),
        directory("a support bundle", support_bundle()),
        directory("a must-gather", must_gather()),
    ]
}

/// The objects of a kind without their kind and version.
fn bare(kind: &str) -> Vec<Value> {
    let mut items: Vec<Value> = objects();
    items.retain(|object| object["kind"] == kind);
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("kind");
        item.remove("apiVersion");
    }
    items
}

/// The kinds that `kubectl cluster-info dump` leaves out are given beside its own.
fn cluster_info_dump() -> Vec<(String, Vec<u8>)> {
    let typed = |kind: &str, version: &str| {
        json!({ "kind": format!("{kind}List"), "apiVersion": version, "metadata": {}, "items": bare(kind) }).to_string()
    };
    let mut files = vec![
        ("nodes.json".to_owned(), typed("Node", "v1")),
        ("shop/pods.json".to_owned(), typed("Pod", "v1")),
        ("shop/events.json".to_owned(), typed("Event", "v1")),
        ("shop/hog/logs.txt".to_owned(), "kind: Node\n".to_owned()),
    ];
    for (kind, version) in &KINDS[1..] {
        if *kind != "Pod" {
            files.push((format!("more/{kind}.json"), typed(kind, version)));
        }
    }
    bytes(files)
}

/// The objects of old bundles have no kind, only their files are named by it. Other files hold errors or answers.
fn support_bundle() -> Vec<(String, Vec<u8>)> {
    let array = |kind: &str| json!(bare(kind)).to_string();
    let text = |text: &str| text.to_owned();
    bytes(vec![
        (
            text("version.yaml"),
            text("apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\n"),
        ),
        (
            text("cluster-info/cluster_version.json"),
            text("{\"info\": {\"major\": \"1\"}, \"string\": \"v1.36.2\"}"),
        ),
        (text("cluster-resources/nodes.json"), array("Node")),
        (text("cluster-resources/nodes-errors.json"), text("null")),
        (
            text("cluster-resources/namespaces.json"),
            array("Namespace"),
        ),
        (text("cluster-resources/pods/shop.json"), array("Pod")),
        (text("cluster-resources/pods/default.json"), text("[]")),
        (
            text("cluster-resources/pods-errors.json"),
            text("[\"forbidden\"]"),
        ),
        (
            text("cluster-resources/auth-cani-list/shop.json"),
            text("[{\"verbs\": [\"*\"]}]"),
        ),
        (
            text("cluster-resources/pod-disruption-budgets/shop.json"),
            array("PodDisruptionBudget"),
        ),
        (
            text("cluster-resources/priority-classes.json"),
            array("PriorityClass"),
        ),
        (
            text("cluster-resources/pvcs/shop.json"),
            array("PersistentVolumeClaim"),
        ),
        (
            text("cluster-resources/pvs.json"),
            array("PersistentVolume"),
        ),
        (
            text("cluster-resources/storage-classes.json"),
            array("StorageClass"),
        ),
        (
            text("host-collectors/system/cpu.json"),
            text("{\"logicalCount\": 4"),
        ),
        (text(".hidden.json"), text("{\"kind\": \"Node\"}")),
    ])
}

/// A list and single objects of the same pods.
fn must_gather() -> Vec<(String, Vec<u8>)> {
    let yaml = |value: &Value| serde_saphyr::to_string(value).unwrap();
    let mut files = vec![(
        "namespaces/shop/core/pods.yaml".to_owned(),
        yaml(&json!({ "apiVersion": "v1", "kind": "PodList", "items": bare("Pod") })),
    )];
    for object in objects() {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let (kind, name) = (kind.as_str().unwrap(), name.as_str().unwrap());
        files.push((format!("objects/{kind}/{name}.yaml"), yaml(&object)));
    }
    bytes(files)
}

fn bytes(files: Vec<(String, String)>) -> Vec<(String, Vec<u8>)> {
    let files = files.into_iter();
    files
        .map(|(path, text)| (path, text.into_bytes()))
        .collect()
}

/// What `explain` answers to every question about the cluster. The commands must agree.
fn answers(shape: &str, files: &[PathBuf]) -> Vec<Value> {
    let answer = |pod: Value| {
        let mut answer = ask(files, &pod, None);
        let found = answer.contradictions();
        assert_eq!(found, Vec::<String>::new(), "{shape}: {}", answer.pod);
        answer.explained["warnings"] = json!(null);
        answer.explained
    };
    questions().into_iter().map(answer).collect()
}

#[test]
fn a1_a_cluster_has_the_same_answers_in_every_shape_of_a_dump() {
    let mut expected: Vec<Value> = Vec::new();
    for (shape, files) in shapes() {
        let folder = TempDir::new().unwrap();
        let files: Vec<PathBuf> = files
            .iter()
            .map(|(name, text)| written(&folder, name, text))
            .collect();
        let answers = answers(shape, &files);
        if expected.is_empty() {
            let outcomes = answers
                .iter()
                .map(|answer| (answer["chosen"].clone(), answer["nominated"].clone()));
            let outcomes: Vec<_> = outcomes.collect();
            let none = || json!(null);
            let wanted = [
                (json!("n2"), none()),
                (none(), none()),
                (none(), json!("n2")),
                (json!("n2"), none()),
                (none(), none()),
            ];
            assert_eq!(outcomes, wanted);
            expected = answers;
        } else {
            assert_eq!(json!(answers), json!(expected), "{shape}");
        }
    }
}

#[test]
fn a1_every_encoding_and_directory_of_a_dump_is_read() {
    let folder = TempDir::new().unwrap();
    let expected = answers(
        "a List",
        &[written(&folder, "list.json", &list(&objects()))],
    );
    for Tree {
        shape,
        files,
        given,
    } in trees()
    {
        let folder = TempDir::new().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let given = folder.path().join(given);
        assert_eq!(json!(answers(shape, &[given])), json!(expected), "{shape}");
    }
}

#[test]
fn a1_files_of_a_directory_without_objects_are_named_and_those_with_mistakes_refused() {
    let run = |files: &[(&str, &str)]| {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            written(&folder, name, text);
        }
        let pod = written(&folder, "pod.txt", &questions()[0].to_string());
        let mut program = scheduler();
        program.arg("explain").arg("--cluster").arg(folder.path());
        let output = program::run(program.arg("--pod").arg(pod), "");
        let stderr = String::from_utf8(output.stderr).unwrap();
        (
            output.status.code(),
            stderr.replace(folder.path().to_str().unwrap(), "DIR"),
        )
    };
    let cluster = list(&objects());
    let (code, stderr) = run(&[
        ("a.json", &cluster),
        ("b.json", "[1]"),
        ("c.yaml", "x: y\n"),
    ]);
    let line =
        "files of a directory without a Kubernetes object are left out: DIR/b.json, DIR/c.yaml\n";
    assert!(code == Some(0) && stderr.ends_with(line), "{stderr}");
    // A file that was cut in the middle has objects, so that its mistake counts.
    let (code, stderr) = run(&[("a.json", &cluster[..cluster.len() - 9])]);
    assert!(
        code == Some(2) && stderr.contains("DIR/a.json:1:"),
        "{stderr}"
    );
    let (code, stderr) = run(&[("a.txt", &cluster)]);
    let line = "DIR: is a directory without a .json, .yaml or .yml file\n";
    assert!(code == Some(2) && stderr.ends_with(line), "{stderr}");
    let (code, stderr) = run(&[("a.json", "\u{1f}\u{8b}")]);
    assert!(
        code == Some(2) && stderr.contains("holds no Node"),
        "{stderr}"
    );
}

#[test]
fn a1_devices_of_older_versions_are_read_as_those_of_today() {
    let class = json!({ "apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "g" }, "spec": {} });
    let slice = |version: &str, device: Value| {
        json!({ "apiVersion": version, "kind": "ResourceSlice", "metadata": { "name": "s", "uid": "s" }, "spec": { "driver": "gpu.example",
            "nodeName": "n2", "pool": { "name": "n2", "generation": 1, "resourceSliceCount": 1 }, "devices": [device] } })
    };
    let claim = |version: &str, request: Value| {
        json!({ "apiVersion": version, "kind": "ResourceClaim", "metadata": { "name": "c", "namespace": "shop", "uid": "c" },
            "spec": { "devices": { "requests": [request] } } })
    };
    let fields = json!({ "deviceClassName": "gpu", "selectors": [{ "cel": { "expression": "device.attributes[\"gpu.example\"].model == \"large\"" } }] });
    let attributes = json!({ "model": { "string": "large" } });
    let mut old = fields.clone();
    old["name"] = json!("g");
    let shapes = [
        [
            slice(
                "resource.k8s.io/v1",
                json!({ "name": "gpu-0", "attributes": attributes }),
            ),
            claim(
                "resource.k8s.io/v1",
                json!({ "name": "g", "exactly": fields }),
            ),
        ],
        [
            slice(
                "resource.k8s.io/v1beta1",
                json!({ "name": "gpu-0", "basic": { "attributes": attributes } }),
            ),
            claim("resource.k8s.io/v1beta1", old),
        ],
    ];
    let mut pod = questions()[0].clone();
    merge(
        &mut pod,
        &json!({ "spec": { "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] } }),
    );
    for shape in shapes {
        let folder = TempDir::new().unwrap();
        let cluster = [objects(), vec![class.clone()], shape.to_vec()].concat();
        let cluster = written(&folder, "cluster.json", &list(&cluster));
        let answers = ask(&[cluster], &pod, None);
        assert_eq!(answers.contradictions(), Vec::<String>::new());
        assert_eq!(
            answers.explained["feasible"],
            json!(["n2"]),
            "{}",
            answers.explained
        );
    }
}
