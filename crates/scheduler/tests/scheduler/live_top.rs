//! `top` beside a running scheduler.

use crate::live_scheduling::{Live, condition, pod};
use crate::scheduler;
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, program};
use std::net::TcpListener;
use std::process::Output;

/// A scheduler whose pages at this port anyone may get, or only some of them.
fn live(allowed: &str) -> (Live, u16) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let secure = format!("--secure-port={port}");
    let allowed = format!("--authorization-always-allow-paths={allowed}");
    let arguments = [secure.as_str(), "--bind-address=127.0.0.1", &allowed];
    let live = Live::with(ApiServer::start().unwrap(), &[("one", "2")], &arguments);
    (live, port)
}

fn top(live: &Live, port: u16) -> Output {
    let mut command = scheduler();
    command.args(["top", "--insecure-skip-tls-verify", "--server"]);
    command.arg(format!("https://127.0.0.1:{port}"));
    command.arg("--kubeconfig").arg(live.kubeconfig.path());
    program::run(command.env("COLUMNS", "80"), "")
}

#[test]
fn top_shows_queues_reasons_rates_and_decisions() {
    let (live, port) = live("/v1/pending,/v1/decisions,/metrics");
    live.admin.create(pod("small", "1", 0)).unwrap();
    live.bound("default/small");
    for name in ["large-1", "large-2"] {
        live.admin.create(pod(name, "5", 0)).unwrap();
        live.until(&format!("default/{name}"), "reported", |pod| {
            condition(pod)["reason"] == "Unschedulable"
        });
    }
    let mut page = String::new();
    // The gauges of the queues are set once a second.
    wait_until("both pods are listed as tried", || {
        page = program::page(&top(&live, port));
        page.contains("unschedulable 2") && page.contains("+1")
    });
    for shown in [
        "1 nodes, 1 pods",
        "active 0, backoff 0, gated 0, unschedulable 2",
        "scheduled 0.0/s (1), unschedulable 0.0/s (2)",
        "default/large-",
        "1 Insufficient cpu",
        "default/small",
        "one, ",
    ] {
        assert!(page.contains(shown), "{shown}\n{page}");
    }
    let fits = |line: &str| line.chars().count() <= 80;
    assert!(page.lines().all(fits), "{page}");
}

#[test]
fn top_names_the_server_that_does_not_answer_and_the_path_that_is_forbidden() {
    let (live, port) = live("/v1/pending");
    wait_until("the port serves", || {
        let refusal = program::stderr(&top(&live, port));
        refusal.contains("/v1/decisions")
    });
    let nothing = program::refusal(&top(&live, 1), 1);
    assert!(
        nothing.contains("--server https://127.0.0.1:1: "),
        "{nothing}"
    );
}
