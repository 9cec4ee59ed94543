use super::*;
use crate::document::bytes_of;
use evictd_pod::Critical;
use std::{fs, io::Write, path::Path};

fn pods(name: &str, text: &str) -> Result<Vec<String>, String> {
    let document = Document::new(name, text.to_owned()).map_err(|error| error.to_string())?;
    let pods = document.pods().map_err(|error| error.to_string())?;
    Ok(pods.iter().map(evictd_pod::Pod::full_name).collect())
}

#[test]
fn a_list_a_pod_and_documents_of_either() {
    let table = [
        (
            r#"{"kind":"PodList","items":[{"metadata":{"name":"a","namespace":"n"}},{"kind":"Pod"}]}"#,
            vec!["n/a", "default/"],
        ),
        (r#"{"kind":"List","apiVersion":"v1","items":[]}"#, vec![]),
        (r#"{"kind":"PodList","items":null}"#, vec![]),
        (r#"{"items":[{}]}"#, vec!["default/"]),
        (
            r#"{"kind":"Pod","metadata":{"name":"a"}}"#,
            vec!["default/a"],
        ),
        (
            "\u{feff}{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}",
            vec!["default/a"],
        ),
        ("kind: Pod\nmetadata: {name: a}\n", vec!["default/a"]),
        (
            "---\nkind: Pod\nmetadata: {name: a}\n---\nkind: List\nitems:\n- metadata: {name: b}\n- metadata: {name: c}\n",
            vec!["default/a", "default/b", "default/c"],
        ),
        ("kind: PodList\nitems:\n", vec![]),
    ];
    for (text, names) in table {
        assert_eq!(pods("x", text).unwrap(), names, "{text}");
    }
}

#[test]
fn yaml_may_begin_with_a_brace_where_the_name_says_yaml() {
    let text = "{kind: Pod, metadata: {name: a}}";
    assert_eq!(pods("pod.yaml", text).unwrap(), ["default/a"]);
    assert!(pods("pod", text).unwrap_err().starts_with("pod:1:2: "));
}

#[test]
fn an_unknown_key_is_reported_with_the_nearest_known_one() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Job {
        arrival: u32,
        duration: u32,
    }
    for (text, place) in [
        ("- arival: 1\n  duration: 2\n", "x:1:11: [0].arival: "),
        (
            "[{\"duration\": 2,\n  \"arival\": 1}]",
            "x:2:13: [0].arival: ",
        ),
    ] {
        let document = Document::new("x", text.to_owned()).unwrap();
        let error = document.parse::<Vec<Job>>().unwrap_err().to_string();
        let wanted = format!("{place}unknown field `arival`; the nearest is `arrival`");
        assert!(error.starts_with(&wanted), "{error}");
    }
}

#[test]
fn documents_that_are_not_kubernetes_objects() {
    let no_kind = "is not a Kubernetes object, because it has no kind";
    let table = [
        ("{}", format!("x:1:1: {no_kind}")),
        (r#"{"a":[1,2]}"#, format!("x:1:1: {no_kind}")),
        ("a: 1", format!("x:1:1: {no_kind}")),
        (
            r#"{"kind":"Deployment"}"#,
            "x: holds no Pod; it holds 1 Deployment".to_owned(),
        ),
        (
            r#"{"kind":"List","items":[{"kind":"Service","metadata":{"name":"s"}}]}"#,
            "x: holds no Pod; it holds 1 Service".to_owned(),
        ),
        ("[1,2]", "x:1:2: items[0]: is no object".to_owned()),
        ("just words", "x:1:1: is no object".to_owned()),
    ];
    for (text, error) in table {
        let found = pods("x", text).unwrap_err();
        assert!(found.starts_with(&error), "{text}\n{found}");
    }
}

const WRONG_JSON: &str = r#"{
  "kind": "PodList",
  "items": [
    {"metadata": {"name": "good"}},
    {"metadata": {"name": "bad", "namespace": "prod"},
     "spec": {
       "priority": "high",
       "containers": [
         {"name": "c", "resources": {"requests": {"cpu": "many", "memory": "1Gi"}}},
         {"name": 5}
       ]
     }
    },
    {"spec": {"volumes": {}}}, 7
  ]
}"#;

const WRONG_YAML: &str = "kind: PodList
items:
- metadata: {name: good}
- metadata: {name: bad, namespace: prod}
  spec:
    priority: high
    containers:
    - name: c
      resources: {requests: {cpu: many, memory: 1Gi}}
    - name: {}
- spec:
    volumes: {a: 1}
- 7
";

#[test]
fn every_mistake_with_its_place_its_pod_and_its_key() {
    let quantity = "\"many\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let expected = [
        "7:20: Pod prod/bad: spec.priority: invalid type: string \"high\", expected i32",
        &format!("9:58: Pod prod/bad: spec.containers[0].resources.requests.cpu: {quantity}"),
        "10:19: Pod prod/bad: spec.containers[1].name: invalid type: integer `5`, expected a string",
        "14:26: Pod items[2]: spec.volumes: invalid type: map, expected a sequence",
        "14:32: items[3]: is no object",
    ];
    let found = pods("p.json", WRONG_JSON).unwrap_err();
    assert_eq!(
        found.replace("p.json:", "").lines().collect::<Vec<_>>(),
        expected
    );
    let expected = [
        "6:15: Pod prod/bad: spec.priority: invalid type: string \"high\", expected i32",
        &format!("9:35: Pod prod/bad: spec.containers[0].resources.requests.cpu: {quantity}"),
        "10:13: Pod prod/bad: spec.containers[1].name: invalid type: map, expected a string",
        "12:14: Pod items[2]: spec.volumes: invalid type: map, expected a sequence",
        "13:3: items[3]: is no object; a Kubernetes object or a list of them is needed",
    ];
    let found = pods("p.yaml", WRONG_YAML).unwrap_err();
    assert_eq!(
        found.replace("p.yaml:", "").lines().collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn syntax_errors_say_where() {
    let table = [
        ("{\"kind\":\"Pod\",\n  oops}", "x:2:3: expected a key"),
        ("{\"kind\":\"Pod\"", "x:1:14: "),
        ("{\"kind\":\"PodList\",\"items\":[{\"spec\":{},}]}", "x:1:"),
        (
            "kind: Pod\n a: [1\n",
            "x:2:3: mapping values are not allowed in this context",
        ),
        (
            "kind: Pod\nkind: Pod\n",
            "x:2:1: duplicate mapping key `kind`",
        ),
    ];
    for (text, error) in table {
        let found = pods("x", text).unwrap_err();
        assert!(found.starts_with(error), "{text}\n{found}");
    }
}

#[test]
fn aliases_of_aliases_do_not_blow_up() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{},", level - 1).repeat(10);
        let line = format!("a{level}: &a{level} [{alias}]\n");
        text.push_str(&line);
    }
    let error = pods("x", &text).unwrap_err();
    assert!(error.contains("too large or too complex"), "{error}");
}

#[test]
fn the_search_ends_at_a_hundred() {
    let text = format!(
        r#"{{"kind":"PodList","items":[{}7]}}"#,
        r#"{"spec":7},"#.repeat(150)
    );
    let error = pods("x", &text).unwrap_err();
    assert_eq!(error.lines().count(), 101);
    assert!(error.ends_with("x: there may be more mistakes"));
}

#[test]
fn one_pod_where_one_is_needed() {
    let one = |text: &str| {
        let document = Document::new("x", text.to_owned()).unwrap();
        document
            .pod()
            .map(|pod| pod.name)
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        one(r#"{"kind":"Pod","metadata":{"name":"a"}}"#).unwrap(),
        "a"
    );
    assert_eq!(
        one(r#"{"items":[{"metadata":{"name":"a"}}]}"#).unwrap(),
        "a"
    );
    assert_eq!(
        one(r#"{"items":[]}"#).unwrap_err(),
        "x: holds 0 pods; exactly one is needed"
    );
    assert_eq!(
        one(r#"{"items":[{},{}]}"#).unwrap_err(),
        "x: holds 2 pods; exactly one is needed"
    );
}

#[test]
fn a_manifest_that_names_a_built_in_class_has_its_priority() {
    let priority = |spec: &str| {
        let text = format!("kind: Pod\nspec: {spec}");
        Document::new("x", text)
            .unwrap()
            .pod()
            .unwrap()
            .spec_priority
    };
    assert_eq!(
        priority("{priorityClassName: system-node-critical}"),
        Some(2_000_001_000)
    );
    assert_eq!(
        priority("{priorityClassName: system-node-critical, priority: 3}"),
        Some(3)
    );
    assert_eq!(priority("{priorityClassName: mine}"), None);
}

#[test]
fn any_type_with_places() {
    let parse = |name: &str, text: &str| {
        let document = Document::new(name, text.to_owned()).unwrap();
        let node = document.parse::<evictd_pod::Node>();
        node.map(|node| node.metadata.name)
            .map_err(|error| error.to_string())
    };
    assert_eq!(parse("n", "metadata: {name: a}").unwrap(), "a");
    assert_eq!(parse("n", r#"{"metadata":{"name":"a"}}"#).unwrap(), "a");
    let wrong = "metadata: {name: a}\nstatus:\n  allocatable:\n    cpu: many\n    memory: much\n";
    let error = parse("n", wrong).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert!(
        lines[0].starts_with("n:4:10: a: status.allocatable.cpu: \"many\": "),
        "{error}"
    );
    assert!(
        lines[1].starts_with("n:5:13: a: status.allocatable.memory: \"much\": "),
        "{error}"
    );
    assert_eq!(lines.len(), 2);
}

fn read(path: &Path, limit: u64) -> String {
    match Document::read(path, limit) {
        Ok(document) => document.text().to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let write = |bytes: &[u8]| {
        let path = directory.path().join("file");
        fs::File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    };
    let here = directory.path().display();
    assert_eq!(read(&write(b"kind: Pod"), SMALL), "kind: Pod");
    assert_eq!(read(&write(b""), SMALL), format!("{here}/file: is empty"));
    assert_eq!(
        read(&write(b" \n\t\n"), SMALL),
        format!("{here}/file: is empty")
    );
    assert_eq!(
        read(&write(b"a\n\xffb"), SMALL),
        format!("{here}/file:2: is not UTF-8 text")
    );
    // Only the first problem, because bytes after a NUL may not have been read.
    assert_eq!(
        read(&write(b"a\0\n\xffb"), SMALL),
        format!("{here}/file:1: is not UTF-8 text")
    );
    assert_eq!(
        read(&write(b"a\n\xffb\n\0"), SMALL),
        format!("{here}/file:2: is not UTF-8 text")
    );
    assert_eq!(
        read(&write(b"123456789"), 8),
        format!("{here}/file: is larger than 8 bytes")
    );
    assert_eq!(read(&write(b"12345678"), 8), "12345678");
    assert_eq!(
        read(directory.path(), SMALL),
        format!("{here}: is a directory; a file is needed")
    );
    assert_eq!(
        read(&directory.path().join("none"), SMALL),
        format!("{here}/none: No such file or directory (os error 2)")
    );
    // It opens without a known length, and reading its start fails.
    assert!(read(Path::new("/proc/self/mem"), SMALL).starts_with("/proc/self/mem: "));
    // It never ends.
    assert_eq!(
        read(Path::new("/dev/zero"), SMALL),
        "/dev/zero:1: is not UTF-8 text"
    );
}

#[test]
fn annotations_of_a_tenant_make_no_pod_static_or_a_mirror() {
    let pod = |name: &str, uid: &str, annotations: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"7","annotations":{{{annotations}}}}}}}"#
        )
    };
    let source = r#""kubernetes.io/config.source":"file""#;
    let mirror = |uid: &str| format!(r#""kubernetes.io/config.mirror":"{uid}""#);
    let items = [
        pod("hog", "1", source),
        pod("forger", "2", &mirror("1")),
        pod("of itself", "3", &mirror("3")),
        pod("etcd", "4", &[source, &mirror("cafe")].join(",")),
    ];
    let list = format!(r#"{{"kind":"PodList","items":[{}]}}"#, items.join(","));
    let pods = Document::new("n", list).unwrap().pods().unwrap();
    let critical: Vec<_> = pods.iter().map(|pod| pod.critical).collect();
    assert_eq!(critical, [None, None, None, Some(Critical::Mirror)]);
}

#[test]
fn a_node_comes_alone_or_in_a_list_with_its_lease() {
    let read = |text: &str| {
        let document = Document::new("node.yaml", text.to_owned()).unwrap();
        let found = document.node_and_lease().map_err(|error| error.to_string());
        found.map(|(node, lease)| (node.metadata.name, lease.map(|lease| lease.metadata.name)))
    };
    let node = "{kind: Node, metadata: {name: one}}";
    let lease = |name: &str| format!("{{kind: Lease, metadata: {{name: {name}}}}}");
    let list = |items: &[&str]| format!("{{kind: List, items: [{}]}}", items.join(", "));
    let alone = Ok(("one".to_owned(), None));
    assert_eq!(read(node), alone);
    assert_eq!(read(&list(&[node])), alone);
    assert_eq!(read(&list(&["{kind: Secret}", node, &lease("two")])), alone);
    let both = list(&[&lease("two"), &lease("one"), node]);
    assert_eq!(read(&both), Ok(("one".to_owned(), Some("one".to_owned()))));
    for (nodes, wrong) in [
        (list(&[]), "holds no Node; it holds nothing"),
        (list(&[node, node]), "holds 2 nodes"),
    ] {
        assert!(read(&nodes).unwrap_err().contains(wrong), "{nodes}");
    }
    let wrong = read("{kind: Pod}").unwrap_err();
    assert!(wrong.contains("holds no Node; it holds 1 Pod"), "{wrong}");
}

#[test]
fn no_uid_is_there_twice_and_no_amount_is_negative() {
    let pod = |name: &str, uid: &str, memory: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}"}},
"spec":{{"containers":[{{"resources":{{"requests":{{"memory":"{memory}"}}}}}}]}}}}"#
        )
    };
    let list = |pods: &[String]| format!(r#"{{"kind":"List","items":[{}]}}"#, pods.join(","));
    let twins = list(&[pod("a", "1", "1Mi"), pod("b", "1", "1Mi")]);
    let said = "p.json:2:70: Pod n/b: metadata.uid: \"1\" is also the UID of another object";
    assert_eq!(pods("p.json", &twins).unwrap_err(), said);
    let negative = list(&[pod("a", "1", "1Mi"), pod("b", "2", "-1Mi")]);
    let said = "Pod n/b: spec.containers[0].resources.requests.memory: -1Mi is negative";
    assert_eq!(
        pods("p.json", &negative).unwrap_err(),
        format!("p.json:3:58: {said}")
    );
    assert_eq!(
        pods("p.yaml", &negative).unwrap_err(),
        format!("p.yaml:3:58: {said}")
    );
    let node = Document::new(
        "n.json",
        r#"{"kind":"Node","metadata":{"name":"one"},"status":{"allocatable":{"memory":"-5"}}}"#
            .to_owned(),
    );
    assert_eq!(
        node.unwrap().node_and_lease().unwrap_err().to_string(),
        "n.json:1:76: Node one: status.allocatable.memory: -5 is negative"
    );
}

