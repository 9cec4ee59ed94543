//! A cluster is told of evictions, however its API server fares.

use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, Worker, metadata};
use evictd_testkit::{ApiServer, Fault};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

const LOW: [(&str, &str); 1] = [("memory.available", "64Mi")];
const SOFT: &str = "evictionSoft: {memory.available: 110Mi}
evictionSoftGracePeriod: {memory.available: 100ms}
evictionMaxPodGracePeriod: 4";

/// A node, and the API server of its cluster.
struct Cluster {
    node: Node,
    api: ApiServer,
}

impl Cluster {
    fn new(test: &str) -> Option<Self> {
        let node = Node::new(test)?;
        let api = ApiServer::start().unwrap();
        let space =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
        let machine = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "test" } });
        for object in [space, machine] {
            api.actor("test").create(object).unwrap();
        }
        fs::write(node.path("kubeconfig"), api.kubeconfig()).unwrap();
        Some(Self { node, api })
    }

    /// A pod of the API server's, with its process here.
    fn pod(&self, name: &str, arguments: &str) -> Worker {
        let worker = self.node.worker(name, arguments);
        self.admit(name, Traits::default());
        worker
    }

    fn admit(&self, name: &str, traits: Traits) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "shop", "labels": { "app": name } },
            "spec": { "nodeName": "test", "containers": [{ "name": "main", "image": "none" }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let made = self.api.actor("test").create(pod).unwrap();
        let uid = metadata(json!({ "uid": made["metadata"]["uid"] }));
        let traits = Traits {
            metadata: uid.metadata,
            ..traits
        };
        self.node.admit(name, traits);
    }

    /// A budget that lets no pod of this name go.
    fn protect(&self, pod: &str, budget: &str) {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": budget, "namespace": "shop" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": pod } } },
            "status": {
                "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
                "desiredHealthy": 1, "expectedPods": 1,
            },
        });
        self.api.actor("test").create(budget).unwrap();
    }

    fn get(&self, name: &str) -> Value {
        let actor = self.api.actor("test");
        actor.get("pods", &format!("shop/{name}")).unwrap()
    }

    fn lines(&self, lines: &str) -> String {
        let kubeconfig = self.node.path("kubeconfig");
        let way = format!("kubernetes: {{kubeconfig: {}}}", kubeconfig.display());
        format!("{way}\n{lines}")
    }

    fn daemon(&self, hard: &[(&str, &str)], lines: &str) -> Daemon {
        Daemon::start(&self.node, hard, &self.lines(lines))
    }

    /// Keys of the node's taints, and whether its own condition is true.
    fn machine(&self) -> (Vec<String>, bool) {
        let machine = self.api.actor("test").get("nodes", "test").unwrap();
        let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let taints = all(&machine["spec"]["taints"]);
        let conditions = all(&machine["status"]["conditions"]);
        let raised = |one: &Value| one["type"] == "EvictdMemoryPressure" && one["status"] == "True";
        let keys = taints.iter().map(|taint| text(&taint["key"])).collect();
        (keys, conditions.iter().any(raised))
    }

    /// Of which pods an event says that they were evicted.
    fn evented(&self) -> Vec<String> {
        let all = self.api.actor("test").list("events").into_iter();
        let of_pods = all.filter(|event| event["reason"] == "Evicted");
        let name = |event: Value| Some(event["involvedObject"]["name"].as_str()?.to_owned());
        of_pods.filter_map(name).collect()
    }

    /// How often a pod's status was written.
    fn patches(&self) -> usize {
        let log = self.api.log();
        let carried_out = log.iter().filter(|entry| {
            entry.verb == "patch" && entry.path.contains("/pods/") && entry.status == 200
        });
        carried_out.count()
    }
}

/// The only decision, once it is known whether the cluster was told.
fn decided(daemon: &Daemon, state: &str) -> Value {
    let mut found = Value::Null;
    daemon.eventually(&format!("the history says {state}"), |daemon| {
        let mut history = daemon.history();
        found = history.pop().unwrap_or_default();
        assert!(history.is_empty(), "{history:#?}");
        found["publication"]["state"] == state && !found["outcome"].is_null()
    });
    found
}

