//! `evictd explain NODE`, against an API server and a kubelet of our own.

use super::assert_has;
use crate::node::EVICTD;
use evictd_kernel::clock::Clock;
use evictd_testkit::pages::{self, Outputs};
use evictd_testkit::{
    ApiServer, Authority, FakeRuntime, Fault, Kubelet, Status, TlsProxy,
    program::{self, page, refusal, stderr},
    testing::left_out,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A cluster with a node that is short of memory, and two pods.
struct Cluster {
    api: ApiServer,
    kubelet: Kubelet,
    folder: TempDir,
    /// What the kubelet measures.
    summary: Value,
}

impl Cluster {
    fn start() -> Self {
        let api = ApiServer::start().unwrap();
        node(&api, "one");
        let second = Duration::from_millis(100);
        let kubelet = Kubelet::start(&api, "one", second, FakeRuntime::default()).unwrap();
        let mut cluster = Self {
            api,
            kubelet,
            folder: tempfile::tempdir().unwrap(),
            summary: Value::Null,
        };
        let pods = [("hog", 900 * MIB), ("web", 20 * MIB)];
        let stats = pods.map(|(name, bytes)| cluster.pod(name, bytes));
        cluster.summary = json!({
            "node": { "nodeName": "one", "memory": memory(1000 * MIB, 80 * MIB) },
            "pods": stats,
        });
        cluster.kubelet.set_summary(cluster.summary.clone());
        let kubeconfig = cluster.api.kubeconfig();
        cluster.write("kubeconfig", &kubeconfig);
        cluster
    }

    /// Makes a pod; what the kubelet measures of it.
    fn pod(&self, name: &str, bytes: u64) -> Value {
        let container = json!({ "name": "main", "image": "none" });
        let spec = json!({ "nodeName": "one", "containers": [container] });
        let pod = self.api.actor("test").create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec,
        }));
        let uid = &pod.unwrap()["metadata"]["uid"];
        json!({
            "podRef": { "name": name, "namespace": "default", "uid": uid },
            "memory": memory(bytes, 0),
            "containers": [{ "name": "main", "memory": memory(bytes, 0) }],
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// From now on whoever asks may do no more than this.
    fn allow(&self, rules: Value) {
        self.api.grant("secret", "jane", Some(rules));
        let mut kubeconfig: Value = serde_json::from_str(&self.api.kubeconfig()).unwrap();
        kubeconfig["users"][0]["user"]["token"] = "secret".into();
        self.write("kubeconfig", &kubeconfig.to_string());
    }

    fn explain(&self, arguments: &[&str]) -> Output {
        self.explain_as(Path::new(EVICTD), arguments)
    }

    fn explain_as(&self, program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("COLUMNS", "80")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .arg("explain");
        program::run(command.args(arguments), "")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        program::answer(&self.explain(&[arguments, &["-o", "json"]].concat()))
    }

    fn refused(&self, arguments: &[&str], code: i32) -> String {
        refusal(&self.explain(arguments), code)
    }
}

#[test]
fn without_arguments_and_a_cluster_explain_names_its_inputs() {
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::evictd(&["explain"]);
    command.env("HOME", home.path()).env_remove("KUBECONFIG");
    command.env_remove("KUBERNETES_SERVICE_HOST");
    let why = refusal(&program::run(&mut command, ""), 2);
    assert!(why.contains("no API server is known"), "{why}");
    assert!(why.contains("--pods FILE --summary FILE"), "{why}");
    for half in [["--pods", "-"], ["--summary", "-"], ["--node", "-"]] {
        let half = program::run(crate::evictd(&["explain"]).args(half), "");
        assert_eq!(half.status.code(), Some(2));
    }
}

fn node(api: &ApiServer, name: &str) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    api.actor("test").create(node).unwrap();
}

fn memory(used: u64, available: u64) -> Value {
    json!({
        "time": "2026-11-21T00:12:15Z", "availableBytes": available,
        "usageBytes": used, "workingSetBytes": used,
    })
}

fn rule(verb: &str, group: &str, resource: &str) -> Value {
    json!({ "verbs": [verb], "apiGroups": [group], "resources": [resource] })
}

fn assumed(answer: &Value) -> &str {
    answer["assumed"][0].as_str().unwrap()
}

