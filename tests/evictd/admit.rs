//! `evictd admit` as a user runs it.

use evictd_testkit::program;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Output,
    thread,
};
use tempfile::TempDir;

/// A directory of input files and the program.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn json(&self, name: &str, value: &Value) -> String {
        self.file(name, value.to_string())
    }
}

fn admit(arguments: &[&str]) -> Output {
    admit_with(arguments, "")
}

/// The same with this on its standard input.
fn admit_with(arguments: &[&str], input: &str) -> Output {
    program::run(crate::evictd(&["admit"]).args(arguments), input)
}

fn answer(arguments: &[&str]) -> Value {
    program::answer(&admit(&[arguments, &["-o", "json"]].concat()))
}

fn refused(arguments: &[&str]) -> String {
    let output = admit(arguments);
    assert!(output.stdout.is_empty());
    program::refusal(&output, 2)
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// What `expected.admission` of a case of the real kubelet says of reason and message.
fn reason_and_message(expected: &Value) -> (String, String) {
    if let Some(error) = expected["error"].as_str() {
        let prefix = "Unexpected error while attempting to recover from admission failure: ";
        return (
            "UnexpectedAdmissionError".to_owned(),
            format!("{prefix}{error}"),
        );
    }
    let reason = expected["remainingReasons"][0].as_str().unwrap_or_default();
    match reason.strip_prefix("Insufficient ") {
        Some(resource) => (
            format!("OutOf{resource}"),
            format!("Node didn't have enough resource: {resource}, "),
        ),
        None if reason.is_empty() => Default::default(),
        None => (reason.to_owned(), format!("Predicate {reason} failed: ")),
    }
}

fn check(bench: &Bench, path: &Path) {
    let case: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let (input, expected) = (&case["input"], &case["expected"]);
    let pod = bench.json("pod.json", &input["admitPod"]);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": input["pods"] });
    let pods = bench.json("pods.json", &list);
    let mut arguments = vec!["--pod", &pod, "--pods", &pods];

    let needs = input["requirements"].as_array().unwrap().iter();
    let needs = needs.map(|need| {
        let resource = need["resource"].as_str().unwrap();
        let unit = if resource == "cpu" { "m" } else { "" };
        format!("{resource}={}{unit}", need["quantity"])
    });
    let needs = needs.collect::<Vec<_>>().join(",");
    if !needs.is_empty() {
        arguments.extend(["--insufficient", &needs]);
    }
    let others = input["nonResourceReasons"].as_array().into_iter().flatten();
    let others = others.map(|name| name.as_str().unwrap());
    let others = others.collect::<Vec<_>>().join(",");
    if !others.is_empty() {
        arguments.extend(["--failed", &others]);
    }

    let answer = answer(&arguments);
    assert_eq!(answer["preempt"], expected["admission"]["killed"]);
    assert_eq!(answer["qos"], expected["qos"]);
    let (reason, message) = reason_and_message(&expected["admission"]);
    assert_eq!(answer["allowed"], reason.is_empty());
    assert_eq!(answer["reason"], reason);
    let told = answer["message"].as_str().unwrap();
    assert!(told.starts_with(&message), "{told}");
    assert_eq!(told.is_empty(), message.is_empty(), "{told}");
}

#[test]
fn s2_001_to_s2_023_every_case_of_the_real_kubelet() {
    let cases = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crates/admission/tests/oracle/critical"
    );
    let bench = Bench::new();
    let files = fs::read_dir(cases)
        .unwrap()
        .map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() >= 72, "{} cases found", files.len());
    for file in files {
        eprintln!("{}", file.display());
        check(&bench, &file);
    }
}

const CRITICAL: &str = "
apiVersion: v1
kind: Pod
metadata: {name: dns, namespace: kube-system}
spec:
  priorityClassName: system-cluster-critical
  containers:
  - name: dns
    resources: {requests: {cpu: 500m, memory: 1Gi}}
";

const PODS: &str = "
apiVersion: v1
kind: PodList
items:
- metadata: {name: web, namespace: shop}
  spec:
    nodeName: node-1
    containers: [{name: c, resources: {requests: {cpu: '1', memory: 3Gi}}}]
