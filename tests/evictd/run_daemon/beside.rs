//! The daemon and a kubelet on one node: pods are real processes in the cgroups that the kubelet makes.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names, wait};
use crate::node::{EVICTD, NODE_MIB};
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use evictd_testkit::{Controllers, Driver, Kubelet, Processes};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What a second of the kubelet lasts here.
const SECOND: Duration = Duration::from_millis(100);
/// A pod that holds 90 MiB of the node's 192 crosses it, and one of 8 MiB does not.
const LOW: &str = "110Mi";
const GROWS: &str = "--hold 4Mi --grow-to 96Mi --per-second 150Mi";

struct Beside {
    // In this order they stop.
    kubelet: Kubelet,
    controllers: Controllers,
    cluster: Cluster,
}

impl Beside {
    fn new(test: &str, driver: Driver) -> Option<Self> {
        Self::with(test, driver, SECOND)
    }

    /// Where a second of the kubelet lasts so long.
    fn with(test: &str, driver: Driver, second: Duration) -> Option<Self> {
        let cluster = Cluster::new(test)?;
        let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
        let group = &cluster.node.group.relative;
        let roots = hierarchies.mounts().map(|mount| mount.join(group));
        let roots: Vec<_> = roots.filter(|root| root.is_dir()).collect();
        let runtime = Processes::new(roots, driver).with_entrypoint(EVICTD);
        Some(Self {
            kubelet: Kubelet::start(&cluster.api, "test", second, runtime).unwrap(),
            controllers: Controllers::start(&cluster.api).unwrap(),
            cluster,
        })
    }

    /// A running pod that begins at once; `shell` runs before it.
    fn pod(&self, name: &str, shell: &str, arguments: &str) {
        let script = format!("{shell} exec {EVICTD} worker --alone {arguments}");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "nodeName": "test", "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "evictd", "command": ["sh", "-c", script]}],
            },
        });
        self.cluster.admin.create(pod).unwrap();
        self.sees(name, |pod| pod["status"]["phase"] == "Running");
    }

    fn get(&self, name: &str) -> Value {
        let pod = self.cluster.admin.get("pods", &format!("shop/{name}"));
        pod.unwrap_or_default()
    }

    fn sees(&self, name: &str, what: impl Fn(&Value) -> bool) -> Value {
        let seen = wait(|| what(&self.get(name)));
        assert!(seen, "{:#}", self.get(name));
        self.get(name)
    }

    fn is_untouched(&self, name: &str) {
        let status = self.get(name)["status"].clone();
        assert_eq!(status["phase"], "Running", "{name}");
        assert_eq!(status["containerStatuses"][0]["restartCount"], 0, "{name}");
    }
}

fn was_evicted(pod: &Value) -> bool {
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    let status = &pod["status"];
    status["phase"] == "Failed" && status["reason"] == "Evicted" && !ended.is_null()
}

#[test]
fn a_hog_is_ended_in_either_drivers_cgroups_and_stays_so() {
    for driver in [Driver::Cgroupfs, Driver::Systemd] {
        let Some(node) = Beside::new("a_hog_is_ended_in_either_drivers_cgroups", driver) else {
            return;
        };
        node.pod("small", "", "--hold 4Mi");
        let daemon = node.cluster.daemon(LOW);
        daemon.eventually_knows(&["small"]);
        node.pod("hog", "trap '' TERM;", GROWS);
        // The kubelet may start it once more where the API server is slow to know.
        let pod = node.sees("hog", was_evicted);
        assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
        let message = daemon.history()[0]["message"].clone();
        assert_eq!(pod["status"]["message"], message, "{driver:?}");
        // Many seconds of this kubelet.
        daemon.seconds_pass(1);
        assert!(was_evicted(&node.get("hog")));
        node.is_untouched("small");
    }
}

#[test]
fn a_soft_eviction_is_the_kubelets_teardown() {
    let Some(node) = Beside::new("a_soft_eviction_is_the_kubelets", Driver::Systemd) else {
        return;
    };
    let lines = format!(
        "{}\nevictionSoft: {{memory.available: {LOW}}}\nevictionSoftGracePeriod: {{memory.available: 1s}}\n\
         evictionMaxPodGracePeriod: 20",
        node.cluster.lines()
    );
    let daemon = Daemon::start(&node.cluster.node, &[("memory.available", "1Mi")], &lines);
    // It says with its exit code that it was asked to end.
    let polite = "trap 'exit 3' TERM; while :; do sleep 0.05; done &";
    let ask = format!("{polite} trap 'exit 3' TERM; {EVICTD} worker --alone {GROWS} & wait;");
    node.pod("hog", &ask, "");
    let pod = node.sees("hog", was_evicted);
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 3, "{pod:#}");
    let decision = daemon.evicted(1).remove(0);
    assert_eq!(
        (&decision["pod"], &decision["kind"]),
        (&json!("shop/hog"), &json!("soft"))
    );
}