#[test]
fn s1_036_s1_051_s1_052_s1_053_s1_078_an_evicted_pods_status_says_so_and_keeps_the_record() {
    let Some(cluster) = Cluster::new("an_evicted_pods_status_says_so") else {
        return;
    };
    let mut modest = cluster.pod("modest", "--hold 8Mi");
    let mut hog = cluster.pod("hog", "--hold 140Mi");
    let daemon = cluster.daemon(&LOW, "");
    let decision = decided(&daemon, "published");
    assert!(!hog.lives() && modest.lives());
    let pod = cluster.get("hog");
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["reason"], "Evicted");
    assert_eq!(pod["status"]["message"], decision["message"]);
    let target = &pod["status"]["conditions"][1];
    assert_eq!(target["type"], "DisruptionTarget");
    assert_eq!(target["reason"], "TerminationByKubelet");
    let record = pod["metadata"]["annotations"]["evictd.dev/evicted"]
        .as_str()
        .unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["decision"], decision["id"]);
    assert_eq!(record["signal"], "memory.available");
    assert_eq!(record["threshold"], "64Mi");
    assert_eq!(
        (&record["rank"], &record["request"]),
        (&json!(1), &json!("0"))
    );
    for figure in ["observed", "usage"] {
        assert!(record[figure].is_string(), "{figure}: {record:#}");
    }
    assert_eq!(cluster.get("modest")["status"]["phase"], "Running");
    let events = |reason: &str| -> Vec<Value> {
        let all = cluster.api.actor("test").list("events");
        all.into_iter()
            .filter(|event| event["reason"] == reason)
            .collect()
    };
    daemon.eventually("events tell it", |_| !events("Evicted").is_empty());
    let event = events("Evicted").remove(0);
    // The event may also name the largest process, which the kubelet's message does not.
    let note = event["message"].as_str().unwrap();
    assert!(
        note.starts_with(decision["message"].as_str().unwrap()),
        "{note}"
    );
    assert_eq!(event["metadata"]["annotations"], decision["annotations"]);
    assert_eq!(event["involvedObject"]["uid"], decision["uid"]);
    let event = events("EvictionThresholdMet").remove(0);
    assert_eq!(event["message"], "Attempting to reclaim memory");
    assert_eq!(event["involvedObject"]["name"], "test");
    daemon.eventually("the condition's event", |_| {
        !events("NodeHasInsufficientMemory").is_empty()
    });
    assert_eq!(
        daemon.count("evictd_publications_total{result=\"published\"}"),
        1
    );
    assert_eq!(
        daemon.status()["lastDecision"]["publication"]["state"],
        "published"
    );
}

#[test]
fn no_kill_waits_for_a_slow_server_or_one_that_is_away() {
    for away in [false, true] {
        let Some(cluster) = Cluster::new("no_kill_waits_for_a_slow_server") else {
            return;
        };
        let mut hog = cluster.pod("hog", "--hold 16Mi --grow-to 150Mi --per-second 400Mi");
        let daemon = cluster.daemon(&LOW, "");
        if away {
            cluster.api.go_away();
        } else {
            cluster.api.fault(
                Fault::delay(Duration::from_secs(3))
                    .on("patch", "pods/status")
                    .times(1),
            );
        }
        hog.grow();
        let decision = daemon.evicted(1).remove(0);
        assert_eq!(decision["publication"]["state"], "waiting");
        let killed = decision["outcome"]["killedSeconds"].as_f64().unwrap();
        // It would have had to wait for the answer, else.
        assert!(killed < 3.0, "away: {away}, {killed} s");
        if away {
            cluster.api.come_back();
        }
        decided(&daemon, "published");
        assert_eq!(cluster.get("hog")["status"]["phase"], "Failed");
        assert_eq!(cluster.patches(), 1);
    }
}

#[test]
fn a_soft_victim_is_left_to_the_kubelet_once_its_status_is_published() {
    let Some(cluster) = Cluster::new("a_soft_victim_is_left_to_the_kubelet") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 110Mi");
    let daemon = cluster.daemon(&[("memory.available", "16Mi")], SOFT);
    daemon.eventually("its status is told", |_| {
        cluster.get("hog")["status"]["phase"] == "Failed"
    });
    assert!(hog.lives());
    // As a kubelet would.
    hog.end();
    let decision = decided(&daemon, "published");
    assert_eq!(decision["outcome"]["method"], "torn-down");
    assert_eq!(decision["outcome"]["firstSignalSeconds"], Value::Null);
}

