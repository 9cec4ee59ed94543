//! `evictd-scheduler run --batch-conf`: the pods of jobs beside all others, on one cache.

use crate::live_scheduling::{self, Live, node_of, pod};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, Fault};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tempfile::NamedTempFile;

pub(crate) const GROUPS: &str = "podgroups.scheduling.volcano.sh";

/// A configuration with these actions.
pub(crate) fn conf(actions: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{}", text(actions)).unwrap();
    file
}

/// The same with one more plugin.
pub(crate) fn conf_with(actions: &str, plugin: &str) -> NamedTempFile {
    let mut file = conf(actions);
    writeln!(file, "  - {plugin}").unwrap();
    file
}

fn text(actions: &str) -> String {
    format!(
        "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n\
         - plugins:\n  - name: drf\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
    )
}

pub(crate) fn start(nodes: &[(&str, &str)], conf: &NamedTempFile) -> Live {
    let api = ApiServer::start().unwrap();
    for name in ["root", "default", "other"] {
        queue(&api.actor("admin"), name);
    }
    start_at(api, nodes, conf)
}

pub(crate) fn start_at(api: ApiServer, nodes: &[(&str, &str)], conf: &NamedTempFile) -> Live {
    start_with(api, nodes, conf, &[])
}

fn start_with(api: ApiServer, nodes: &[(&str, &str)], conf: &NamedTempFile, more: &[&str]) -> Live {
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "volcano-system" } });
    // It may exist already.
    let _ = api.actor("admin").create(space);
    let path = conf.path().to_str().unwrap();
    let arguments = ["--batch-conf", path, "--schedule-period", "20ms"];
    Live::with(api, nodes, &[&arguments, more].concat())
}

pub(crate) fn queue(admin: &evictd_testkit::Actor, name: &str) {
    let queue = json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": name }, "spec": { "weight": 1 }, "status": { "state": "Open" } });
    admin.create(queue).unwrap();
}

pub(crate) fn group(name: &str, queue: &str, min_member: i32, cpu: &str) -> Value {
    json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "minMember": min_member, "queue": queue, "minResources": { "cpu": cpu } } })
}