#[test]
fn a_node_is_explained_from_its_cluster() {
    let cluster = Cluster::start();
    let answer = cluster.json(&["one", "--context", "testkit"]);
    assert_eq!(answer["next"], "default/hog");
    assert_eq!(answer["evicted"][0]["pod"], "default/hog");
    assert_eq!(answer["node"]["name"], "one");
    assert_eq!(assumed(&answer), "the kubelet's rules from one (configz)");
    // The kubelet's own thresholds count, and a file before them.
    let calm = json!({ "evictionHard": { "memory.available": "50Mi" } });
    cluster.kubelet.set_config(calm);
    let answer = cluster.json(&["one", "--context", "testkit"]);
    assert_eq!(answer["evicted"], json!([]));
    let file = "kind: KubeletConfiguration\nevictionHard: { memory.available: 90Mi }\n";
    cluster.write("config.yaml", file);
    let asked = cluster.api.log().len();
    let answer = cluster.json(&["one", "--config", "config.yaml"]);
    assert_eq!(answer["evicted"][0]["pod"], "default/hog");
    assert_eq!(assumed(&answer), "the kubelet's rules from config.yaml");
    let log = cluster.api.log();
    let configz = |entry: &evictd_testkit::Entry| entry.path.ends_with("/configz");
    assert!(!log[asked..].iter().any(configz));
}

#[test]
fn a_silent_node_is_recognised_by_its_lease() {
    let cluster = Cluster::start();
    let quiet = cluster.explain(&["one"]);
    assert!(
        stderr(&quiet).contains("leases/one: 404 NotFound"),
        "{}",
        stderr(&quiet)
    );
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "one", "namespace": "kube-node-lease" },
        "spec": { "renewTime": "2026-11-21T00:00:00.000000Z" },
    });
    cluster.api.actor("test").create(lease).unwrap();
    let answer = cluster.json(&["one"]);
    assert_eq!(answer["node"]["heartbeat"]["overdue"], true, "{answer:#}");
}

#[test]
fn as_a_plugin_of_kubectl_it_takes_the_current_context() {
    let cluster = Cluster::start();
    let plugin = cluster.path("kubectl-evictd");
    std::os::unix::fs::symlink(EVICTD, &plugin).unwrap();
    let lines = ["default/hog is evicted now", "Node one: Ready is"];
    let shows = |output: Output| assert_has(&page(&output), &lines);
    shows(cluster.explain_as(&plugin, &["one", "-o", "table"]));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", cluster.folder.path().display());
    let kubectl = Command::new("kubectl")
        .args([
            "evictd",
            "explain",
            "one",
            "--context",
            "testkit",
            "-o",
            "table",
        ])
        .env("KUBECONFIG", cluster.path("kubeconfig"))
        .env("PATH", path)
        .output();
    match kubectl {
        Ok(output) => shows(output),
        Err(_) => left_out(
            "as_a_plugin_of_kubectl_it_takes_the_current_context",
            "there is no kubectl here",
        ),
    }
}

#[test]
fn the_only_node_need_not_be_named_nor_this_machine() {
    let cluster = Cluster::start();
    let context = ["--context", "testkit"];
    assert_eq!(cluster.json(&context)["next"], "default/hog");
    node(&cluster.api, "two");
    let told = cluster.refused(&context, 2);
    assert!(told.contains("NODE is needed"), "{told}");
    assert!(told.contains("not one of its nodes: one, two"), "{told}");
    let told = cluster.refused(&["three"], 2);
    assert!(
        told.contains("there is no node three; its nodes are one, two"),
        "{told}"
    );
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().to_lowercase();
    node(&cluster.api, &host);
    // Its kubelet is not there: that it was asked for is enough.
    let told = cluster.refused(&context, 1);
    assert!(
        told.contains("503 ServiceUnavailable: error trying to reach"),
        "{told}"
    );
    assert!(told.contains(&format!("/api/v1/nodes/{host}/")), "{told}");
}

#[test]
fn the_rights_that_are_missing_are_told_in_one_go() {
    let cluster = Cluster::start();
    cluster.allow(json!([rule("get", "", "nodes")]));
    let told = cluster.refused(&["one"], 3);
    let missing =
        "missing: list pods, get nodes/proxy, get leases.coordination.k8s.io -n kube-node-lease";
    assert!(told.contains(missing), "{told}");
    let told = cluster.refused(&["--context", "testkit"], 3);
    assert!(told.contains("missing: list nodes"), "{told}");
}