#[test]
fn a_soft_victim_that_no_kubelet_ends_is_killed_after_its_grace_and_asked_by_nobody() {
    let Some(cluster) = Cluster::new("a_soft_victim_that_no_kubelet_ends_is_killed") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 110Mi");
    let daemon = cluster.daemon(&[("memory.available", "16Mi")], SOFT);
    let decision = decided(&daemon, "published");
    let outcome = &decision["outcome"];
    assert_eq!(outcome["firstSignalSeconds"], outcome["killedSeconds"]);
    let killed = outcome["killedSeconds"].as_f64().unwrap();
    assert!((3.9..10.0).contains(&killed), "{outcome:#}");
    assert!(!hog.lives());
}

#[test]
fn a_soft_victim_whose_status_cannot_be_published_gets_sigterm_from_evictd() {
    let Some(cluster) = Cluster::new("a_soft_victim_whose_status_cannot_be_told") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 110Mi");
    cluster
        .api
        .fault(Fault::answer(500).on("patch", "pods/status").times(2));
    let daemon = cluster.daemon(&[("memory.available", "16Mi")], SOFT);
    let decision = decided(&daemon, "published");
    assert_eq!(names(std::slice::from_ref(&decision)), ["shop/hog"]);
    assert_eq!(decision["outcome"]["method"], "terminated");
    assert!(!hog.lives());
}

#[test]
fn events_that_wait_are_written_before_the_agent_ends() {
    let Some(cluster) = Cluster::new("events_that_wait_are_written_before_the_agent_ends") else {
        return;
    };
    let _hog = cluster.pod("hog", "--hold 140Mi");
    let slow = Fault::delay(Duration::from_millis(700));
    cluster.api.fault(slow.on("create", "events"));
    let mut daemon = cluster.daemon(&LOW, "");
    daemon.evicted(1);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    assert_eq!(cluster.evented(), ["hog"], "{}", daemon.log_text());
}

#[test]
fn s1_077_the_node_shows_its_pressure_and_keeps_new_pods_away_until_it_is_over() {
    let Some(cluster) = Cluster::new("the_node_shows_its_pressure") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 16Mi --grow-to 150Mi --per-second 400Mi");
    let daemon = cluster.daemon(&LOW, "evictionPressureTransitionPeriod: 3s");
    hog.grow();
    let taint = vec!["evictd.dev/memory-pressure".to_owned()];
    daemon.eventually("it shows", |_| cluster.machine() == (taint.clone(), true));
    decided(&daemon, "published");
    daemon.eventually("it is over", |_| cluster.machine() == (Vec::new(), false));
}

#[test]
fn a_dry_run_reports_decisions_and_changes_nothing() {
    let Some(cluster) = Cluster::new("a_dry_run_says_what_it_sees") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 140Mi");
    let daemon = cluster.daemon(&LOW, "dryRun: true");
    daemon.eventually("it shows", |_| cluster.machine().1);
    daemon.some_turns_pass();
    assert_eq!(cluster.machine(), (Vec::new(), true));
    assert_eq!(cluster.patches(), 0);
    assert!(hog.lives());
}

#[test]
fn a_pod_started_again_is_ended_again_under_pressure_and_after_it_left_to_a_kubelet_that_is_told() {
    let Some(cluster) = Cluster::new("a_pod_started_again_is_ended_again") else {
        return;
    };
    let _hog = cluster.pod("hog", "--hold 140Mi");
    cluster
        .api
        .fault(Fault::answer(500).on("patch", "pods/status"));
    let daemon = cluster.daemon(&LOW, "evictionPressureTransitionPeriod: 2s");
    daemon.evicted(1);
    // As a kubelet would, which does not know.
    let mut again = cluster.node.worker("hog", "--hold 4Mi");
    daemon.eventually("it is ended again", |_| !again.lives());
    daemon.eventually("the pressure is over", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == false
    });
    let mut modest = cluster.node.worker("hog", "--hold 4Mi");
    daemon.seconds_pass(4);
    assert!(modest.lives(), "it is the kubelet's now");
    cluster.api.clear_faults();
    decided(&daemon, "published");
    assert_eq!(cluster.get("hog")["status"]["phase"], "Failed");
    let ended_again = daemon.said("it is terminated again");
    let counted: usize = daemon.metric("evictd_restarted_before_told_total");
    assert!(ended_again >= 1 && counted == ended_again, "{counted}");
}

