//! Metrics and health as INTERFACES promises them, of a daemon in a cluster.

use crate::cgroup_support::left_out;
use crate::cluster::Cluster;
use crate::daemon::{Daemon, exchange, message};
use crate::promtool;
use jiff::SignedDuration;
use std::net::TcpStream;
use std::path::Path;

/// What the outside world may rely on.
const PROMISED: [&str; 13] = [
    "evictd_signal_available",
    "evictd_signal_capacity",
    "evictd_threshold",
    "evictd_threshold_met",
    "evictd_node_condition",
    "evictd_evictions_total",
    "evictd_eviction_failures_total",
    "evictd_preemptions_total",
    "evictd_reclaimed_bytes_total",
    "evictd_stats_age_seconds",
    "evictd_cycle_duration_seconds",
    "evictd_reaction_seconds",
    "evictd_build_info",
];

#[test]
fn every_promised_metric_has_a_figure_and_promtool_has_no_complaint() {
    let name = "every_promised_metric_has_a_figure";
    let Some(cluster) = Cluster::new(name) else {
        return;
    };
    let daemon = cluster.daemon("1Mi");
    for page in ["/livez", "/readyz"] {
        assert_eq!(daemon.page(page), ("200".to_owned(), "ok\n".to_owned()));
    }
    let now = jiff::Timestamp::now().as_second();
    daemon.eventually("the Node was written", |daemon| {
        let at: i64 = daemon.metric("evictd_node_heartbeat_timestamp_seconds ");
        (now - 60..now + 60).contains(&at)
    });
    let (code, text) = daemon.page("/metrics");
    assert_eq!(code, "200");
    for promised in PROMISED {
        let samples = [promised.to_owned(), format!("{promised}_count")];
        let shown = text.lines().any(|line| {
            let name = line.split([' ', '{']).next().unwrap_or_default();
            samples.iter().any(|sample| sample == name)
        });
        assert!(shown, "no {promised} in\n{text}");
    }
    match promtool::run(Path::new("/"), &["check", "metrics"], &text) {
        Some(said) => assert_eq!(said, ""),
        None => left_out(name, promtool::MISSING),
    }
}

#[test]
fn a_list_of_pods_without_updates_is_shown_as_stale() {
    let Some(cluster) = Cluster::new("a_list_of_pods_without_updates_is_shown_as_stale") else {
        return;
    };
    cluster.create("first", &serde_json::Value::Null);
    let daemon = cluster.daemon("1Mi");
    daemon.eventually_knows(&["first"]);
    daemon.eventually("they are those of now", |daemon| {
        daemon.count("evictd_pods_age_seconds") == 0
    });
    cluster.api.go_away();
    daemon.eventually("they are those of a while ago", |daemon| {
        daemon.count("evictd_pods_age_seconds") >= 2
    });
}

/// What is measured in seconds.
mod alone {
    use super::*;

    #[test]
    fn probes_are_answered_on_their_own_port_even_if_both_are_full() {
        let Some(cluster) = Cluster::new("probes_are_answered_on_their_own_port") else {
            return;
        };
        let lines = format!("{}\nprobes: {{address: '127.0.0.1:0'}}", cluster.lines());
        let daemon = Daemon::start(&cluster.node, &[("memory.available", "1Mi")], &lines);
        let address = |words: &str| {
            let log = daemon.log();
            let mut said = log.iter().map(message);
            let line = said.find_map(|line| line.strip_prefix(words).map(str::to_owned));
            line.expect("it says where it listens")
        };
        let probes = address("answers probes on http://");
        let metrics = address("metrics and health are at http://");
        let connect = |address: &String| TcpStream::connect(address).unwrap();
        let silent: Vec<TcpStream> = (0..145)
            .flat_map(|_| [connect(&metrics), connect(&probes)])
            .collect();
        let asked = jiff::Timestamp::now();
        let answer = exchange(connect(&probes), "/livez").unwrap();
        assert_eq!(answer, ("200".to_owned(), "ok\n".to_owned()));
        let took = jiff::Timestamp::now().duration_since(asked);
        assert!(took < SignedDuration::from_secs(1), "{took}");
        assert_eq!(exchange(connect(&probes), "/metrics").unwrap().0, "404");
        drop(silent);
    }
}