#[test]
fn a_pod_that_the_kubelet_restarts_before_its_status_is_published_is_terminated_again() {
    let Some(node) = Beside::new("what_the_kubelet_starts_again", Driver::Cgroupfs) else {
        return;
    };
    let daemon = node.cluster.daemon(LOW);
    node.pod("hog", "", "--hold 4Mi");
    daemon.eventually_knows(&["hog"]);
    node.cluster.delete("hog");
    wait(|| node.get("hog").is_null());
    node.pod("hog", "", "--hold 4Mi --grow-to 96Mi --per-second 40Mi");
    daemon.eventually_knows(&["hog"]);
    node.cluster.api.go_away();
    node.sees("hog", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1)
    });
    node.cluster.api.come_back();
    node.sees("hog", was_evicted);
    daemon.eventually("the history knows", |daemon| {
        let history = daemon.history();
        history
            .iter()
            .any(|one| one["publication"]["state"] == "published")
    });
}

#[test]
fn a_status_that_a_kubelet_overwrites_is_published_again_until_it_lasts() {
    let test = "what_a_deaf_kubelet_writes_over_is_owed";
    let Some(node) = Beside::new(test, Driver::Cgroupfs) else {
        return;
    };
    node.pod("small", "", "--hold 4Mi");
    let lines = format!(
        "{}\nevictionPressureTransitionPeriod: 1s",
        node.cluster.lines()
    );
    let daemon = Daemon::start(&node.cluster.node, &[("memory.available", LOW)], &lines);
    daemon.eventually_knows(&["small"]);
    // It grows only the first time.
    let once = "[ -e grown ] && exec sleep infinity; touch grown;";
    let once = once.replace(
        "grown",
        &node.cluster.node.path("grown").display().to_string(),
    );
    node.pod("hog", &once, "--hold 4Mi --grow-to 96Mi --per-second 40Mi");
    daemon.eventually_knows(&["hog", "small"]);
    // The API server is started again, and the kubelet's watch takes longer than the evictor's patch.
    node.cluster.api.go_away();
    node.kubelet.miss_changes();
    node.sees("hog", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1)
    });
    node.cluster.api.come_back();
    let record = |pod: &Value| -> Value {
        let record = &pod["metadata"]["annotations"]["evictd.dev/evicted"];
        serde_json::from_str(record.as_str().unwrap_or("null")).unwrap()
    };
    node.sees("hog", |pod| {
        !record(pod).is_null() && pod["status"]["phase"] == "Running"
    });
    assert_eq!(daemon.history()[0]["publication"]["state"], "waiting");
    node.sees("hog", |pod| record(pod)["told"].as_u64() >= Some(2));
    // Meanwhile the pressure is over, and the pod that runs again is no hog.
    let pod = node.sees("hog", was_evicted);
    assert_eq!(pod["status"]["message"], daemon.history()[0]["message"]);
    daemon.eventually("the API server is known to know", |daemon| {
        daemon.history()[0]["publication"]["state"] == "published"
    });
    assert!(was_evicted(&node.get("hog")));
    assert_eq!(names(&daemon.history()), ["shop/hog"]);
    node.is_untouched("small");
}

#[test]
fn a_hog_that_is_deleted_by_force_is_ended_before_its_kubelet_does_and_nobody_else_is() {
    let second = Duration::from_secs(1);
    let test = "a_hog_that_is_deleted_by_force_is_ended_before";
    let Some(node) = Beside::with(test, Driver::Cgroupfs, second) else {
        return;
    };
    node.pod("small", "", "--hold 4Mi");
    let daemon = node.cluster.daemon(LOW);
    daemon.eventually_knows(&["small"]);
    // Its container has no handler for SIGTERM, so its kubelet needs two seconds; it takes the rest in less than one.
    node.pod("hog", "", "--hold 60Mi --grow-to 180Mi --per-second 120Mi");
    daemon.eventually_knows(&["hog", "small"]);
    let now = json!({ "gracePeriodSeconds": 0 });
    node.cluster.admin.delete("pods", "shop/hog", now).unwrap();
    let decision = daemon.evicted(1).remove(0);
    assert_eq!(decision["pod"], "shop/hog");
    let took = decision["outcome"]["reactionSeconds"].as_f64().unwrap();
    assert!(took < 1.0, "{took} s: {:#}", decision["outcome"]);
    assert_eq!(daemon.said("too late for a hard threshold"), 1);
    node.is_untouched("small");
}