#[test]
fn a_pod_started_again_is_let_be_in_a_dry_run() {
    let Some(cluster) = Cluster::new("a_pod_started_again_is_let_be_in_a_dry_run") else {
        return;
    };
    let _hog = cluster.pod("hog", "--hold 140Mi");
    cluster
        .api
        .fault(Fault::answer(500).on("patch", "pods/status"));
    let pressed = "evictionPressureTransitionPeriod: 1h";
    let daemon = cluster.daemon(&LOW, pressed);
    daemon.evicted(1);
    let lines = cluster.lines(pressed);
    daemon.reload(&cluster.node, &LOW, &format!("{lines}\ndryRun: true"));
    let mut again = cluster.node.worker("hog", "--hold 4Mi");
    daemon.some_turns_pass();
    assert!(again.lives());
    daemon.reload(&cluster.node, &LOW, &lines);
    daemon.eventually("it is ended again", |_| !again.lives());
}

#[test]
fn a_cluster_that_wants_no_failed_pods_has_them_deleted() {
    let Some(cluster) = Cluster::new("a_cluster_that_wants_no_failed_pods") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 140Mi");
    cluster
        .api
        .fault(Fault::answer(500).on("delete", "pods").times(1));
    let daemon = cluster.daemon(&LOW, "evict: {method: delete}");
    decided(&daemon, "published");
    let pod = cluster.get("hog");
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod:#}");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 1);
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(!hog.lives());
    let log = cluster.api.log();
    let deleted = log
        .iter()
        .filter(|entry| entry.verb == "delete" && entry.status == 200);
    assert_eq!(deleted.count(), 1);
}

#[test]
fn those_beside_a_pod_that_its_budget_keeps_stay_where_they_cannot_help() {
    let Some(cluster) = Cluster::new("those_beside_a_pod_that_its_budget_keeps") else {
        return;
    };
    let mut hog = cluster.pod("hog", "--hold 100Mi");
    let mut bystanders = ["a", "b"].map(|name| cluster.pod(name, "--hold 4Mi"));
    cluster.protect("hog", "needed");
    let lines = format!("{SOFT}\nevict: {{method: eviction}}");
    let daemon = cluster.daemon(&[("memory.available", "1Mi")], &lines);
    daemon.eventually("it is said", |daemon| {
        daemon.said("no pod is evicted: the pods that may be evicted hold") == 1
    });
    daemon.some_turns_pass();
    assert!(hog.lives() && bystanders.iter_mut().all(Worker::lives));
}

#[test]
fn a_pod_whose_budget_blocks_is_passed_over_until_a_hard_threshold_is_crossed() {
    let Some(cluster) = Cluster::new("a_pod_whose_budget_blocks_is_passed_over") else {
        return;
    };
    let mut first = cluster.pod("first", "--hold 70Mi --grow-to 120Mi --per-second 200Mi");
    let mut second = cluster.pod("second", "--hold 40Mi");
    let mut third = cluster.pod("third", "--hold 20Mi");
    cluster.protect("first", "needed");
    for budget in ["one", "two"] {
        cluster.protect("second", budget);
    }
    let lines = format!("{SOFT}\nevict: {{method: eviction}}\nevictWithoutRelief: true");
    let daemon = cluster.daemon(&[("memory.available", "40Mi")], &lines);
    daemon.eventually("the third is let go", |_| {
        cluster.get("third")["metadata"]["deletionTimestamp"].is_string()
    });
    // As a kubelet would.
    third.end();
    daemon.evicted(1);
    let decisions = daemon.history();
    assert_eq!(
        names(&decisions)[..3],
        ["shop/first", "shop/second", "shop/third"]
    );
    let error = |index: usize| {
        decisions[index]["outcome"]["error"]
            .as_str()
            .unwrap_or_default()
    };
    assert!(
        error(0).contains("The disruption budget needed needs 1 healthy pods"),
        "{}",
        error(0)
    );
    assert!(
        error(1).contains("more than one PodDisruptionBudget"),
        "{}",
        error(1)
    );
    // The process may be gone before evictd has the server's answer.
    let method = decisions[2]["outcome"]["method"].as_str().unwrap();
    assert!(["torn-down", "already-gone"].contains(&method), "{method}");
    assert_eq!(decisions[2]["publication"], Value::Null);
    assert_eq!(
        daemon.count("evictd_eviction_failures_total{stage=\"budget\"}"),
        2
    );
    assert!(first.lives() && second.lives());
    // Who stayed was not evicted, in nobody's words.
    let soft = "evictd_evictions_total{signal=\"memory.available\",kind=\"soft\"}";
    assert_eq!(daemon.count(soft), 1);
    daemon.eventually("its event is written", |_| cluster.evented() == ["third"]);
    first.grow();
    daemon.eventually("no budget holds against a hard threshold", |_| {
        !first.lives() && cluster.get("first")["status"]["phase"] == "Failed"
    });
}

