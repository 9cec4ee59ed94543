//! No process id is to be had for another thread: the daemon starts with three, and needs none later.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::node::{EVICTD, Node, Traits, requests};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// What the daemon starts with.
const FREE: u32 = 3;

#[test]
fn with_three_free_ids_it_starts_and_ends_the_pod_that_holds_the_others() {
    let name = "with_three_free_ids_it_starts_and_ends_the_pod_that_holds_the_others";
    let Some(node) = Node::new(name) else { return };
    let mut quiet = node.pod("quiet", "--hold 8Mi", Traits::default());
    let threads = "--threads 60 --per-second 1000";
    let mut forker = node.pod("forker", threads, requests("64Mi"));
    forker.grow();
    // The forker's first thread and the other pod's.
    let taken = 62;
    assert!(crate::daemon::wait(|| node.pids() == taken));
    node.limit_pids(taken + FREE);
    let beside = node.beside_the_pods(EVICTD);
    let mut daemon = Daemon::start_by(&node, beside, &[("pid.available", "20")], "");
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/forker"]);
    assert!(quiet.lives() && !forker.lives());
    assert_eq!(daemon.said("threads of this process cannot be created"), 1);
    assert_eq!(daemon.said("no thread can be created to write the log"), 1);
    assert_eq!(
        daemon.said("no thread can be created to write the history"),
        1
    );
    // A manifest is read again, the history, too, and the end writes what is left.
    node.admit("late", Traits::default());
    daemon.eventually("the new pod is known", |daemon| {
        daemon.status()["pods"]["active"] == 2
    });
    assert_eq!(daemon.evictions().len(), 1);
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success());
}

#[test]
fn with_two_free_process_ids_the_start_names_the_number_it_needs() {
    let Some(node) = Node::new("with_two_free_process_ids_the_start_names_the_number_it_needs")
    else {
        return;
    };
    node.limit_pids(FREE - 1);
    let beside = node.beside_the_pods(EVICTD);
    let mut daemon = Daemon::spawn(&node, beside, &[], "");
    assert_eq!(daemon.ended().code(), Some(1));
    let told = daemon.log_text();
    assert!(told.contains("three free process ids are needed"), "{told}");
    assert!(!told.contains("panicked"), "{told}");
}

#[test]
fn a_daemon_that_runs_needs_no_other_thread_when_all_ids_are_taken() {
    let name = "a_daemon_that_runs_needs_no_other_thread_when_all_ids_are_taken";
    let Some(node) = Node::new(name) else { return };
    let mut quiet = node.pod("quiet", "--hold 8Mi", Traits::default());
    let threads = "--threads 60 --per-second 1000";
    let mut forker = node.pod("forker", threads, requests("64Mi"));
    forker.grow();
    node.limit_pids(200);
    let beside = node.beside_the_pods(EVICTD);
    let daemon = Daemon::start_by(&node, beside, &[("memory.available", "1Mi")], "");
    assert!(crate::daemon::wait(|| node.pids() > 62));
    // What it begins on threads of their own is begun by now.
    daemon.seconds_pass(2);
    let held = node.pids();
    node.limit_pids(held);
    node.admit("late", Traits::default());
    daemon.eventually("the new pod is known", |daemon| {
        daemon.status()["pods"]["active"] == 3
    });
    assert!(daemon.history().is_empty());
    assert_eq!(
        daemon.said("can be created") + daemon.said("cannot be created"),
        0
    );
    daemon.reload(&node, &[("pid.available", "20")], "");
    assert_eq!(names(&daemon.evicted(1)), ["shop/forker"]);
    assert!(quiet.lives() && !forker.lives());
    assert_eq!(node.pids() + 61, held, "it made no thread meanwhile");
}

#[test]
fn a_server_that_has_a_name_is_found_again_when_all_ids_are_taken() {
    let name = "a_server_that_has_a_name_is_found_again_when_all_ids_are_taken";
    let Some(cluster) = Cluster::new(name) else {
        return;
    };
    let file = cluster.node.path("kubeconfig");
    let by_address = fs::read_to_string(&file).unwrap();
    let by_name = by_address.replace("127.0.0.1", "localhost");
    assert_ne!(by_name, by_address);
    fs::write(file, by_name).unwrap();
    cluster.create("first", &Value::Null);
    let beside = cluster.node.beside_the_pods(EVICTD);
    let low = [("memory.available", "1Mi")];
    let daemon = Daemon::start_by(&cluster.node, beside, &low, &cluster.lines());
    let knows = |daemon: &Daemon, pods: u64| daemon.status()["pods"]["active"] == pods;
    daemon.eventually("the first pod is known", |daemon| knows(daemon, 1));
    cluster.node.limit_pids(cluster.node.pids());
    cluster.api.go_away();
    cluster.create("second", &Value::Null);
    cluster.api.come_back();
    daemon.eventually("the second pod is known", |daemon| knows(daemon, 2));
}
