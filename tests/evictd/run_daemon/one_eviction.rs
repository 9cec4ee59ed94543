//! `docs/one-eviction.md`: one eviction as the log, the history, the API, the metrics and the commands show it.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, message};
use crate::node::{EVICTD, Worker};
use crate::run_daemon;
use evictd_kernel::clock::Clock;
use evictd_pod::Quantity;
use evictd_testkit::pages::{self, Outputs};
use evictd_testkit::{FakeRuntime, Kubelet};
use serde_json::{Map, Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The width of the terminal on the page.
const COLUMNS: &str = "80";
/// Words that are others on another machine: what woke the loop, how a cgroup is killed, whether there is swap.
const ELSEWHERE: &str = "sleep cgroup-kill none swap";
/// Words of the evidence, which a busy machine may not read within the 2 ms that a kill waits for it.
const EVIDENCE: &str = "the largest process Largest evictd container containerName main HELD CONTAINER THREADS PROCESS PID AGE \
    MEMORY anon file shmem kernel usage processes and threads were not read time right before first signal pid name \
    residentBytes ageSeconds memory contents unread";
/// Metrics that this eviction changes.
const METRICS: [&str; 8] = [
    "evictd_signal_available{signal=\"memory.available\"}",
    "evictd_threshold{signal=\"memory.available\"",
    "evictd_threshold_met{signal=\"memory.available\"",
    "evictd_node_condition{condition=\"MemoryPressure\"}",
    "evictd_evictions_total{signal=\"memory.available\"",
    "evictd_publications_total{",
    "evictd_reaction_seconds_sum",
    "evictd_reaction_seconds_count",
];

impl Cluster {
    /// A pod with this request and priority, whose process runs here.
    fn requesting(&self, name: &str, (memory, priority): (&str, i64), arguments: &str) -> Worker {
        let resources = json!({ "requests": { "memory": memory } });
        let container = json!({ "name": "main", "image": "none", "resources": resources });
        let pod = self.admin.create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "shop" },
            "spec": { "nodeName": "test", "priority": priority, "containers": [container] },
            "status": { "phase": "Running" },
        }));
        self.run(pod.unwrap()["metadata"]["uid"].as_str().unwrap(), arguments)
    }

    /// What a command prints for people, with the paths that a package has.
    fn shown(&self, daemon: &Daemon, arguments: &[&str]) -> String {
        let place = self.node.directory.path();
        let mut command = Command::new(EVICTD);
        command
            .args(arguments)
            .args(["-o", "table"])
            .env("COLUMNS", COLUMNS)
            .env("KUBECONFIG", place.join("kubeconfig"))
            .current_dir(place);
        if !arguments.contains(&"explain") {
            command.arg("--socket").arg(&daemon.socket);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        self.as_packaged(&text)
    }

    fn as_packaged(&self, text: &str) -> String {
        let place = self.node.directory.path().display().to_string();
        text.replace(&format!("{place}/evictd.yaml"), "/etc/evictd/evictd.yaml")
            .replace(&place, "/run/evictd")
    }
}

/// The fields of the document with these names, where it has them.
fn only(document: &Value, names: &[&str]) -> Value {
    let found = names.iter().filter_map(|name| {
        let value = document.get(name).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), value.clone()))
    });
    Value::Object(found.collect::<Map<_, _>>())
}

/// The message and the journal fields of each line of the log that this picks.
fn lines(daemon: &Daemon, picks: impl Fn(&Value) -> bool) -> String {
    let log = daemon.log();
    let shown = log.iter().filter(|line| picks(line)).map(|line| {
        let fields = line.as_object().unwrap();
        let is_shown =
            |name: &str| name.starts_with("EVICTD_") || name == "level" || name == "message";
        let fields = fields.iter().filter(|(name, _)| is_shown(name));
        let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
        format!("{:#}\n", Value::Object(fields.collect()))
    });
    shown.collect()
}