pub(crate) fn member(name: &str, group: &str, cpu: &str) -> Value {
    let mut pod = pod(name, cpu, 0);
    pod["metadata"]["annotations"] =
        json!({ "scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "work" });
    pod["spec"]["schedulerName"] = json!("volcano");
    pod
}

fn phase(live: &Live, group: &str, phase: &str) -> Value {
    let mut found = Value::Null;
    wait_until(&format!("{group} is {phase}"), || {
        found = live.admin.get(GROUPS, group).unwrap_or_default();
        found["status"]["phase"] == phase
    });
    found
}

/// As a kubelet: bound pods become running.
fn run_what_is_bound(live: &Live) {
    for pod in live.admin.list("pods") {
        let name = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
        if pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] != "Running" {
            let status = json!({ "status": { "phase": "Running" } });
            let _ = live.admin.merge("pods/status", &name, status);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let now = json!({ "gracePeriodSeconds": 0 });
            let _ = live.admin.delete("pods", &name, now);
        }
    }
}

#[test]
fn s6_222_a_node_that_is_used_too_much_takes_no_pods_until_it_is_used_less() {
    let conf = conf_with(
        "enqueue, allocate, backfill",
        "name: usage\nmetrics: {interval: 1s}",
    );
    let api = ApiServer::start().unwrap();
    let admin = api.actor("admin");
    queue(&admin, "default");
    let usage = |cpu: &str| {
        json!({ "apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": { "name": "one" },
            "timestamp": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "window": "10s", "usage": { "cpu": cpu, "memory": "1Mi" } })
    };
    admin.create(usage("2900m")).unwrap();
    let live = start_at(api, &[("one", "3")], &conf);
    let create = |name: &str| {
        let mut next = pod(name, "1m", 0);
        next["spec"]["schedulerName"] = json!("volcano");
        live.admin.create(next).unwrap();
    };
    let mut made = 0;
    let mut name = String::new();
    // The first pods may come before the first figures.
    wait_until("a pod is refused", || {
        let found = live.admin.get("pods", &format!("default/{name}"));
        let found = found.unwrap_or_default();
        if name.is_empty() || found["spec"]["nodeName"].is_string() {
            name = format!("p{made}");
            made += 1;
            create(&name);
        }
        let message = live_scheduling::condition(&found)["message"].clone();
        let message = message.as_str().unwrap_or_default();
        message.contains("Not let in: there is no room now for 1 pod")
    });
    let less = usage("100m");
    live.admin
        .merge("nodes.metrics.k8s.io", "one", less)
        .unwrap();
    live.bound(&format!("default/{name}"));
}

#[test]
fn s6_223_a_pod_with_whole_processors_gets_a_node_that_has_them_on_one_numa_node() {
    let conf = conf_with("enqueue, allocate, backfill", "name: numa-aware");
    let api = ApiServer::start().unwrap();
    let admin = api.actor("admin");
    queue(&admin, "default");
    // One processor on each NUMA node of `one` is free, and both on one of `two`.
    for (node, free) in [("one", "1,3"), ("two", "2-3")] {
        let place = |numa: u32, core: u32| json!({ "numa": numa, "socket": numa, "core": core });
        let topology = json!({ "apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology",
            "metadata": { "name": node }, "spec": {
                "policies": { "CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node" },
                "numares": { "cpu": { "allocatable": free, "capacity": 4 } },
                "cpuDetail": { "0": place(0, 0), "1": place(0, 1), "2": place(1, 2), "3": place(1, 3) } } });
        admin.create(topology).unwrap();
    }
    let live = start_at(api, &[("one", "4"), ("two", "4")], &conf);
    for (name, node) in [("first", Some("two")), ("second", None)] {
        let mut next = pod(name, "2", 0);
        next["metadata"]["annotations"] =
            json!({ "volcano.sh/numa-topology-policy": "single-numa-node" });
        next["spec"]["schedulerName"] = json!("volcano");
        let requests = next["spec"]["containers"][0]["resources"]["requests"].clone();
        next["spec"]["containers"][0]["resources"]["limits"] = requests;
        live.admin.create(next).unwrap();
        let name = format!("default/{name}");
        let Some(node) = node else {
            // The processors of the first pod are its own, though its node does not report it yet.
            live.until(&name, "refused", |pod| {
                let message = live_scheduling::condition(pod)["message"].clone();
                let message = message.as_str().unwrap_or_default();
                message.contains("cannot be assigned by numa")
            });
            continue;
        };
        assert_eq!(live.bound(&name), node);
    }
}

#[test]
fn s6_087_a_gang_is_bound_whole_beside_a_pod_of_the_default_scheduler() {
    let conf = conf("enqueue, allocate, backfill");
    let live = start(&[("one", "3"), ("two", "2")], &conf);
    live.admin.create(pod("plain", "1", 0)).unwrap();
    live.bound("default/plain");
    live.admin
        .create(group("train", "default", 4, "4"))
        .unwrap();
    for index in 0..4 {
        live.admin
            .create(member(&format!("train-work-{index}"), "train", "1"))
            .unwrap();
    }
    for index in 0..4 {
        live.bound(&format!("default/train-work-{index}"));
    }
    wait_until("the group runs", || {
        run_what_is_bound(&live);
        let group = live.admin.get(GROUPS, "default/train").unwrap_or_default();
        group["status"]["phase"] == "Running" && group["status"]["running"] == 4
    });
    // Both nodes are full.
    live.admin.create(pod("late", "1", 0)).unwrap();
    let is_reported = |pod: &Value| pod["status"]["conditions"][0]["message"].is_string();
    let late = live.until("default/late", "reported", is_reported);
    let message = late["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("0/2 nodes are available: 2 Insufficient cpu"),
        "{message}"
    );
}

#[test]
fn s6_139_no_pod_of_an_unschedulable_gang_is_bound_and_its_pods_get_a_condition() {
    let conf = conf("enqueue, allocate, backfill");
    let live = start(&[("one", "2500m")], &conf);
    live.admin
        .create(group("train", "default", 3, "3"))
        .unwrap();
    for index in 0..3 {
        live.admin
            .create(member(&format!("train-work-{index}"), "train", "1"))
            .unwrap();
    }
    // The group is not even inqueue.
    let told_of = phase(&live, "default/train", "Pending");
    // A session that sees only some of the pods reports their number, and the next one reports another number.
    let is_reported = |pod: &Value| {
        let message = pod["status"]["conditions"][0]["message"].as_str();
        message.is_some_and(|message| message.contains("3 Pending"))
    };
    for index in 0..3 {
        live.until(
            &format!("default/train-work-{index}"),
            "reported",
            is_reported,
        );
        assert!(node_of(&live, &format!("train-work-{index}")).is_null());
    }
    // The condition is not written again, however many sessions follow.
    let versions = || {
        let pods = live.admin.list("pods").into_iter();
        let members = pods.filter(|pod| {
            pod["metadata"]["name"]
                .as_str()
                .unwrap()
                .starts_with("train")
        });
        members
            .map(|pod| pod["metadata"]["resourceVersion"].clone())
            .collect::<Vec<_>>()
    };
    let before = versions();
    for index in 0..5 {
        let name = format!("plain-{index}");
        live.admin.create(pod(&name, "10m", 0)).unwrap();
        live.bound(&format!("default/{name}"));
        live.admin
            .create(group(&name, "default", 1, "100"))
            .unwrap();
        phase(&live, &format!("default/{name}"), "Pending");
    }
    assert_eq!(versions(), before);
    assert!(
        told_of["status"]["conditions"][0]["lastTransitionTime"].is_string(),
        "{told_of}"
    );
}

#[test]
fn s6_139_a_condition_is_written_once_although_sessions_follow_before_the_server_has_answered() {
    let conf = conf("enqueue, allocate, backfill");
    let live = start(&[("one", "2500m")], &conf);
    live.admin
        .create(group("train", "default", 3, "3"))
        .unwrap();
    phase(&live, "default/train", "Pending");
    // Longer than the second by which the times of two conditions differ.
    let slow = Fault::delay(Duration::from_millis(1500));
    live.api.fault(slow.on("patch", "pods/status").times(1));
    live.admin
        .create(member("train-work-0", "train", "1"))
        .unwrap();
    let session_after = |name: &str| {
        live.admin.create(group(name, "default", 1, "100")).unwrap();
        phase(&live, &format!("default/{name}"), "Pending");
    };
    let has_condition = || {
        let pod = live.admin.get("pods", "default/train-work-0").unwrap();
        pod["status"]["conditions"][0]["message"].is_string()
    };
    let mut sessions = 0;
    while !has_condition() {
        session_after(&format!("meanwhile-{sessions}"));
        sessions += 1;
    }
    assert!(
        sessions > 1,
        "no session ran while the server did not answer"
    );
    for name in ["after", "last"] {
        session_after(name);
    }
    let log = live.api.log();
    let writes = log
        .iter()
        .filter(|entry| entry.verb == "patch" && entry.path.contains("/train-work-0/status"));
    assert_eq!(writes.count(), 1, "{sessions} sessions");
}

/// A condition of a job's group.
fn condition(live: &Live, group: &str, kind: &str) -> Option<Value> {
    let found = live.admin.get(GROUPS, group).unwrap_or_default();
    let mut conditions = found["status"]["conditions"].as_array()?.iter();
    conditions
        .find(|condition| condition["type"] == kind)
        .cloned()
}

#[test]
fn a_node_is_reserved_for_a_job_that_has_waited_until_the_reservation_expires() {
    let mut conf = conf("enqueue, allocate, backfill");
    let arguments = "configurations:\n- name: allocate\n  arguments:\n    reservation.afterSeconds: 1\n    reservation.forSeconds: 6\n";
    write!(conf, "{arguments}").unwrap();
    let live = start(&[("one", "4")], &conf);
    live.admin.create(group("old", "default", 1, "1")).unwrap();
    live.admin.create(member("old-work-0", "old", "1")).unwrap();
    live.bound("default/old-work-0");
    run_what_is_bound(&live);
    live.admin
        .create(group("large", "default", 1, "4"))
        .unwrap();
    live.admin
        .create(member("large-work-0", "large", "4"))
        .unwrap();
    let mut touched = 0;
    wait_until("the node is kept", || {
        // A change leads to the next session.
        touched += 1;
        let touch = json!({ "metadata": { "annotations": { "touched": touched.to_string() } } });
        let _ = live.admin.merge(GROUPS, "default/large", touch);
        condition(&live, "default/large", "Reserved").is_some_and(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            condition["status"] == "True" && message.ends_with(": one")
        })
    });
    wait_until("the lease keeps whose turn it is", || {
        let lease = live.admin.get("leases", "volcano-system/volcano");
        let lease = lease.unwrap_or_default();
        let turns = &lease["metadata"]["annotations"]["evictd.dev/reservations"];
        turns
            .as_str()
            .is_some_and(|text| text.contains("default/large"))
    });
    live.admin
        .create(group("small", "default", 1, "1"))
        .unwrap();
    live.admin
        .create(member("small-work-0", "small", "1"))
        .unwrap();
    wait_until("the small pod has a condition", || {
        condition(&live, "default/small", "Unschedulable").is_some()
    });
    assert!(node_of(&live, "small-work-0").is_null());
    // Nothing changes any more, and the reservation expires.
    live.bound("default/small-work-0");
}