- metadata: {name: batch, namespace: shop}
  spec:
    nodeName: node-1
    containers: [{name: c, resources: {requests: {cpu: 600m}}}]
- metadata: {name: elsewhere, namespace: shop}
  spec:
    nodeName: node-2
    containers: [{name: c, resources: {requests: {cpu: 600m}}}]
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-1}
status:
  allocatable: {cpu: '2', memory: 8Gi, pods: '110'}
  conditions:
  - {type: Ready, status: 'True'}
  - {type: DiskPressure, status: 'DISK'}
";

struct Files {
    bench: Bench,
    critical: String,
    ordinary: String,
    pods: String,
    node: String,
}

fn files() -> Files {
    let bench = Bench::new();
    Files {
        critical: bench.file("dns.yaml", CRITICAL),
        ordinary: bench.file(
            "web.yaml",
            CRITICAL.replace("  priorityClassName: system-cluster-critical\n", ""),
        ),
        pods: bench.file("pods.yaml", PODS),
        node: bench.file("node.yaml", NODE.replace("DISK", "False")),
        bench,
    }
}

#[test]
fn s2_022_a_pod_that_does_not_fit_is_answered_with_the_short_resource() {
    let files = files();
    let of = |pod: &str| answer(&["--pod", pod, "--pods", &files.pods, "--node", &files.node]);
    let answer = of(&files.ordinary);
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["reason"], "OutOfcpu");
    assert_eq!(
        answer["message"],
        "Node didn't have enough resource: cpu, requested: 500, used: 1600, capacity: 2000"
    );
    assert_eq!(answer["preempt"], json!([]));
    assert_eq!(answer["qos"]["shop/elsewhere"], "Burstable");
    let answer = of(&files.critical);
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["preempt"], json!(["shop/batch"]));
}

#[test]
fn s2_022_required_node_affinity_and_a_host_port_are_checked_as_the_kubelet_does() {
    let bench = Bench::new();
    let node = bench.file("node.yaml", NODE.replace("DISK", "False"));
    let taken = "containers: [{name: c, ports: [{hostPort: 8080}]}]";
    let old = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: old, namespace: shop}}\nspec:\n  nodeName: node-1\n  {taken}\n"
    );
    let pods = bench.file("pods.yaml", old);
    let reason = |spec: &str| {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: new, namespace: shop}}\nspec:\n  {spec}\n"
        );
        let pod = bench.file("new.yaml", pod);
        let answer = answer(&["--pod", &pod, "--pods", &pods, "--node", &node]);
        assert_eq!(answer["allowed"], answer["reason"] == "", "{answer}");
        answer["reason"].as_str().unwrap().to_owned()
    };
    let affinity = |name: &str| {
        let field = format!("{{key: metadata.name, operator: In, values: [{name}]}}");
        let terms = format!("{{nodeSelectorTerms: [{{matchFields: [{field}]}}]}}");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let containers = "containers: [{name: c}]";
        format!("{containers}\n  affinity: {{nodeAffinity: {{{required}: {terms}}}}}")
    };
    assert_eq!(reason(&affinity("node-1")), "");
    assert_eq!(reason(&affinity("node-2")), "NodeAffinity");
    assert_eq!(reason(taken), "NodePorts");
    assert_eq!(reason(&taken.replace("8080", "8081")), "");
}

#[test]
fn s1_085_to_s1_088_conditions_are_those_of_the_node_or_of_the_arguments() {
    let files = files();
    let pressed = files
        .bench
        .file("pressed.yaml", NODE.replace("DISK", "True"));
    let of = |arguments: &[&str]| answer(&[&["--pod", &files.ordinary], arguments].concat());
    let evicted = "The node had condition: [DiskPressure]. ";
    for arguments in [
        &["--node", &pressed][..],
        &["--conditions", "DiskPressure"],
        &["--node", &files.node, "--conditions", "DiskPressure"],
    ] {
        let answer = of(arguments);
        assert_eq!(
            (&answer["reason"], &answer["message"]),
            (&json!("Evicted"), &json!(evicted))
        );
    }
    for arguments in [
        &["--node", &files.node][..],
        &["--conditions", "MemoryPressure"],
        &["--node", &pressed, "--conditions", ""],
        &["--conditions", "DiskPressure", "--insufficient", ""],
    ] {
        assert_eq!(of(arguments)["allowed"], true, "{arguments:?}");
    }
    assert_eq!(
        answer(&["--pod", &files.critical, "--node", &pressed])["allowed"],
        true
    );
}

