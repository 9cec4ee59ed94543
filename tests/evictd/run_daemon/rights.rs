//! The daemon under the rights and the policies that packaging/kubernetes gives it, and no others.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::node::EVICTD;
use crate::packaged::{ACCOUNT, policies, rules};
use crate::run_daemon::kubelet;
use evictd_testkit::Fault;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Crossed by a pod that holds 90 MiB of the node's 192.
const LOW: &str = "110Mi";
const ROLES: [&str; 2] = ["base/rights.yaml", "components/eviction-api/rights.yaml"];

/// A verb, and the resource that it is on.
type Right = (String, String);

fn granted() -> BTreeSet<Right> {
    let list = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let all = rules(&ROLES).into_iter().flat_map(|rule| {
        let mut all = Vec::new();
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                let what = format!("{group}/{resource}");
                all.extend(
                    list(&rule["verbs"])
                        .into_iter()
                        .map(|verb| (verb, what.clone())),
                );
            }
        }
        all
    });
    all.collect()
}

impl Cluster {
    /// From now on the API server takes nobody but the agent of this node, as it is packaged.
    fn guard(&self) {
        for policy in policies() {
            self.admin.create(policy).unwrap();
        }
        let rules = Value::from(rules(&ROLES));
        self.api.require_tokens();
        self.api.grant_on("test", "agent", ACCOUNT, Some(rules));
        self.write_kubeconfig("agent");
    }

    /// What the agent was let do, and what it was refused.
    fn did(&self) -> (BTreeSet<Right>, Vec<String>) {
        let log = self.api.log();
        let own = || log.iter().filter(|entry| entry.user == ACCOUNT);
        let right =
            |verb: &str, group: &str, what: &str| (verb.to_owned(), format!("{group}/{what}"));
        let done = own().filter(|entry| (200..300).contains(&entry.status));
        let done = done.map(|entry| right(entry.verb, entry.group, &entry.what));
        let refused = own().filter(|entry| matches!(entry.status, 401 | 403 | 422));
        let refused =
            refused.map(|entry| format!("{} {}: {}", entry.method, entry.path, entry.status));
        (done.collect(), refused.collect())
    }

    fn ends(&self, daemon: &Daemon, pod: &str, arguments: &str) {
        let mut hog = self.pod(pod, arguments);
        daemon.eventually("the hog is gone", |_| !hog.lives());
    }
}

#[test]
fn it_needs_every_right_that_is_packaged_and_no_other() {
    let Some(cluster) = Cluster::new("it_needs_every_right_that_is_packaged") else {
        return;
    };
    cluster.guard();
    let kubelet = kubelet::Kubelet::start();
    fs::write(cluster.node.path("token"), "good").unwrap();
    let lines = |more: &str| {
        format!(
            "{}\n{}\n{more}",
            cluster.lines(),
            kubelet.line(&cluster.node)
        )
    };
    let hard = [("memory.available", LOW)];
    let seconds = |daemon: &Daemon| daemon.status()["uptimeSeconds"].as_i64().unwrap();

    let daemon = Daemon::start(
        &cluster.node,
        &hard,
        &lines("evictionPressureTransitionPeriod: 1s"),
    );
    daemon.eventually("it has asked the kubelet", |daemon| {
        daemon.said("the kubelet was asked") > 0
    });
    // The first notice fails, so that the pod is looked at before it is told again.
    cluster
        .api
        .fault(Fault::answer(500).on("patch", "pods/status").times(1));
    cluster.ends(&daemon, "first", "--hold 90Mi");
    daemon.eventually("its status is told", |_| {
        cluster.admin.get("pods", "shop/first").unwrap()["status"]["phase"] == "Failed"
    });
    // Repeats of an event are counted in it, once in ten seconds.
    let then = seconds(&daemon) + 11;
    daemon.eventually("the event is an old one", |daemon| seconds(daemon) >= then);
    cluster.ends(&daemon, "second", "--hold 90Mi");
    daemon.eventually("the count of an event is written", |_| {
        let mut events = cluster.admin.list("events").into_iter();
        events.any(|event| event["series"]["count"].as_i64() > Some(1))
    });
    daemon.eventually("the Node shows its pressure no more", |_| {
        cluster.admin.get("nodes", "test").unwrap()["spec"]["taints"] == json!([])
    });
    drop(daemon);

    // A server that does not stream lists is asked for whole ones.
    cluster.api.set(|settings| settings.streaming_lists = false);
    let daemon = Daemon::start(&cluster.node, &hard, &lines("evict: {method: delete}"));
    cluster.ends(&daemon, "third", "--hold 90Mi");
    daemon.eventually("it is deleted", |_| {
        let pod = cluster.admin.get("pods", "shop/third");
        pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    });
    drop(daemon);
    cluster.api.set(|settings| settings.streaming_lists = true);

    let soft = "evictionSoft: {memory.available: 110Mi}\nevictionSoftGracePeriod: {memory.available: 1s}\n\
                evictionMaxPodGracePeriod: 1\nevict: {method: eviction}";
    let daemon = Daemon::start(&cluster.node, &[("memory.available", "16Mi")], &lines(soft));
    cluster.ends(&daemon, "fourth", "--hold 90Mi");

    // Its DaemonSet is not there any more.
    let preserved = cluster.admin.get("nodes", "test").unwrap();
    assert!(
        preserved["status"]["conditions"]
            .to_string()
            .contains("Evictd")
    );
    let hook = Command::new(EVICTD)
        .args(["uninstall-node", "--if-daemonset-deleted", "evictd/evictd"])
        .arg("--config")
        .arg(cluster.node.path("evictd.yaml"))
        .output()
        .unwrap();
    assert!(hook.status.success(), "{hook:?}");
    let node = cluster.admin.get("nodes", "test").unwrap();
    assert!(
        !node["status"]["conditions"].to_string().contains("Evictd"),
        "{hook:?}"
    );
    // It was asked for, though it is not there: a 404 is an answer, too.
    let asked = |entry: &evictd_testkit::Entry| entry.what == "daemonsets" && entry.status == 404;
    assert!(cluster.api.log().iter().any(asked));

    let (mut used, refused) = cluster.did();
    let unstreamed: Vec<&String> = refused
        .iter()
        .filter(|line| !line.contains("watch=true"))
        .collect();
    assert!(unstreamed.is_empty(), "{unstreamed:?}");
    used.insert(("get".to_owned(), "apps/daemonsets".to_owned()));
    used.insert(("get".to_owned(), "/nodes/configz".to_owned()));
    assert_eq!(used, granted());
}
