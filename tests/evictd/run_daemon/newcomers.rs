//! Pods that come to the node while it is under pressure: told of, or turned away, in the cluster.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::node::Worker;
use evictd_testkit::{Driver, Fault, Kubelet, Processes};
use serde_json::{Value, json};
use std::time::Duration;

/// A pod that holds 90 MiB of the node's 192 crosses it, and nobody is evicted for it within an hour.
const LOW: &str = "evictionSoft: {memory.available: 110Mi}
evictionSoftGracePeriod: {memory.available: 1h}";
const HARD: [(&str, &str); 1] = [("memory.available", "1Mi")];
const REJECT: &str = "admission: reject\nevictionPressureTransitionPeriod: 1h";
const MESSAGE: &str = "The node had condition: [MemoryPressure]. ";

impl Cluster {
    /// A pod with this in its spec; its UID.
    fn bind(&self, name: &str, spec: Value) -> String {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "test", "containers": [{"name": "main", "image": "none"}]},
        });
        if let Value::Object(spec) = spec {
            for (key, value) in spec {
                pod["spec"][key] = value;
            }
        }
        let made = self.admin.create(pod).unwrap();
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(super) fn get(&self, name: &str) -> Value {
        self.admin.get("pods", &format!("shop/{name}")).unwrap()
    }

    fn phase_of(&self, name: &str) -> String {
        let phase = self.get(name)["status"]["phase"].clone();
        phase.as_str().unwrap_or_default().to_owned()
    }

    /// A pod is not let in, and the API server cannot be told; its UID.
    fn turns_away_untold(&self, daemon: &Daemon) -> String {
        let fault = Fault::answer(500).on("patch", "pods/status");
        self.api.fault(fault);
        let uid = self.bind("besteffort", Value::Null);
        turned_away(daemon, "shop/besteffort", "waiting");
        uid
    }

    /// Notes of the events of this reason, by pod.
    fn events(&self, reason: &str) -> Vec<(String, String)> {
        let all = self.admin.list("events").into_iter();
        let told = all.filter(|event| event["reason"] == reason).map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (
                text(&event["involvedObject"]["name"]),
                text(&event["message"]),
            )
        });
        told.collect()
    }

    /// A daemon on this node, which is under pressure as long as the process runs.
    fn pressed(&self, lines: &str) -> (Worker, Daemon) {
        let uid = self.bind("cause", critical());
        let cause = self.run(&uid, "--hold 90Mi");
        let daemon = self.watching(lines);
        daemon.eventually("pressure", |daemon| {
            daemon.condition("MemoryPressure")["raised"] == true
        });
        (cause, daemon)
    }

    fn watching(&self, lines: &str) -> Daemon {
        let lines = format!("{}\n{LOW}\n{lines}", self.lines());
        Daemon::start(&self.node, &HARD, &lines)
    }
}

fn critical() -> Value {
    json!({"priorityClassName": "system-node-critical", "priority": 2_000_001_000})
}

fn asking(memory: &str) -> Value {
    let resources = json!({"requests": {"memory": memory}});
    json!({"containers": [{"name": "main", "image": "none", "resources": resources}]})
}

fn findings(action: &str) -> String {
    format!("evictd_admission_findings_total{{action=\"{action}\",reason=\"Evicted\"}}")
}

/// The only record of a pod that was turned away, once it is known whether the cluster was told.
fn turned_away(daemon: &Daemon, pod: &str, state: &str) -> Value {
    let mut found = Value::Null;
    daemon.eventually(&format!("the history says {state} of {pod}"), |daemon| {
        let mut records = daemon.history();
        records.retain(|record| record["pod"] == *pod && record["kind"] == "admission");
        assert!(records.len() <= 1, "{records:#?}");
        found = records.pop().unwrap_or_default();
        found["publication"]["state"] == state && !found["outcome"].is_null()
    });
    found
}