#[test]
fn without_the_node_and_its_lease_explain_answers_with_a_warning() {
    let cluster = Cluster::start();
    let needed = [rule("list", "", "pods"), rule("get", "", "nodes/proxy")];
    cluster.allow(json!(needed));
    let output = cluster.explain(&["one", "-o", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["next"], "default/hog");
    assert_eq!(answer["node"], Value::Null);
    let told = stderr(&output);
    assert!(
        told.contains("the RBAC verb get on nodes is needed"),
        "{told}"
    );
    assert!(told.contains("its taints are left out"), "{told}");
}

#[test]
fn without_configz_the_defaults_count_and_that_is_said() {
    let cluster = Cluster::start();
    cluster.kubelet.refuse_config();
    let output = cluster.explain(&["one", "-o", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        assumed(&answer),
        "the kubelet's rules with its default thresholds, because its configz could not be read"
    );
    let told = stderr(&output);
    assert!(told.contains("/proxy/configz: 404"), "{told}");
}

#[test]
fn a_server_that_does_not_answer_is_no_bad_input() {
    let cluster = Cluster::start();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let kubeconfig = cluster.api.kubeconfig().replace(&cluster.api.url(), &url);
    cluster.write("kubeconfig", &kubeconfig);
    for arguments in [["one"].as_slice(), &["--context", "testkit"]] {
        let told = cluster.refused(arguments, 1);
        assert!(
            told.contains(&url) && told.contains("Connection refused"),
            "{told}"
        );
    }
    let told = cluster.refused(&["--context", "nowhere"], 2);
    assert!(told.contains("nowhere"), "{told}");
    let told = cluster.refused(&["one/two"], 2);
    assert!(told.contains("not the name of a node"), "{told}");
    let told = cluster.refused(&["one", "--pods", "pods.json"], 2);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn earlier_reclaims_are_shown_newest_first() {
    let cluster = Cluster::start();
    let message = |number| format!("nodefs.available: removed {number} unused images");
    for (name, node, reason, number) in [
        ("first", "one", "Reclaimed", 1),
        ("second", "one", "Reclaimed", 2),
        ("elsewhere", "two", "Reclaimed", 3),
        ("other", "one", "EvictionThresholdMet", 4),
    ] {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "name": name, "namespace": "default" },
            "regarding": { "apiVersion": "v1", "kind": "Node", "name": node },
            "eventTime": format!("2026-11-23T01:00:0{number}.000000Z"),
            "reason": reason, "note": message(number), "action": "Reclaim", "type": "Normal",
            "reportingController": "evictd", "reportingInstance": node,
        });
        cluster.api.actor("test").create(event).unwrap();
    }
    let freed = cluster.json(&["one"])["freed"].clone();
    let told: Vec<&str> = (0..2)
        .filter_map(|at| freed[at]["message"].as_str())
        .collect();
    assert_eq!(told, [message(2), message(1)], "{freed}");
    assert_eq!(freed.as_array().map(Vec::len), Some(2));
    let shown = page(&cluster.explain(&["one", "-o", "table"]));
    assert_has(&shown, &[&message(2)]);
}

/// The rules of the role on the page.
fn rules_on_the_page() -> Value {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/explain.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, role) = page.split_once("```yaml\n").unwrap();
    let (role, _) = role.split_once("```").unwrap();
    let mut role: Value = serde_saphyr::from_str(role).unwrap();
    role["rules"].take()
}

#[test]
fn the_page_on_explain_shows_its_real_output() {
    let cluster = Cluster::start();
    let now = Clock::start().now().to_string();
    let mut summary = cluster.summary.clone();
    for memory in ["/node/memory", "/pods/0/memory", "/pods/1/memory"] {
        summary.pointer_mut(memory).unwrap()["time"] = json!(now);
    }
    cluster.kubelet.set_summary(summary);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "one", "namespace": "kube-node-lease" },
        "spec": { "renewTime": now },
    });
    cluster.api.actor("test").create(lease).unwrap();
    let asked = ["one", "--context", "testkit", "-o", "table"];
    cluster.allow(rules_on_the_page());
    let allowed = cluster.explain(&asked);
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    assert!(!stderr(&allowed).contains("RBAC"), "{}", stderr(&allowed));
    cluster.allow(json!([]));
    let refused = cluster.refused(&asked, 3);
    let server = cluster.api.url();
    let outputs = Outputs::from([
        ("explain", String::from_utf8(allowed.stdout).unwrap()),
        ("rights", refused.replace(&server, "https://10.0.0.1:6443")),
    ]);
    pages::check("docs/explain.md", &outputs, &[]);
}