#[test]
fn the_replacement_of_an_evicted_pod_does_not_return_at_once() {
    let test = "what_is_made_again_for_an_evicted_pod";
    let Some(node) = Beside::new(test, Driver::Cgroupfs) else {
        return;
    };
    let lines = format!(
        "{}\nevictionPressureTransitionPeriod: 2s",
        node.cluster.lines()
    );
    let daemon = Daemon::start(&node.cluster.node, &[("memory.available", LOW)], &lines);
    let admin = &node.cluster.admin;
    let container = |arguments: &str| {
        let script = format!("exec {EVICTD} worker --alone {arguments}");
        json!({"name": "main", "image": "evictd", "command": ["sh", "-c", script]})
    };
    for round in 0..5 {
        let name = format!("web-{round}");
        node.controllers.pause(true);
        let set = admin.create(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [container("--hold 1Mi")]},
                },
            },
        }));
        let owner = set.unwrap()["metadata"]["uid"].clone();
        let of_set = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"] == owner;
        let hog = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("hog-{round}"), "namespace": "shop",
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": owner, "controller": true,
                }],
            },
            "spec": {"nodeName": "test", "containers": [container(GROWS)]},
        });
        admin.create(hog).unwrap();
        node.controllers.pause(false);
        let made_again = || {
            let mut pods = admin.list("pods").into_iter().filter(of_set);
            pods.find(|pod| pod["metadata"]["name"] != format!("hog-{round}"))
        };
        let seen = wait(|| made_again().is_some());
        assert!(
            seen,
            "round {round}: {:#}",
            node.get(&format!("hog-{round}"))
        );
        let pod = made_again().unwrap();
        assert_eq!(pod["spec"]["nodeName"], Value::Null, "round {round}");
        assert!(wait(|| made_again().unwrap()["spec"]["nodeName"] == "test"));
    }
    assert_eq!(daemon.evicted(5).len(), 5);
}

#[test]
fn of_two_that_evict_only_one_ends_a_pod_for_the_same_bytes() {
    let second = Duration::from_secs(1);
    let Some(node) = Beside::with("of_two_that_evict_only_one", Driver::Cgroupfs, second) else {
        return;
    };
    // Deaf, so that the kubelet needs two seconds.
    node.pod("first", "trap '' TERM;", "--hold 60Mi");
    let daemon = node.cluster.daemon(LOW);
    daemon.eventually_knows(&["first"]);
    node.pod("second", "", "--hold 4Mi --grow-to 40Mi --per-second 12Mi");
    // The kubelet looks, too, and has a threshold that is crossed before evictd's.
    let usage = node.cluster.node.group.dir("memory.usage_in_bytes");
    let usage = if usage.exists() {
        usage
    } else {
        node.cluster.node.group.dir("memory.current")
    };
    let available = || {
        let used: u64 = fs::read_to_string(&usage).unwrap().trim().parse().unwrap();
        (NODE_MIB << 20).saturating_sub(used)
    };
    assert!(wait(|| available() < 116 << 20));
    node.kubelet
        .evict("shop/first", "The node was low on resource: memory. ");
    daemon.eventually("evictd's own threshold is crossed, too", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    node.sees("first", was_evicted);
    daemon.some_turns_pass();
    assert_eq!(daemon.said("the kubelet evicts shop/first"), 1);
    assert_eq!(daemon.history(), [Value::Null; 0]);
    node.is_untouched("second");
}

#[test]
fn an_api_server_whose_clock_is_wrong_misleads_nobody() {
    for hours in [-1, 1] {
        let Some(node) = Beside::new("an_api_server_whose_clock_is_wrong", Driver::Systemd) else {
            return;
        };
        let skew = SignedDuration::from_hours(hours);
        node.cluster.api.set(|settings| settings.clock_skew = skew);
        node.pod("small", "", "--hold 4Mi");
        let lines = format!(
            "{}\nevictionPressureTransitionPeriod: 2s",
            node.cluster.lines()
        );
        let daemon = Daemon::start(&node.cluster.node, &[("memory.available", LOW)], &lines);
        daemon.eventually_knows(&["small"]);
        node.pod("hog", "", GROWS);
        let pod = node.sees("hog", was_evicted);
        let is_now = |time: &Value| {
            let time: Timestamp = time.as_str().unwrap().parse().unwrap();
            assert!(Timestamp::now().duration_since(time).abs() < SignedDuration::from_mins(2));
        };
        let of_type = |list: &Value, kind: &str| {
            let mut all = list.as_array().unwrap().iter();
            all.find(|one| one["type"] == kind)
                .cloned()
                .unwrap_or_default()
        };
        let target = of_type(&pod["status"]["conditions"], "DisruptionTarget");
        is_now(&target["lastTransitionTime"]);
        let machine = || node.cluster.admin.get("nodes", "test").unwrap();
        for status in ["True", "False"] {
            let condition = || of_type(&machine()["status"]["conditions"], "EvictdMemoryPressure");
            assert!(
                wait(|| condition()["status"] == status),
                "{status}: {:#}",
                machine()
            );
            is_now(&condition()["lastTransitionTime"]);
        }
        assert_eq!(daemon.evictions().len(), 1);
        node.is_untouched("small");
    }
}