#[test]
fn a_new_pod_under_pressure_is_reported_and_let_in() {
    let Some(cluster) = Cluster::new("a_new_pod_under_pressure_is_reported") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed("evictionPressureTransitionPeriod: 1h");
    assert_eq!(daemon.count(&findings("report")), 0);
    cluster.bind("modest", asking("8Mi"));
    cluster.bind("besteffort", Value::Null);
    daemon.eventually_knows(&["besteffort", "cause", "modest"]);
    daemon.eventually("an event tells it", |_| {
        cluster.events("WouldReject") == [("besteffort".to_owned(), format!("Evicted: {MESSAGE}"))]
    });
    assert_eq!(daemon.count(&findings("report")), 1);
    assert_eq!(daemon.count(&findings("reject")), 0);
    let status = daemon.status()["admission"].clone();
    assert_eq!(
        (&status["mode"], &status["findings"]),
        (&json!("report"), &json!(1))
    );
    let finding = &status["latest"][0];
    assert_eq!(finding["pod"], "shop/besteffort");
    assert_eq!(
        (&finding["action"], &finding["message"]),
        (&json!("report"), &json!(MESSAGE))
    );
    let said = "shop/besteffort would not be admitted: The node had condition: [MemoryPressure].";
    daemon.some_turns_pass();
    assert_eq!(daemon.said(said), 1);
    assert_eq!(cluster.phase_of("besteffort"), "Pending");
    assert_eq!(daemon.history(), [Value::Null; 0]);
}

#[test]
fn s1_086_s1_087_s1_088_s1_089_a_new_pod_is_turned_away_before_it_starts() {
    let Some(cluster) = Cluster::new("a_new_pod_is_turned_away_before_it_starts") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(REJECT);
    let tolerates = |key: &str| {
        let toleration = json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoSchedule"});
        json!({"tolerations": [toleration]})
    };
    cluster.bind("burstable", asking("8Mi"));
    cluster.bind("critical", critical());
    cluster.bind("daemon", tolerates("memory-pressure"));
    cluster.bind("other", tolerates("disk-pressure"));
    let uid = cluster.bind("besteffort", Value::Null);
    let record = turned_away(&daemon, "shop/besteffort", "published");
    turned_away(&daemon, "shop/other", "published");
    assert_eq!(record["outcome"]["method"], "not-started");
    let pod = cluster.get("besteffort");
    let status = &pod["status"];
    assert_eq!(
        (&status["phase"], &status["reason"], &status["message"]),
        (&json!("Failed"), &json!("Evicted"), &json!(MESSAGE))
    );
    let conditions = status["conditions"].as_array();
    let target = |one: &Value| one["type"] == "DisruptionTarget";
    assert!(
        !conditions.is_some_and(|all| all.iter().any(target)),
        "{status:#}"
    );
    let annotation = pod["metadata"]["annotations"]["evictd.dev/evicted"].as_str();
    let annotation: Value = serde_json::from_str(annotation.unwrap()).unwrap();
    assert_eq!(
        (&annotation["decision"], &annotation["kind"]),
        (&record["id"], &json!("admission"))
    );
    daemon.eventually_knows(&["burstable", "cause", "critical", "daemon"]);
    for name in ["burstable", "critical", "daemon"] {
        assert_eq!(cluster.phase_of(name), "Pending", "{name}");
    }
    daemon.eventually("events tell it", |_| {
        let told = cluster.events("Evicted");
        told.len() == 2 && told.iter().all(|(_, message)| message == MESSAGE)
    });
    assert_eq!(daemon.count(&findings("reject")), 2);
    let said = "pod not admitted: Evicted: The node had condition: [MemoryPressure].";
    daemon.eventually("it says so", |daemon| daemon.said(said) == 2);
    daemon.eventually("who has ended is not warned of", |daemon| {
        !daemon.warns("is not admitted")
    });
    assert_eq!(record["uid"], uid);
}