#[test]
fn a_pod_that_was_let_go_without_an_answer_costs_no_other() {
    let on = |fault: Fault| fault.on("create", "pods/eviction").times(1);
    let unheard = || on(Fault::cut_after(0));
    let unseen = Fault::answer(503).on("get", "pods").times(2);
    for (case, faults) in [
        ("let go unheard", vec![unheard()]),
        ("let go unheard and not to be seen", vec![unheard(), unseen]),
        ("not let go in time", vec![on(Fault::answer(504))]),
        ("slow", vec![on(Fault::delay(Duration::from_secs(3)))]),
        ("a conflict", vec![on(Fault::answer(409))]),
    ] {
        let Some(cluster) = Cluster::new("a_pod_that_was_let_go_without_an_answer") else {
            return;
        };
        let mut first = cluster.pod("first", "--hold 70Mi");
        let mut second = cluster.pod("second", "--hold 40Mi");
        for fault in faults {
            cluster.api.fault(fault);
        }
        // An answer that takes longer than the grace costs another pod.
        let soft = match case {
            "slow" => SOFT.to_owned(),
            _ => SOFT.replace("Period: 4", "Period: 2"),
        };
        let lines = format!("{soft}\nevict: {{method: eviction}}");
        let daemon = cluster.daemon(&[("memory.available", "16Mi")], &lines);
        let gone = daemon.evicted(1);
        assert_eq!(names(&gone), ["shop/first"], "{case}");
        let leaves = |pod: &str| cluster.get(pod)["metadata"]["deletionTimestamp"].is_string();
        assert!(leaves("first") && !leaves("second"), "{case}");
        assert!(!first.lives() && second.lives(), "{case}");
        assert_eq!(daemon.evictions().len(), 1, "{case}");
    }
}

#[test]
fn a_hard_threshold_crossed_while_a_budget_is_asked_ends_a_pod_that_goes_already_and_no_other() {
    let Some(cluster) = Cluster::new("a_hard_threshold_crossed_while_a_budget_is_asked") else {
        return;
    };
    let mut first = cluster.pod("first", "--hold 70Mi");
    let mut second = cluster.pod("second", "--hold 20Mi --grow-to 110Mi --per-second 400Mi");
    let hang = Fault::delay(Duration::from_mins(10));
    cluster.api.fault(hang.on("create", "pods/eviction"));
    let soft = SOFT.replace("Period: 4", "Period: 20");
    let lines = format!("{soft}\nevict: {{method: eviction}}");
    let daemon = cluster.daemon(&[("memory.available", "40Mi")], &lines);
    daemon.eventually("the first is asked", |daemon| {
        daemon.said("evicting shop/first") == 1
    });
    // The request has landed, and its answer is on its way.
    let grace = json!({ "gracePeriodSeconds": 30 });
    let actor = cluster.api.actor("test");
    actor.delete("pods", "shop/first", grace).unwrap();
    second.grow();
    daemon.eventually("the first is ended", |_| !first.lives());
    daemon.some_turns_pass();
    assert!(second.lives());
    assert_eq!(cluster.get("second")["status"]["phase"], "Running");
}
