//! What outlives the daemon: nothing but its history.

use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, requests};
use nix::sys::signal::Signal;

const LOW: [(&str, &str); 1] = [("memory.available", "110Mi")];

#[test]
fn sigterm_ends_the_daemon_cleanly() {
    let Some(node) = Node::new("sigterm_ends_the_daemon_cleanly") else {
        return;
    };
    let mut daemon = Daemon::start(&node, &[("memory.available", "16Mi")], "");
    assert!(daemon.socket.exists());
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0), "{}", daemon.log_text());
    assert!(!daemon.socket.exists());
}

#[test]
fn killed_in_the_middle_of_decisions_it_knows_them_after_the_next_start() {
    let Some(node) = Node::new("killed_in_the_middle_of_decisions") else {
        return;
    };
    let _modest = node.pod("modest", "--hold 8Mi", requests("64Mi"));
    let _hogs = ["hog-a", "hog-b"].map(|name| node.pod(name, "--hold 50Mi", Traits::default()));
    let mut daemon = Daemon::start(&node, &[("memory.available", "150Mi")], "");
    daemon.eventually("the first is chosen and kept", |daemon| {
        daemon.status()["history"]["records"] != 0
    });
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    let before = evictd_node::History::open(&node.path("state"), 16 << 20)
        .unwrap()
        .records();
    assert!(before >= 1);
    drop(daemon);

    // The socket of the dead one is replaced, and the work goes on.
    let daemon = Daemon::start(&node, &[("memory.available", "150Mi")], "");
    assert_eq!(
        daemon.said("replacing the socket that a daemon left behind when it ended"),
        1
    );
    daemon.eventually("the node has enough", |daemon| {
        daemon.status()["signals"][0]["headroom"].as_i64() > Some(0)
    });
    daemon.eventually("both are in the history", |daemon| {
        let decisions = daemon.history();
        let mut pods = names(&decisions);
        pods.sort_unstable();
        pods.dedup();
        pods == ["shop/hog-a", "shop/hog-b"]
    });
}

#[test]
fn a_pod_that_runs_again_in_its_cgroup_can_go_again() {
    let Some(node) = Node::new("a_pod_that_runs_again_in_its_cgroup_can_go_again") else {
        return;
    };
    let mut hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let daemon = Daemon::start(&node, &LOW, "");
    daemon.evicted(1);
    assert!(!hog.lives());
    // The same manifest, and something restarted it.
    let mut again = node.worker("hog", "--hold 90Mi");
    let decisions = daemon.evicted(2);
    assert_eq!(names(&decisions), ["shop/hog", "shop/hog"]);
    assert_ne!(decisions[0]["id"], decisions[1]["id"]);
    assert!(!again.lives());
    drop(daemon);
    let last = Daemon::start(&node, &LOW, "").status()["lastDecision"].clone();
    assert_eq!(last["id"], decisions[1]["id"]);
}