#[test]
fn a_new_pod_that_runs_already_is_stopped_and_one_from_before_the_pressure_is_not() {
    let Some(cluster) = Cluster::new("a_new_pod_that_runs_already_is_stopped") else {
        return;
    };
    cluster.api.go_away();
    let old = cluster.bind("old", asking("1Mi"));
    let early = cluster.bind("early", Value::Null);
    let started = json!({"status": {"phase": "Running", "startTime": "2026-11-21T00:00:00Z"}});
    cluster
        .admin
        .merge("pods/status", "shop/early", started)
        .unwrap();
    let uid = cluster.bind("late", Value::Null);
    let mut workers = [&old, &early].map(|uid| cluster.run(uid, "--hold 2Mi"));
    let mut late = cluster.run(&uid, "--hold 2Mi");
    let _cause = cluster.run("0000-cause", "--hold 90Mi");
    let daemon = cluster.watching(REJECT);
    daemon.eventually("pressure", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    assert!(late.lives());
    cluster.api.come_back();
    let record = turned_away(&daemon, "shop/late", "published");
    assert!(!late.lives());
    assert!(
        record["outcome"]["processes"].as_u64() >= Some(1),
        "{record:#}"
    );
    // At once, and not after the 30 s that it would have to end.
    assert!(
        record["outcome"]["killedSeconds"].as_f64().unwrap() < 20.0,
        "{record:#}"
    );
    assert_eq!(cluster.get("late")["status"]["reason"], "Evicted");
    daemon.eventually_knows(&["early", "old"]);
    assert!(workers.iter_mut().all(Worker::lives));
    let evictions = "evictd_evictions_total{signal=\"memory.available\",kind=\"hard\"}";
    assert_eq!(
        daemon.count(evictions),
        0,
        "nobody was evicted for a shortage"
    );
    assert_eq!(daemon.count("evictd_reaction_seconds_count"), 0);
}

#[test]
fn a_rejection_is_told_until_it_is_known_and_what_starts_meanwhile_is_ended() {
    let Some(cluster) = Cluster::new("a_rejection_is_told_until_it_is_known") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(REJECT);
    let uid = cluster.turns_away_untold(&daemon);
    daemon.eventually("it warns", |daemon| {
        daemon.warns("shop/besteffort is not admitted")
    });
    for _ in 0..2 {
        // As a kubelet would, which does not know.
        let mut started = cluster.run(&uid, "--hold 2Mi");
        daemon.eventually("it is ended", |_| !started.lives());
    }
    daemon.eventually("it says so", |daemon| {
        daemon.said("was started although it was not admitted") >= 2
    });
    assert_eq!(cluster.phase_of("besteffort"), "Pending");
    cluster.api.clear_faults();
    turned_away(&daemon, "shop/besteffort", "published");
    assert_eq!(cluster.get("besteffort")["status"]["message"], MESSAGE);
    let label = "evictd_publications_total{result=\"published\"}";
    assert_eq!(daemon.count(label), 1);
}

#[test]
fn in_a_dry_run_nothing_is_ended_that_starts_against_a_rejection() {
    let Some(cluster) = Cluster::new("in_a_dry_run_nothing_is_ended_that_starts") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(REJECT);
    let uid = cluster.turns_away_untold(&daemon);
    let lines = format!("{}\n{LOW}\n{REJECT}", cluster.lines());
    daemon.reload(&cluster.node, &HARD, &format!("{lines}\ndryRun: true"));
    let mut started = cluster.run(&uid, "--hold 2Mi");
    daemon.some_turns_pass();
    assert!(started.lives());
    daemon.reload(&cluster.node, &HARD, &lines);
    daemon.eventually("it is ended", |_| !started.lives());
}

#[test]
fn an_unpublished_rejection_is_published_by_the_next_start() {
    let Some(cluster) = Cluster::new("a_rejection_that_nobody_was_told") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(REJECT);
    cluster.turns_away_untold(&daemon);
    drop(daemon);
    cluster.api.clear_faults();
    let daemon = cluster.watching(REJECT);
    turned_away(&daemon, "shop/besteffort", "published");
    let status = cluster.get("besteffort")["status"].clone();
    assert_eq!(
        (&status["phase"], &status["message"]),
        (&json!("Failed"), &json!(MESSAGE))
    );
}

#[test]
fn a_pod_is_turned_away_after_a_restart_while_the_condition_lasts() {
    let Some(cluster) = Cluster::new("a_pod_is_turned_away_after_a_restart") else {
        return;
    };
    let (cause, daemon) = cluster.pressed(REJECT);
    drop(daemon);
    // Its cause is over, but not its transition period.
    drop(cause);
    let daemon = cluster.watching(REJECT);
    assert_eq!(daemon.condition("MemoryPressure")["raised"], true);
    cluster.bind("besteffort", Value::Null);
    turned_away(&daemon, "shop/besteffort", "published");
    assert_eq!(cluster.phase_of("besteffort"), "Failed");
}

#[test]
fn a_pod_of_the_same_name_is_not_hit_by_a_rejection() {
    let Some(cluster) = Cluster::new("a_pod_of_the_same_name_is_not_hit") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(REJECT);
    cluster
        .api
        .fault(Fault::answer(503).on("patch", "pods/status"));
    cluster.bind("web-0", Value::Null);
    turned_away(&daemon, "shop/web-0", "waiting");
    cluster.delete("web-0");
    let uid = cluster.bind("web-0", asking("2Mi"));
    let mut worker = cluster.run(&uid, "--hold 2Mi");
    cluster.api.clear_faults();
    let record = turned_away(&daemon, "shop/web-0", "recorded");
    let why = record["publication"]["why"].as_str().unwrap();
    assert!(why.contains("another pod has its name now"), "{why}");
    daemon.some_turns_pass();
    assert_eq!(cluster.phase_of("web-0"), "Pending");
    assert!(worker.lives());
}

#[test]
fn a_pod_that_runs_on_after_the_pressure_is_let_in_where_nobody_could_be_told() {
    let Some(cluster) = Cluster::new("a_pod_that_runs_on_after_the_pressure") else {
        return;
    };
    let (mut cause, daemon) =
        cluster.pressed("admission: reject\nevictionPressureTransitionPeriod: 2s");
    let uid = cluster.turns_away_untold(&daemon);
    cause.end();
    daemon.eventually("the pressure is over", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == false
    });
    let mut started = cluster.run(&uid, "--hold 2Mi");
    let record = turned_away(&daemon, "shop/besteffort", "not published");
    let why = record["publication"]["why"].as_str().unwrap();
    assert!(why.contains("still runs after the pressure"), "{why}");
    daemon.eventually_knows(&["besteffort", "cause"]);
    cluster.api.clear_faults();
    daemon.some_turns_pass();
    assert!(started.lives());
    assert_eq!(cluster.phase_of("besteffort"), "Pending");
}

