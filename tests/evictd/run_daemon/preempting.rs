//! Critical pods that lack room where no kubelet runs: others go for them.

use crate::daemon::{Daemon, message, names, seconds_between};
use crate::node::{Node, Traits, Worker, metadata, requests};
use evictd_testkit::ApiServer;
use serde_json::{Value, json};
use std::fs;

/// Of the node's 192 MiB pods may request 128.
const HARD: [(&str, &str); 1] = [("memory.available", "64Mi")];
const REJECT: &str = "admission: reject";

/// A pod that requests so much, with this grace of its own.
fn asking(memory: &str, grace: u32) -> Traits {
    let mut traits = requests(memory);
    traits.spec["terminationGracePeriodSeconds"] = json!(grace);
    traits
}

fn critical(memory: &str) -> Traits {
    let mut traits = requests(memory);
    traits.spec["priorityClassName"] = json!("system-node-critical");
    traits
}

/// Pods that request 110 MiB between them, one of them deaf to SIGTERM, and one that requests nothing.
fn crowd(node: &Node) -> [Worker; 3] {
    let deaf = node.deaf_worker("deaf", "--hold 2Mi");
    node.admit("deaf", asking("60Mi", 2));
    [
        deaf,
        node.pod("polite", "--hold 2Mi", asking("50Mi", 20)),
        node.pod("small", "--hold 2Mi", Traits::default()),
    ]
}

/// Decisions on pods that went for a critical one.
fn preempted(daemon: &Daemon) -> Vec<Value> {
    let mut history = daemon.history();
    history.retain(|decision| decision["kind"] == "preemption");
    history
}

fn counted(daemon: &Daemon, resource: &str) -> u64 {
    let text = daemon.page("/metrics").1;
    let line = format!("evictd_preemptions_total{{resource=\"{resource}\"}} ");
    let mut lines = text.lines();
    lines
        .find_map(|found| found.strip_prefix(&line)?.parse().ok())
        .unwrap_or(0)
}

fn ask(node: &Node, daemon: &Daemon, traits: Traits) -> Value {
    let file = node.path("asked.json");
    let pod = crate::node::manifest("asked", &node.group.relative, traits);
    fs::write(&file, pod).unwrap();
    daemon.command(&["admit", "--pod", file.to_str().unwrap()])
}

#[test]
fn s2_016_s2_020_victims_leave_one_after_the_other_with_their_own_grace() {
    let Some(node) = Node::new("victims_leave_one_after_the_other") else {
        return;
    };
    let mut crowd = crowd(&node);
    let daemon = Daemon::start(&node, &HARD, REJECT);
    assert_eq!(counted(&daemon, "memory"), 0);
    let asked = ask(&node, &daemon, critical("120Mi"));
    assert_eq!(asked["allowed"], true);
    assert_eq!(asked["preempt"], json!(["shop/deaf", "shop/polite"]));
    assert_eq!(asked["qos"]["shop/small"], "BestEffort");
    daemon.some_turns_pass();
    assert!(
        crowd.iter_mut().all(Worker::lives),
        "a question kills nobody"
    );

    node.admit("vital", critical("120Mi"));
    daemon.evicted(2);
    let [deaf, polite, small] = &mut crowd;
    assert!(!deaf.lives() && !polite.lives() && small.lives());
    let gone = preempted(&daemon);
    assert_eq!(names(&gone), ["shop/deaf", "shop/polite"]);
    for one in &gone {
        assert_eq!(one["reason"], "Preempting");
        assert_eq!(one["message"], "Preempted in order to admit critical pod");
        assert_eq!(one["preemptor"], "shop/vital");
        assert_eq!(one["signal"], "memory");
    }
    let graces = gone.iter().map(|one| &one["gracePeriodSeconds"]);
    assert_eq!(graces.collect::<Vec<_>>(), [&json!(2), &json!(20)]);
    let outcome = |index: usize, key: &str| gone[index]["outcome"][key].as_f64();
    let killed = outcome(0, "killedSeconds").unwrap();
    assert!((2.0..10.0).contains(&killed), "{:#}", gone[0]);
    assert_eq!(outcome(1, "killedSeconds"), None, "{:#}", gone[1]);
    let apart = seconds_between(&gone[0]["time"], &gone[1]["time"]);
    assert!(
        apart >= outcome(0, "lastProcessGoneSeconds").unwrap(),
        "{apart} s"
    );
    assert_eq!(counted(&daemon, "memory"), 2);
    let finding = daemon.status()["admission"]["latest"][0].clone();
    assert_eq!(
        (&finding["action"], &finding["pod"], &finding["preempt"]),
        (
            &json!("preempt"),
            &json!("shop/vital"),
            &json!(["shop/deaf", "shop/polite"])
        )
    );
    // What is left is enough for one that asks for little, and not for more.
    assert_eq!(ask(&node, &daemon, requests("8Mi"))["allowed"], true);
    assert_eq!(
        ask(&node, &daemon, requests("9Mi"))["reason"],
        "OutOfmemory"
    );
}