#[test]
fn a_table_for_people_and_yaml_for_programs() {
    let files = files();
    let arguments = [
        "--pod",
        &files.critical,
        "--pods",
        &files.pods,
        "--insufficient",
        "cpu=1200m",
    ];
    let output = admit(&arguments);
    assert_eq!(
        text(&output.stdout),
        "Admitted, after these pods are killed, one after the other:

#  POD         QOS        PRIORITY   CPU  MEMORY
1  shop/web    Burstable         0     1     3Gi
2  shop/batch  Burstable         0  600m       0
"
    );
    let output = admit(&[&arguments[..], &["-o", "yaml"]].concat());
    assert!(
        text(&output.stdout).starts_with("allowed: true\n"),
        "{}",
        text(&output.stdout)
    );
    let output = admit(&["--pod", &files.ordinary, "--insufficient", "cpu=1,pods=1"]);
    assert_eq!(
        text(&output.stdout),
        "Not admitted: OutOfcpu\nNode didn't have enough resource: cpu, requested: 1000, used: 0, capacity: 0\n"
    );
}

#[test]
fn a_file_may_be_standard_input_but_only_one() {
    let files = files();
    let output = admit_with(&["--pod", "-", "--conditions", "DiskPressure"], CRITICAL);
    assert!(text(&output.stdout).starts_with("Admitted.\n"));
    let error = refused(&["--pod", "-", "--pods", "-"]);
    assert!(
        error.contains("only one of --pod, --pods and --node"),
        "{error}"
    );
    drop(files);
}

#[test]
fn every_mistake_of_the_input_is_reported_at_once() {
    let files = files();
    let wrong = PODS.replace("600m", "many").replace("3Gi", "[]");
    let pods = files.bench.file("pods.yaml", wrong);
    let error = refused(&[
        "--pod",
        &files.node,
        "--pods",
        &pods,
        "--node",
        &files.critical,
        "--conditions",
        "Sunny,DiskPressure",
        "--insufficient",
        "cpu=lots,memory,=3,pods=-1",
    ]);
    let expected = [
        "node.yaml: holds no Pod; it holds 1 Node",
        "pods.yaml:8:69: Pod shop/web: spec.containers[0].resources.requests.memory: ",
        "pods.yaml:12:56: Pod shop/batch: spec.containers[0].resources.requests.cpu: \"many\": ",
        "pods.yaml:16:56: Pod shop/elsewhere: spec.containers[0].resources.requests.cpu: \"many\": ",
        "dns.yaml: holds no Node; it holds 1 Pod",
        "--conditions: Sunny is not a condition that admission knows: DiskPressure, MemoryPressure, PIDPressure",
        "--insufficient: cpu=lots: ",
        "--insufficient: memory is not of the form RESOURCE=AMOUNT",
        "--insufficient: =3 is not of the form RESOURCE=AMOUNT",
        "--insufficient: pods=-1: the missing amount is negative",
    ];
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{expected}\n{error}");
    }
}