/// The page without the lines of these headings; those that go on are indented.
fn without(page: &str, headings: &[&str]) -> String {
    let mut is_dropped = false;
    let kept = page.lines().filter(|line| {
        if !line.starts_with(' ') {
            is_dropped = headings.iter().any(|heading| line.starts_with(heading));
        }
        !is_dropped
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// The status that the daemon has written, as soon as it is there.
fn evicted(cluster: &Cluster, daemon: &Daemon) -> Value {
    let mut pod = Value::Null;
    daemon.eventually("the pod's status says that it was evicted", |_| {
        pod = cluster.admin.get("pods", "shop/hog").unwrap_or_default();
        pod["status"]["reason"] == "Evicted"
    });
    let of_eviction = |condition: &&Value| condition["type"] == "DisruptionTarget";
    let conditions = pod["status"]["conditions"].as_array().unwrap().iter();
    let conditions: Vec<&Value> = conditions.filter(of_eviction).collect();
    let mut status = only(&pod["status"], &["phase", "reason", "message"]);
    status["conditions"] = json!(conditions);
    json!({
        "metadata": { "name": "hog", "annotations": pod["metadata"]["annotations"] },
        "status": status,
    })
}

/// The taint and the condition of the Node.
fn marks(cluster: &Cluster) -> Value {
    let node = cluster.admin.get("nodes", "test").unwrap();
    let own = |condition: &&Value| condition["type"] == "EvictdMemoryPressure";
    let mut conditions = node["status"]["conditions"].as_array().unwrap().iter();
    json!({
        "spec": { "taints": node["spec"]["taints"] },
        "status": { "conditions": [conditions.find(own)] },
    })
}

/// The events, as far as people read them.
fn events(cluster: &Cluster) -> String {
    let events = cluster.admin.list("events").into_iter().map(|event| {
        let mut shown = only(&event, &["type", "reason", "action", "message"]);
        shown["involvedObject"] = only(&event["involvedObject"], &["kind", "namespace", "name"]);
        format!("{shown:#}\n")
    });
    events.collect()
}

/// A summary as a kubelet measures it now, from the usage that the daemon has read.
fn summary(cluster: &Cluster, daemon: &Daemon) -> Value {
    let now = Clock::start().now().to_string();
    let ranking = daemon.get("/v1/ranking?signal=memory.available").unwrap();
    let bytes = |value: &Value| -> i64 {
        let quantity: Quantity = value.as_str().unwrap().parse().unwrap();
        quantity.value()
    };
    let memory = |used: i64, available: i64| {
        json!({
            "time": now, "usageBytes": used, "workingSetBytes": used, "availableBytes": available,
        })
    };
    let pods = ranking["pods"].as_array().unwrap().iter().map(|pod| {
        let name = pod["pod"].as_str().unwrap().replace("shop/", "");
        let uid = cluster.admin.get("pods", &format!("shop/{name}")).unwrap();
        let used = memory(bytes(&pod["usage"]), 0);
        json!({
            "podRef": { "name": name, "namespace": "shop", "uid": uid["metadata"]["uid"] },
            "memory": used, "containers": [{ "name": "main", "memory": used }],
        })
    });
    let status = daemon.status();
    let mut signals = status["signals"].as_array().unwrap().iter();
    let of_memory = signals
        .find(|one| one["signal"] == "memory.available")
        .unwrap();
    let available = of_memory["available"].as_i64().unwrap();
    let capacity = of_memory["capacity"].as_i64().unwrap();
    let node = json!({ "nodeName": "test", "memory": memory(capacity - available, available) });
    json!({ "node": node, "pods": pods.collect::<Vec<_>>() })
}

#[test]
fn the_page_on_one_eviction_shows_real_output() {
    let Some(cluster) = Cluster::new("the_page_on_one_eviction") else {
        return;
    };
    let _web = cluster.requesting("web", ("32Mi", 0), "--hold 8Mi");
    let _db = cluster.requesting("db", ("16Mi", 1000), "--hold 30Mi");
    let growing = "--hold 40Mi --grow-to 90Mi --per-second 400Mi";
    let mut hog = cluster.requesting("hog", ("32Mi", 0), growing);
    let kubelet = run_daemon::kubelet::Kubelet::start();
    let theirs = json!({ "evictionHard": { "memory.available": "50Mi" } });
    kubelet.set("/configz", &json!({ "kubeletconfig": theirs }));
    fs::write(cluster.node.path("token"), "good").unwrap();
    let lines_of_configuration = format!(
        "{}\nmemoryAvailable: workingSet\n{}",
        cluster.lines(),
        kubelet.line(&cluster.node)
    );
    let daemon = Daemon::start(
        &cluster.node,
        &[("memory.available", "64Mi")],
        &lines_of_configuration,
    );
    daemon.eventually_knows(&["db", "hog", "web"]);
    let second = Duration::from_millis(100);
    let asked = Kubelet::start(&cluster.api, "test", second, FakeRuntime::default()).unwrap();
    asked.set_summary(summary(&cluster, &daemon));
    daemon.eventually("the kubelet has reported its node", |_| {
        let node = cluster.admin.get("nodes", "test").unwrap();
        node["status"]["conditions"]
            .to_string()
            .contains("\"Ready\"")
    });
    let explain = [
        "explain",
        "test",
        "--context",
        "testkit",
        "--config",
        "evictd.yaml",
    ];
    let explained = cluster.shown(&daemon, &explain);
    // It would write the pod's status, too.
    drop(asked);

    hog.grow();
    daemon.evicted(1);
    let pod = evicted(&cluster, &daemon);
    let ended = json!({ "type": "Ready", "status": "False", "reason": "PodFailed" });
    let as_a_kubelet = json!({ "status": { "conditions": [ended] } });
    cluster
        .admin
        .strategic("pods/status", "shop/hog", as_a_kubelet)
        .unwrap();
    daemon.eventually("the API server knows", |daemon| {
        daemon.said("the API server knows the decision") == 1
    });
    daemon.eventually("all events are there", |_| {
        cluster.admin.list("events").len() >= 3
    });
    let mut outputs = afterwards(&cluster, &daemon);
    outputs.insert("explain", explained);
    outputs.insert("pod", format!("{pod:#}"));
    let varying = ELSEWHERE.split(' ').chain(EVIDENCE.split_whitespace());
    let varying: Vec<&str> = varying.collect();
    pages::check("docs/one-eviction.md", &outputs, &varying);
}

/// What there is to see after the eviction, but for the pod.
fn afterwards(cluster: &Cluster, daemon: &Daemon) -> Outputs {
    let record = daemon.history().remove(0);
    let id = record["id"].as_str().unwrap().to_owned();
    let of_pod = |line: &Value| {
        line["EVICTD_DECISION_ID"] == id.as_str() || line["EVICTD_CONDITION"] == "MemoryPressure"
    };
    let started = daemon.log();
    let started = started
        .iter()
        .filter(|line| line["EVICTD_REASON"] == "Started");
    let started: Vec<&str> = started.map(message).collect();
    let metrics = daemon.page("/metrics").1;
    let metrics = metrics
        .lines()
        .filter(|line| METRICS.iter().any(|metric| line.starts_with(metric)));
    let (node, events) = (marks(cluster), events(cluster));
    let status = cluster.shown(daemon, &["status"]);
    // The machine that runs the test, and what may be over by now.
    let status = without(&status, &["MACHINE", "LAYOUT", "LEAVING"]);
    let keys = [
        "id",
        "time",
        "kind",
        "signal",
        "pod",
        "message",
        "why",
        "runnerUp",
        "expectedGain",
        "threshold",
        "outcome",
        "publication",
    ];
    Outputs::from([
        ("started", cluster.as_packaged(&started.join("\n"))),
        ("log", lines(daemon, of_pod)),
        ("history", cluster.shown(daemon, &["history"])),
        ("decision", cluster.shown(daemon, &["history", &id])),
        ("record", format!("{:#}", only(&record, &keys))),
        ("node", format!("{node:#}")),
        ("events", events),
        ("metrics", metrics.collect::<Vec<_>>().join("\n")),
        ("status", status),
    ])
}