#[test]
fn s6_119_reclaim_deletes_pods_of_another_queue_and_binds_after_they_have_ended() {
    let conf = conf("enqueue, allocate, reclaim");
    let live = start(&[("one", "4")], &conf);
    live.admin.create(group("old", "default", 1, "1")).unwrap();
    for index in 0..4 {
        live.admin
            .create(member(&format!("old-work-{index}"), "old", "1"))
            .unwrap();
    }
    for index in 0..4 {
        live.bound(&format!("default/old-work-{index}"));
    }
    run_what_is_bound(&live);
    live.admin.create(group("new", "other", 1, "1")).unwrap();
    live.admin.create(member("new-work-0", "new", "1")).unwrap();
    let mut conditions = Vec::new();
    wait_until("the new one is bound", || {
        let pods = live.admin.list("pods");
        let going = pods
            .iter()
            .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        conditions.extend(going.map(|pod| pod["status"]["conditions"].to_string()));
        run_what_is_bound(&live);
        node_of(&live, "new-work-0").is_string()
    });
    assert!(
        conditions
            .iter()
            .any(|text| text.contains("PreemptionByScheduler")),
        "{conditions:?}"
    );
    let old = live.admin.list("pods").into_iter();
    let old = old.filter(|pod| pod["metadata"]["name"].as_str().unwrap().starts_with("old"));
    assert_eq!(old.count(), 3, "one pod is evicted for one, and no other");
}