#[test]
fn files_that_cannot_be_used_are_bad_input() {
    let files = files();
    let directory = files.bench.0.path().display().to_string();
    let table = [
        (directory.clone(), "is a directory"),
        (format!("{directory}/none"), "No such file or directory"),
        ("/proc/self/mem".to_owned(), "/proc/self/mem: "),
        (files.bench.file("empty", ""), "is empty"),
        (files.bench.file("null", "null"), "is empty"),
        ("/dev/zero".to_owned(), "is not UTF-8 text"),
        (
            files.bench.file("latin1", b"kind: Pod # \xe9"),
            "is not UTF-8 text",
        ),
        (
            files.bench.file("huge", vec![b' '; 17 << 20]),
            "is larger than",
        ),
        (
            files.bench.file("other.json", r#"{"some":"thing"}"#),
            "is not a Kubernetes object",
        ),
    ];
    for (file, why) in table {
        let error = refused(&["--pod", &file, "--conditions", "DiskPressure"]);
        assert!(error.contains(&file) && error.contains(why), "{error}");
    }
}

#[test]
fn a_list_of_very_many_pods() {
    let count = if cfg!(debug_assertions) {
        10_000
    } else {
        100_000
    };
    let files = files();
    let mut list = String::from(r#"{"kind":"PodList","apiVersion":"v1","items":["#);
    for index in 0..count {
        let comma = if index == 0 { "" } else { "," };
        let pod = format!(
            r#"{comma}{{"metadata":{{"name":"pod-{index}","namespace":"n","uid":"u-{index}","labels":{{"app":"a"}}}},"spec":{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"10m"}}}}}}]}},"status":{{"phase":"Running"}}}}"#
        );
        list.push_str(&pod);
    }
    list += "]}";
    let pods = files.bench.file("many.json", list);
    let answer = answer(&[
        "--pod",
        &files.critical,
        "--pods",
        &pods,
        "--insufficient",
        "cpu=15m",
    ]);
    assert_eq!(
        answer["preempt"],
        json!([
            format!("n/pod-{}", count - 1),
            format!("n/pod-{}", count - 2)
        ])
    );
    assert_eq!(answer["qos"].as_object().unwrap().len(), count);
}

/// Answers one request on `socket` with `body` and returns what was asked.
fn serve_once(socket: &Path, body: String) -> thread::JoinHandle<String> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}}") {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).unwrap();
            assert_ne!(length, 0, "{}", text(&request));
            request.extend_from_slice(&part[..length]);
        }
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        text(&request)
    })
}

#[test]
fn with_the_pod_alone_the_daemon_is_asked() {
    let files = files();
    let socket = files.bench.0.path().join("socket");
    let outcome = json!({"allowed":true,"reason":"","message":"","preempt":["a/b"],"qos":{"a/b":"Burstable"}});
    let review =
        json!({"response": {"allowed": true, "auditAnnotations": {"answer": outcome.to_string()}}});
    let server = serve_once(&socket, review.to_string());
    let socket = socket.display().to_string();
    assert_eq!(
        answer(&["--pod", &files.critical, "--socket", &socket]),
        outcome
    );
    let request = server.join().unwrap();
    assert!(
        request.starts_with("POST /v1/admit HTTP/1.1\r\n"),
        "{request}"
    );
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["kind"], "AdmissionReview");
    assert_eq!(body["request"]["object"]["metadata"]["name"], "dns");
}

#[test]
fn without_a_daemon_it_says_where_it_looked() {
    let files = files();
    let nowhere = files.bench.0.path().join("nowhere").display().to_string();
    let output = admit(&["--pod", &files.critical, "--socket", &nowhere]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&nowhere));
}

#[test]
fn an_answer_without_the_node_names_its_gaps() {
    let files = files();
    let said = "Not checked, because --node is missing";
    let pods = ["--pod", &files.ordinary, "--pods", &files.pods];
    let output = admit(&pods);
    let page = text(&output.stdout);
    assert!(
        page.trim_end().lines().last().unwrap().starts_with(said),
        "{page}"
    );
    assert!(output.stderr.is_empty());
    let output = admit(&[&pods[..], &["-o", "json"]].concat());
    assert!(text(&output.stderr).contains(said));
    assert!(!text(&output.stdout).contains(said));
    for enough in [["--node", &files.node], ["--insufficient", "cpu=1"]] {
        let output = admit(&[&pods[..], &enough].concat());
        assert!(!text(&output.stdout).contains(said) && output.stderr.is_empty());
    }
}