/// What a request may meet, and what is said of it.
fn failures() -> [(Fault, &'static str); 7] {
    [
        (Fault::answer(401), "401 Unauthorized"),
        (Fault::answer(403), "the RBAC verb "),
        (Fault::answer(429), "429 TooManyRequests"),
        (Fault::answer(500), "500 InternalError"),
        (Fault::answer(503), "503 ServiceUnavailable"),
        (
            Fault::cut_after(0),
            "connection closed before message completed",
        ),
        (Fault::cut_after(9), "unexpected EOF during chunk size line"),
    ]
}

#[test]
fn whatever_fails_of_what_is_needed_is_named_and_no_answer_is_given() {
    let cluster = Cluster::start();
    for (verb, what, path) in [
        ("list", "pods", "GET /api/v1/pods?fieldSelector"),
        (
            "get",
            "nodes/proxy",
            "GET /api/v1/nodes/one/proxy/stats/summary: ",
        ),
    ] {
        for (fault, words) in failures() {
            cluster.api.fault(fault.on(verb, what));
            let output = cluster.explain(&["one", "-o", "json"]);
            let told = stderr(&output);
            let (code, words) = match words {
                "the RBAC verb " => (3, format!("missing: {verb} {what}\n")),
                words => (1, words.to_owned()),
            };
            assert_eq!(output.status.code(), Some(code), "{what}: {told}");
            assert!(told.contains(&words), "{words}: {told}");
            assert!(told.contains(&cluster.api.url()), "{told}");
            assert!(code == 3 || told.contains(path), "{path}: {told}");
            assert!(output.stdout.is_empty(), "{output:?}");
            cluster.api.clear_faults();
        }
    }
    cluster.api.fault(Fault::garbage().on("list", "pods"));
    let told = cluster.refused(&["one"], 2);
    assert!(told.contains("the pods of one:1:"), "{told}");
}

#[test]
fn whatever_fails_of_what_only_helps_is_warned_of_and_the_answer_is_given() {
    let cluster = Cluster::start();
    for (verb, what, missed) in [
        (
            "get",
            "nodes",
            "/api/v1/nodes/one: |; its taints are left out",
        ),
        (
            "list",
            "events",
            "/default/events?fieldSelector=|; what evictd freed there is left out",
        ),
        (
            "get",
            "leases",
            "/kube-node-lease/leases/one: |; whether the node has stopped reporting is left out",
        ),
    ] {
        for (fault, words) in failures() {
            cluster.api.fault(fault.on(verb, what));
            let output = cluster.explain(&["one", "-o", "json"]);
            assert_eq!(program::answer(&output)["next"], "default/hog");
            let told = stderr(&output);
            for words in missed.split('|').chain([words]) {
                assert!(told.contains(words), "{what}: {words}: {told}");
            }
            cluster.api.clear_faults();
        }
    }
    let steering = Status::new(500, "InternalError", "\u{1b}[2J");
    cluster
        .api
        .fault(Fault::refuse(steering).on("get", "nodes"));
    let told = stderr(&cluster.explain(&["one"]));
    assert!(told.contains("500 InternalError: \\u001b[2J; "), "{told}");
}

#[test]
fn a_tls_error_is_reported_with_a_remedy() {
    let cluster = Cluster::start();
    let [known, unknown] = ["known", "unknown"].map(|name| Authority::new(name).unwrap());
    let here = ["127.0.0.1"];
    cluster.write("ca.crt", &known.pem());
    let through = |url: String| {
        let mut kubeconfig: Value = serde_json::from_str(&cluster.api.kubeconfig()).unwrap();
        let authority = cluster.path("ca.crt");
        kubeconfig["clusters"][0]["cluster"] =
            json!({ "server": url, "certificate-authority": authority });
        cluster.write("kubeconfig", &kubeconfig.to_string());
    };
    for (identity, clients, words) in [
        (
            unknown.sign(&here),
            None,
            "signed by an authority that is not trusted here",
        ),
        (known.sign_expired(&here), None, "has expired: renew it"),
        (known.sign(&["elsewhere"]), None, "is for other names"),
        (
            known.sign(&here),
            Some(&known),
            "requires a client certificate",
        ),
    ] {
        let proxy = TlsProxy::start(&cluster.api.url(), &identity.unwrap(), clients).unwrap();
        through(proxy.url());
        let told = cluster.refused(&["one"], 1);
        assert!(told.contains(words), "{words}: {told}");
        assert!(told.contains(&proxy.url()), "{told}");
    }
    // No TLS at all is spoken there.
    through(cluster.api.url().replace("http:", "https:"));
    let told = cluster.refused(&["one"], 1);
    assert!(told.contains("InvalidContentType"), "{told}");
    let identity = known.sign(&here).unwrap();
    let proxy = TlsProxy::start(&cluster.api.url(), &identity, None).unwrap();
    through(proxy.url());
    assert_eq!(cluster.json(&["one"])["next"], "default/hog");
    cluster.write("ca.crt", "no certificate");
    let told = cluster.refused(&["one"], 1);
    assert!(
        told.contains("signed by an authority that is not trusted here"),
        "{told}"
    );
}