#[test]
fn a_victim_whose_turn_comes_in_a_dry_run_waits_for_its_end() {
    let Some(node) = Node::new("a_victim_whose_turn_comes_in_a_dry_run") else {
        return;
    };
    let mut deaf = node.deaf_worker("deaf", "--hold 2Mi");
    node.admit("deaf", asking("60Mi", 5));
    let mut polite = node.pod("polite", "--hold 2Mi", asking("50Mi", 20));
    let daemon = Daemon::start(&node, &HARD, REJECT);
    node.admit("vital", critical("120Mi"));
    daemon.eventually("the first one is asked", |daemon| {
        preempted(daemon).len() == 1
    });
    daemon.reload(&node, &HARD, &format!("{REJECT}\ndryRun: true"));
    daemon.evicted(1);
    daemon.some_turns_pass();
    assert!(!deaf.lives() && polite.lives());
    assert_eq!(names(&preempted(&daemon)), ["shop/deaf"]);
    daemon.reload(&node, &HARD, REJECT);
    daemon.evicted(2);
    assert!(!polite.lives());
}

#[test]
fn s2_019_a_victim_that_cannot_be_ended_is_passed_over_and_the_critical_pod_stays() {
    let Some(node) = Node::new("a_victim_that_cannot_be_ended_is_passed_over") else {
        return;
    };
    node.admit("nowhere", asking("60Mi", 0));
    let mut polite = node.pod("polite", "--hold 2Mi", asking("50Mi", 20));
    let daemon = Daemon::start(&node, &HARD, REJECT);
    node.admit("vital", critical("120Mi"));
    daemon.evicted(1);
    assert!(!polite.lives());
    assert_eq!(names(&preempted(&daemon)), ["shop/polite"]);
    daemon.eventually("it says so", |daemon| {
        daemon.said("shop/nowhere cannot be preempted for shop/vital") == 1
    });
    assert_eq!(counted(&daemon, "memory"), 1);
    let warnings = daemon.status()["warnings"].to_string();
    assert!(!warnings.contains("is not admitted"), "{warnings}");
}

#[test]
fn a_pod_that_does_not_fit_and_is_not_critical_is_rejected() {
    let Some(node) = Node::new("what_does_not_fit_waits_outside") else {
        return;
    };
    let mut crowd = crowd(&node);
    let daemon = Daemon::start(&node, &HARD, REJECT);
    let mut large = node.pod("large", "--hold 2Mi", requests("20Mi"));
    daemon.eventually("it is ended", |_| !large.lives());
    let why = "memory, requested: 20971520, used: 115343360, capacity: 134217728";
    let said = format!("pod not admitted: OutOfmemory: Node didn't have enough resource: {why}");
    daemon.eventually("it says why", |daemon| daemon.said(&said) == 1);
    let mut again = node.worker("large", "--hold 2Mi");
    daemon.eventually("and so whenever it starts", |_| !again.lives());
    // Nobody is less important than everybody else's victims: no set of pods is enough.
    node.admit("vast", critical("1Gi"));
    daemon.eventually("the daemon gives up on it", |daemon| {
        daemon.said("no set of running pods found to reclaim resources") == 1
    });
    assert!(crowd.iter_mut().all(Worker::lives));
    crowd[0].end();
    fs::remove_file(node.path("manifests/deaf.yaml")).unwrap();
    daemon.eventually("now it fits", |daemon| {
        !daemon.status()["warnings"]
            .to_string()
            .contains("shop/large is not admitted")
    });
    let mut large = node.worker("large", "--hold 2Mi");
    daemon.some_turns_pass();
    assert!(large.lives() && crowd[1].lives());
    assert_eq!(daemon.status()["pods"]["active"], 3);
    assert!(preempted(&daemon).is_empty());
}