#[test]
fn a_refusal_has_an_exit_code_where_that_is_asked_for() {
    let files = files();
    let short = ["--pod", &files.ordinary, "--insufficient", "cpu=1"];
    for (arguments, more, code) in [
        (&short[..], &[][..], 0),
        (&short, &["--exit-code"], 4),
        (&short, &["--exit-code", "-o", "json"], 4),
        (
            &["--pod", &files.ordinary, "--failed", ""],
            &["--exit-code"],
            0,
        ),
    ] {
        let output = admit(&[arguments, more].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {more:?}");
        let said = text(&output.stderr);
        assert!(
            !said.contains("evictd: \n") && !output.stdout.is_empty(),
            "{said}"
        );
    }
}

/// Case `31c`, and the same pod resized at container level: what the node did not grant is no one's to use.
#[test]
fn s1_068_a_resize_that_was_not_granted_takes_no_room() {
    let bench = Bench::new();
    let status = json!({"name": "n", "allocatedResources": {"cpu": "1", "memory": "1Gi"},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    let conditions =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    let wanted = json!({"requests": {"cpu": "13", "memory": "1Gi"}});
    let at_pod_level = json!({
        "spec": {"nodeName": "node-1", "containers": [{"name": "n"}], "resources": wanted},
        "status": {"phase": "Running", "conditions": conditions, "resources": status["resources"],
            "allocatedResources": status["allocatedResources"]},
    });
    let at_container_level = json!({
        "spec": {"nodeName": "node-1", "containers": [{"name": "n", "resources": wanted}]},
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [status]},
    });
    let node = NODE
        .replace("cpu: '2'", "cpu: '4'")
        .replace("DISK", "False");
    let node = bench.file("node.yaml", node);
    let new = |cpu: &str| {
        json!({"kind": "Pod", "metadata": {"name": "new", "uid": "2"}, "spec": {"nodeName": "node-1",
            "containers": [{"name": "n", "resources": {"requests": {"cpu": cpu, "memory": "4Gi"}}}]}})
    };
    for mut big in [at_pod_level, at_container_level] {
        big["metadata"] = json!({"name": "big", "namespace": "shop", "uid": "1"});
        let pods = bench.json("pods.json", &json!({"kind": "PodList", "items": [big]}));
        let of = |cpu: &str| {
            let pod = bench.json("new.json", &new(cpu));
            answer(&["--pod", &pod, "--pods", &pods, "--node", &node])
        };
        assert_eq!(of("3")["allowed"], true, "{big}");
        let message =
            "Node didn't have enough resource: cpu, requested: 3001, used: 1000, capacity: 4000";
        assert_eq!(of("3001m")["message"], message, "{big}");
    }
}

/// Case 35: an API server sets the missing requests of a manifest. A stored pod is what it is.
#[test]
fn limits_alone_are_requests_of_a_pod_that_no_api_server_has_stored() {
    let files = files();
    let limits = json!({"limits": {"cpu": "8", "memory": "1Gi"}});
    let of_container = json!({"containers": [{"name": "c", "image": "x", "resources": limits}]});
    let of_whole = json!({"containers": [{"name": "c", "image": "x"}], "resources": limits});
    for spec in [of_container, of_whole] {
        let of = |uid: &str| {
            let metadata = json!({"name": "big", "uid": uid});
            let pod = json!({"kind": "Pod", "metadata": metadata, "spec": spec});
            let list = json!({"kind": "List", "items": [pod]});
            let pod = files.bench.json("pod.json", &pod);
            let pods = files.bench.json("pods.json", &list);
            let new = answer(&["--pod", &pod, "--node", &files.node]);
            let there = [
                "--pod",
                &files.ordinary,
                "--pods",
                &pods,
                "--node",
                &files.node,
            ];
            (new, answer(&there))
        };
        let (new, beside) = of("");
        let message = "Node didn't have enough resource: cpu, ";
        let amounts = "requested: 8000, used: 0, capacity: 2000";
        assert_eq!(new["message"], format!("{message}{amounts}"), "{spec}");
        let amounts = "requested: 500, used: 8000, capacity: 2000";
        assert_eq!(beside["message"], format!("{message}{amounts}"), "{spec}");
        let (new, beside) = of("1");
        assert_eq!(
            [&new["allowed"], &beside["allowed"]],
            [true, true],
            "{spec}"
        );
    }
}