#[test]
fn a_dry_run_rejects_no_pod_and_off_checks_none() {
    let Some(cluster) = Cluster::new("a_rehearsal_turns_nobody_away") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(&format!("{REJECT}\ndryRun: true"));
    cluster.bind("besteffort", Value::Null);
    daemon.eventually("it says so", |daemon| {
        daemon.said("shop/besteffort would not be admitted") == 1
    });
    daemon.some_turns_pass();
    assert_eq!(cluster.phase_of("besteffort"), "Pending");
    drop(daemon);
    let daemon = cluster.watching("admission: off");
    daemon.eventually("pressure", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    cluster.bind("second", Value::Null);
    daemon.eventually_knows(&["besteffort", "cause", "second"]);
    daemon.some_turns_pass();
    assert_eq!(daemon.status()["admission"]["mode"], "off");
    assert_eq!(daemon.status()["admission"]["findings"], 0);
}

#[test]
fn a_kubelet_tears_down_what_is_turned_away_and_starts_it_never_again() {
    let Some(cluster) = Cluster::new("a_kubelet_tears_down_what_is_turned_away") else {
        return;
    };
    let (_cause, daemon) = cluster.pressed(REJECT);
    // A kubelet tells the second alone in which it takes a pod over.
    daemon.seconds_pass(1);
    // One of its seconds is a tenth of ours: it writes its own view of the pod's phase each second.
    let second = Duration::from_millis(100);
    let containers = Processes::new([cluster.node.group.dir("")], Driver::Cgroupfs);
    let _kubelet = Kubelet::start(&cluster.api, "test", second, containers).unwrap();
    cluster.bind("besteffort", json!({"containers": [
        {"name": "main", "image": "none", "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]},
    ]}));
    turned_away(&daemon, "shop/besteffort", "published");
    // The kubelet may not even have seen it before.
    let ended = |status: &Value| {
        let mut containers = status["containerStatuses"].as_array().into_iter().flatten();
        containers.all(|one| one["state"]["terminated"].is_object())
    };
    daemon.eventually("its containers are dead", |_| {
        let pod = cluster.get("besteffort");
        ended(&pod["status"]) && pod["status"]["reason"] == "Evicted"
    });
    // Ten seconds of this kubelet.
    daemon.seconds_pass(1);
    let status = cluster.get("besteffort")["status"].clone();
    assert_eq!(
        (&status["phase"], &status["message"]),
        (&json!("Failed"), &json!(MESSAGE))
    );
    assert!(ended(&status), "{status:#}");
}

#[test]
fn with_a_kubelet_preemption_is_only_reported() {
    let Some(cluster) = Cluster::new("with_a_kubelet_preemption_is_only_reported") else {
        return;
    };
    let room = json!({"status": {"allocatable": {"memory": "100Mi", "cpu": "4", "pods": "10"}}});
    cluster.admin.merge("nodes/status", "test", room).unwrap();
    let uids = ["first", "second"].map(|name| cluster.bind(name, asking("40Mi")));
    let mut workers = uids.map(|uid| cluster.run(&uid, "--hold 2Mi"));
    let daemon = cluster.watching("admission: reject");
    daemon.eventually_knows(&["first", "second"]);
    daemon.eventually("it has read the Node, and written on it", |_| {
        let node = cluster.admin.get("nodes", "test").unwrap();
        let mut all = node["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        all.any(|one| one["type"] == "EvictdMemoryPressure")
    });
    let mut spec = critical();
    spec["containers"] = asking("50Mi")["containers"].clone();
    // The kubelet turns it away itself.
    cluster.bind("large", asking("50Mi"));
    cluster.bind("vital", spec.clone());
    daemon.eventually("an event tells it", |_| {
        let told = cluster.events("WouldPreempt");
        told.len() == 1 && told[0].0 == "vital"
    });
    let finding = daemon.status()["admission"]["latest"][0].clone();
    assert_eq!(
        (&finding["action"], &finding["reason"]),
        (&json!("report"), &json!("Preempting"))
    );
    assert!(
        !finding["preempt"].as_array().unwrap().is_empty(),
        "{finding}"
    );
    daemon.eventually("the log, too", |daemon| {
        daemon.said("shop/vital is critical and would be admitted by preempting") == 1
    });

    let file = cluster.node.path("asked.json");
    spec["nodeName"] = json!("test");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked", "namespace": "shop"}, "spec": spec});
    std::fs::write(&file, pod.to_string()).unwrap();
    let asked = daemon.command(&["admit", "--pod", file.to_str().unwrap()]);
    assert_eq!(asked["allowed"], true);
    assert!(asked["preempt"].as_array().unwrap().len() > 1, "{asked:#}");
    daemon.some_turns_pass();
    assert!(workers.iter_mut().all(Worker::lives));
    assert_eq!(daemon.status()["admission"]["findings"], 1);
    assert!(names(&daemon.history()).is_empty());
}