#[test]
fn s6_087_a_changed_configuration_is_reloaded_and_an_invalid_one_is_ignored() {
    let conf = conf("backfill");
    let live = start(&[("one", "4")], &conf);
    live.admin
        .create(group("train", "default", 1, "1"))
        .unwrap();
    live.admin
        .create(member("train-work-0", "train", "1"))
        .unwrap();
    phase(&live, "default/train", "Pending");
    std::fs::write(conf.path(), "actions: \"no-such-action\"\n").unwrap();
    std::fs::write(conf.path(), text("enqueue, allocate")).unwrap();
    live.bound("default/train-work-0");
}

/// The metrics of a scheduler at this port.
fn metrics(port: u16) -> String {
    let server = format!("https://127.0.0.1:{port}").parse().unwrap();
    let mut config = kube::Config::new(server);
    config.accept_invalid_certs = true;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = kube::Client::try_from(config).unwrap();
        let request = axum::http::Request::get("/metrics")
            .body(Vec::new())
            .unwrap();
        // The server may not listen yet.
        client.request_text(request).await.unwrap_or_default()
    })
}

#[test]
fn a2_a_refused_reload_keeps_the_last_valid_configuration_with_metric_and_event() {
    let conf = conf("enqueue, allocate");
    let api = ApiServer::start().unwrap();
    for name in ["root", "default"] {
        queue(&api.actor("admin"), name);
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let path = conf.path().to_str().unwrap();
    let secure = format!("--secure-port={port}");
    let allowed = "--authorization-always-allow-paths=/metrics";
    let served = [&secure, "--bind-address=127.0.0.1", allowed];
    let live = start_with(api, &[("one", "4")], &conf, &served);
    let places = |name: &str| {
        live.admin.create(group(name, "default", 1, "1")).unwrap();
        let work = format!("{name}-work-0");
        live.admin.create(member(&work, name, "1")).unwrap();
        live.bound(&format!("default/{work}"));
    };
    places("before");
    let refused = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: deviceshare\n";
    std::fs::write(conf.path(), refused).unwrap();
    let event = || live.events("InvalidConfiguration");
    wait_until("the event is written", || !event().is_empty());
    let place = format!("{path}:4:11: tiers[0].plugins[0].name: deviceshare is not supported");
    assert!(event()[0].contains(&place), "{:?}", event());
    wait_until("the refusal is counted", || {
        let metrics = metrics(port);
        let mut lines = metrics.lines();
        lines.any(|line| line == "evictd_batch_conf_reload_failures_total 1")
    });
    // The earlier configuration, whose plugins the refused one does not have, is in force.
    places("after");
    std::fs::write(conf.path(), text("enqueue, allocate, backfill")).unwrap();
    places("last");
}

#[test]
fn a2_it_does_not_start_with_a_configuration_that_cannot_be_used() {
    let mut conf = NamedTempFile::new().unwrap();
    let text = "actions: \"enqueue, dance\"\ntiers:\n- plugins:\n  - name: deviceshare\n";
    write!(conf, "{text}").unwrap();
    let path = conf.path().to_str().unwrap();
    let api = ApiServer::start().unwrap();
    let mut kubeconfig = NamedTempFile::new().unwrap();
    write!(kubeconfig, "{}", api.kubeconfig()).unwrap();
    let mut command = crate::scheduler();
    command.args(["run", "--secure-port=0", "--batch-conf", path]);
    command.arg("--kubeconfig").arg(kubeconfig.path());
    let output = evictd_testkit::program::run(&mut command, "");
    let message = evictd_testkit::program::stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for line in [
        format!("{path}:1:10: actions: failed to find Action  dance; the actions are enqueue, "),
        format!("{path}:4:11: tiers[0].plugins[0].name: deviceshare is not supported: "),
    ] {
        assert!(message.contains(&line), "{line} is not in {message}");
    }
}

#[test]
fn a_configuration_on_a_disk_that_hangs_delays_no_session() {
    let conf = conf("enqueue, allocate");
    let live = start(&[("one", "4")], &conf);
    let places = |name: &str| {
        live.admin.create(group(name, "default", 1, "1")).unwrap();
        let work = format!("{name}-work-0");
        live.admin.create(member(&work, name, "1")).unwrap();
        live.bound(&format!("default/{work}"));
    };
    places("before");
    // Reading a pipe without a writer never ends.
    let pipe = conf.path().with_extension("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    std::fs::rename(&pipe, conf.path()).unwrap();
    places("first");
    places("second");
    live.admin.create(pod("plain", "1m", 0)).unwrap();
    live.bound("default/plain");
}

#[test]
fn the_status_of_a_group_is_retried_until_the_server_accepts_it() {
    let conf = conf("enqueue, allocate, backfill");
    let live = start(&[("one", "2")], &conf);
    // More often than one write is retried.
    let fault = Fault::answer(503).on("patch", "podgroups").times(6);
    live.api.fault(fault);
    live.admin
        .create(group("train", "default", 3, "1"))
        .unwrap();
    live.admin
        .create(member("train-work-0", "train", "1"))
        .unwrap();
    phase(&live, "default/train", "Inqueue");
}

#[test]
fn it_does_not_start_while_volcanos_scheduler_runs() {
    let conf = conf("enqueue, allocate");
    let mut volcano = pod("volcano-scheduler-0", "1", 0);
    volcano["metadata"]["labels"] = json!({ "app": "volcano-scheduler" });
    volcano["spec"]["nodeName"] = json!("one");
    let api = ApiServer::start().unwrap();
    api.actor("admin").create(volcano).unwrap();
    let path = conf.path().to_str().unwrap();
    let mut live = Live::with(api, &[("one", "2")], &["--batch-conf", path]);
    assert_eq!(live.ended().code(), Some(1));
}

#[test]
fn s6_250_shards_of_nodes_are_refused_at_the_start() {
    let run = |flags: &[&str]| {
        let mut command = crate::scheduler();
        command
            .args(["run", "--kubeconfig", "/nowhere"])
            .args(flags);
        let output = evictd_testkit::program::run(&mut command, "");
        assert_eq!(output.status.code(), Some(2));
        evictd_testkit::program::stderr(&output)
    };
    for flag in [
        "--scheduler-sharding-mode=hard",
        "--scheduler-sharding-name=a",
    ] {
        let message = run(&[flag]);
        let words = format!(
            "{} is not supported: sessions use all nodes",
            flag.replace('=', " ")
        );
        assert!(message.contains(&words), "{message}");
    }
    assert!(!run(&["--scheduler-sharding-mode=none"]).contains("sharding"));
}