#[test]
fn the_pods_of_a_directory_count_once_and_all_its_mistakes_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let read = || pods_at(folder.path()).map_err(|error| error.to_string());
    let pod = |name: &str, memory: &str| {
        format!(
            r#"{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"n","uid":"{name}"}},
"spec":{{"containers":[{{"resources":{{"requests":{{"memory":"{memory}"}}}}}}]}}}}"#
        )
    };
    fs::create_dir(folder.path().join("n")).unwrap();
    write("a.json", &pod("a", "1Mi"));
    write("values.yaml", "replicas: 3");
    write("node.json", r#"{"kind":"Node","metadata":{"name":"one"}}"#);
    write("n/b.yaml", &pod("b", "1Mi"));
    write("n/same.json", &pod("a", "1Mi"));
    let (found, assumptions) = read().unwrap();
    let names: Vec<&str> = found.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["a", "b"]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let lines = [
        "of objects with the same UID only the first is used: Pod n/a".to_owned(),
        format!(
            "files of a directory without a Kubernetes object are left out: {}",
            at("values.yaml")
        ),
    ];
    let said = assumptions.lines();
    assert!(
        said.len() == 2 && lines.iter().all(|line| said.contains(line)),
        "{said:?}"
    );
    let wrong = ["a.json", "n/b.yaml"];
    for name in wrong {
        write(name, &pod(&name.replace('/', "-"), "-1Mi"));
    }
    let error = read().unwrap_err();
    let mistakes: Vec<&str> = error.lines().collect();
    assert_eq!(mistakes.len(), 2, "{error}");
    for (line, name) in mistakes.iter().zip(wrong) {
        assert!(line.starts_with(&at(name)), "{error}");
    }
    for name in ["a.json", "n/b.yaml", "n/same.json"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let none = format!("{}: holds no Pod; it holds 1 Node", folder.path().display());
    assert_eq!(read().unwrap_err(), none);
}

#[test]
fn null_is_no_document() {
    for text in [
        "null",
        " ~ \n",
        "# only words\n",
        "---\n---\n# x\n",
        "--- null # none",
    ] {
        let error = Document::new("x", text.to_owned()).unwrap_err();
        assert!(matches!(error, DocumentError::Null(_)), "{text:?}");
    }
    for text in ["nullable", "kind: x", "---\na: null", "{}", "[null]", "a#b"] {
        assert!(Document::new("x", text.to_owned()).is_ok(), "{text:?}");
    }
}

/// Repeats one word forever and records how much was read.
struct Endless(u64);

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(b'y');
        self.0 += u64::try_from(buffer.len()).unwrap();
        Ok(buffer.len())
    }
}

#[test]
fn endless_input_is_read_up_to_a_limit() {
    let mut endless = Endless(0);
    let error = bytes_of(&mut endless, 0, 3 << 20).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    assert!(endless.0 <= 8 << 20, "{} bytes were read", endless.0);
    let zeros = bytes_of(std::io::repeat(0), 0, LARGE).unwrap();
    assert!(zeros.len() <= 2 << 20);
}
