//! `docs/one-eviction.md`: one eviction as the log, the history, the API, the metrics and the commands show it.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::node::{EVICTD, Worker};
use crate::pages::{self, Outputs};
use evictd_testkit::{Imagined, Kubelet};
use serde_json::{Map, Value, json};
use std::process::Command;
use std::time::Duration;

/// The width of the terminal on the page.
const COLUMNS: &str = "80";
/// Metrics that this eviction moves.
const METRICS: [&str; 8] = [
    "evictd_signal_available{signal=\"memory.available\"}",
    "evictd_threshold{signal=\"memory.available\"",
    "evictd_threshold_met{signal=\"memory.available\"",
    "evictd_node_condition{condition=\"MemoryPressure\"}",
    "evictd_evictions_total{",
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

#[test]
fn the_page_on_one_eviction_says_what_the_daemon_says() {
    let Some(cluster) = Cluster::new("the_page_on_one_eviction") else {
        return;
    };
    let second = Duration::from_millis(100);
    let kubelet = Kubelet::start(&cluster.api, "test", second, Imagined::default()).unwrap();
    let _web = cluster.requesting("web", ("32Mi", 0), "--hold 8Mi");
    let _db = cluster.requesting("db", ("16Mi", 1000), "--hold 30Mi");
    let growing = "--hold 2Mi --grow-to 90Mi --per-second 400Mi";
    let mut hog = cluster.requesting("hog", ("32Mi", 0), growing);
    let lines_of_configuration = cluster.lines();
    let daemon = Daemon::start(
        &cluster.node,
        &[("memory.available", "64Mi")],
        &lines_of_configuration,
    );
    daemon.eventually_knows(&["db", "hog", "web"]);
    hog.grow();
    daemon.evicted(1);
    daemon.eventually("the API server knows", |daemon| {
        daemon.said("the API server knows the decision") == 1
    });
    let decision = daemon.history().remove(0);
    let id = decision["id"].as_str().unwrap();
    daemon.eventually("the event is there", |_| {
        !cluster.admin.list("events").is_empty()
    });
    println!("{}", daemon.log_text());
    println!("{:#}", Value::from(cluster.admin.list("events")));
    println!(
        "{:#}",
        cluster.admin.get("pods", "shop/hog").unwrap_or_default()
    );
    println!("{:#}", cluster.admin.get("nodes", "test").unwrap());
    println!("{decision:#}");
    println!("{}", daemon.page("/metrics").1);
    println!("{}", cluster.shown(&daemon, &["status"]));
    println!("{}", cluster.shown(&daemon, &["history"]));
    println!("{}", cluster.shown(&daemon, &["history", id]));
    let _ = (
        &kubelet,
        METRICS,
        only(&decision, &[]),
        lines(&daemon, |_| true),
    );
    pages::check("one-eviction.md", &Outputs::new());
}