#[test]
fn by_default_and_in_a_rehearsal_preemption_is_only_told_and_protected_pods_go_for_nobody() {
    let Some(node) = Node::new("by_default_preemption_is_only_told") else {
        return;
    };
    let mut crowd = crowd(&node);
    for lines in ["", "admission: reject\ndryRun: true"] {
        let daemon = Daemon::start(&node, &HARD, lines);
        node.admit("vital", critical("120Mi"));
        daemon.eventually("it is told", |daemon| {
            daemon.said(
                "shop/vital is critical and would be admitted by preempting shop/deaf, shop/polite",
            ) == 1
        });
        node.admit("large", requests("20Mi"));
        daemon.eventually("this, too", |daemon| {
            daemon.said("shop/large would not be admitted") == 1
        });
        daemon.some_turns_pass();
        assert!(crowd.iter_mut().all(Worker::lives));
        assert_eq!(counted(&daemon, "memory"), 0);
        for name in ["vital", "large"] {
            fs::remove_file(node.path(&format!("manifests/{name}.yaml"))).unwrap();
        }
    }
    let lines = "admission: reject\nprotect: {namespaces: [shop]}";
    let daemon = Daemon::start(&node, &HARD, lines);
    let asked = ask(&node, &daemon, critical("120Mi"));
    assert_eq!(asked["reason"], "UnexpectedAdmissionError");
    assert_eq!(asked["preempt"], json!([]));
}

#[test]
fn s2_017_s2_018_a_victims_status_and_event_say_for_what_it_went() {
    let Some(node) = Node::new("a_victims_status_and_event_say_for_what_it_went") else {
        return;
    };
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    for (kind, name) in [("Node", "test"), ("Namespace", "shop")] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        admin.create(object).unwrap();
    }
    fs::write(node.path("kubeconfig"), api.kubeconfig()).unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "victim", "namespace": "shop"},
        "spec": {"nodeName": "test", "containers": [{"name": "main", "image": "none"}]},
        "status": {"phase": "Running"},
    });
    let made = admin.create(pod).unwrap();
    let mut traits = asking("100Mi", 1);
    traits.metadata = metadata(json!({"uid": made["metadata"]["uid"]})).metadata;
    let mut victim = node.pod("victim", "--hold 2Mi", traits);
    let way = format!(
        "{REJECT}\nkubernetes: {{kubeconfig: {}}}",
        node.path("kubeconfig").display()
    );
    let daemon = Daemon::start(&node, &HARD, &way);
    node.admit("vital", critical("100Mi"));
    daemon.evicted(1);
    assert!(!victim.lives());
    daemon.eventually("the history says it was told", |daemon| {
        preempted(daemon)[0]["publication"]["state"] == "published"
    });
    let status = admin.get("pods", "shop/victim").unwrap()["status"].clone();
    let text = "Preempted in order to admit critical pod";
    assert_eq!(
        (&status["phase"], &status["reason"], &status["message"]),
        (&json!("Failed"), &json!("Preempting"), &json!(text))
    );
    let target = &status["conditions"][0];
    assert_eq!(
        (&target["type"], &target["status"], &target["reason"]),
        (
            &json!("DisruptionTarget"),
            &json!("True"),
            &json!("TerminationByKubelet")
        )
    );
    let told = "Pod was preempted by Kubelet to accommodate a critical pod.";
    assert_eq!(target["message"], told);
    daemon.eventually("an event tells it", |_| {
        let told = |event: &Value| event["reason"] == "Preempting" && event["message"] == text;
        admin.list("events").iter().any(told)
    });
    let line = |line: &Value| message(line).starts_with("preempting shop/victim for shop/vital");
    assert_eq!(daemon.log().iter().filter(|one| line(one)).count(), 1);
}
