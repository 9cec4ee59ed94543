//! `evictd-scheduler run` with a limit of its requests: bindings and status writes keep to it, events have one of the same rate, and
//! watches and the lease are not limited.

use crate::live_scheduling::{Live, pod};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, Entry};
use serde_json::json;
use std::io::Write;
use tempfile::NamedTempFile;

const BURST: usize = 5;
const QPS: usize = 10;
const PODS: usize = 30;

/// The requests of the scheduler that a limit counts, in milliseconds since the first one.
fn times(api: &ApiServer, is_counted: impl Fn(&Entry) -> bool) -> Vec<i64> {
    let log = api.log();
    let times = log.iter().filter(|entry| is_counted(entry));
    let mut times: Vec<i64> = times.map(|entry| entry.time.as_millisecond()).collect();
    times.sort_unstable();
    let first = times[0];
    times.iter().map(|time| time - first).collect()
}

/// No second has more requests than allowed. A slow machine may deliver those of half a second later.
fn expect_limited(times: &[i64]) {
    for from in times {
        let window = *from..*from + 1000;
        let count = times.iter().filter(|time| window.contains(time)).count();
        assert!(
            count <= BURST + QPS + QPS / 2,
            "{count} at {from}: {times:?}"
        );
    }
    let least = (times.len() - BURST) * 1000 / QPS;
    let least = i64::try_from(least).unwrap() - 500;
    assert!(times.last().unwrap() >= &least, "{times:?}");
}

fn is_write(entry: &Entry) -> bool {
    ["pods/binding", "pods/status"].contains(&&*entry.what)
}

fn is_event(entry: &Entry) -> bool {
    entry.what == "events" && entry.verb == "create"
}

fn expect_a_limit(arguments: &[&str]) {
    let live = Live::with(ApiServer::start().unwrap(), &[("one", "8")], arguments);
    for number in 0..PODS {
        let cpu = if number < PODS / 2 { "10m" } else { "16" };
        live.admin
            .create(pod(&format!("p{number}"), cpu, 0))
            .unwrap();
    }
    // Half of the pods are bound, and half get a condition.
    wait_until("every write and event is sent", || {
        let log = live.api.log();
        [is_write as fn(&Entry) -> bool, is_event]
            .iter()
            .all(|is| log.iter().filter(|entry| is(entry)).count() >= PODS)
    });
    expect_limited(&times(&live.api, is_write));
    expect_limited(&times(&live.api, is_event));
}

#[test]
fn bindings_conditions_and_events_keep_to_the_rate_of_the_flags() {
    expect_a_limit(&["--kube-api-qps=10", "--kube-api-burst=5"]);
}

#[test]
fn bindings_conditions_and_events_keep_to_the_rate_of_the_configuration() {
    let mut file = NamedTempFile::new().unwrap();
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "qps": 10, "burst": 5 },
    });
    write!(file, "{config}").unwrap();
    // The file wins over the flag.
    let path = file.path().to_str().unwrap();
    expect_a_limit(&["--kube-api-qps=1000", "--config", path]);
}

/// B8: a flag that were ignored beside a file without a rate would leave no limit, and no metric of one.
#[test]
fn the_rate_of_the_flags_holds_beside_a_file_that_sets_none() {
    let mut file = NamedTempFile::new().unwrap();
    let config = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" });
    write!(file, "{config}").unwrap();
    let path = file.path().to_str().unwrap();
    expect_a_limit(&["--kube-api-qps=10", "--kube-api-burst=5", "--config", path]);
}

#[test]
fn the_lease_never_waits_behind_bindings() {
    let arguments = [
        "--kube-api-qps=1",
        "--kube-api-burst=1",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=200ms",
    ];
    let live = Live::with(ApiServer::start().unwrap(), &[("one", "8")], &arguments);
    for number in 0..8 {
        live.admin
            .create(pod(&format!("p{number}"), "1m", 0))
            .unwrap();
    }
    // A scheduler whose lease waits behind seven seconds of bindings has lost it, and binds no pod any more.
    for number in 0..8 {
        live.bound(&format!("default/p{number}"));
    }
}
