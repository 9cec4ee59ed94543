//! What 5000 agents ask of one API server: requests and bytes as measured of this daemon, its own schedule played through
//! for each of them, and the page that is made of both, `docs/scale.md`.

mod crowd;
mod page;

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use evictd_testkit::Entry;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// What one agent asks in one situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    requests: u64,
    /// Bytes to the server, heads included.
    up: u64,
    /// Bytes of the answers' bodies, and of what a watch brings.
    down: u64,
}

const PODS: u64 = 110;

/// A heartbeat of a calm node.
const HEARTBEAT: Cost = cost(1, 927, 11_250);
/// A watch that goes on where the one before ended.
const RENEWAL: Cost = cost(1, 163, 0);
/// Counting the nodes.
const CENSUS: Cost = cost(1, 168, 1_130);
/// Everything from the start of the daemon until it is at rest.
const START: Cost = cost(4, 1_371, 836_000);
/// A watch whose server has forgotten what came before: every pod is told anew.
const RELIST: Cost = cost(2, 381, 816_500);
/// From the threshold crossed through one eviction to the condition taken back.
const EPISODE: Cost = cost(12, 6_450, 92_600);

const fn cost(requests: u64, up: u64, down: u64) -> Cost {
    Cost { requests, up, down }
}

/// As much as a pod of a real cluster, managed fields and all (7.4 kB).
fn pod_metadata() -> Value {
    json!({"annotations": {"padding": "x".repeat(6_400)}})
}

/// As much as a Node of a real cluster: 50 images are most of it (10 kB).
fn node_status() -> Value {
    let image = |number: usize| {
        let name = format!("registry.example.com/team/service-{number:02}");
        let names = json!([
            format!("{name}@sha256:{}", "0".repeat(64)),
            name + ":v1.2.3"
        ]);
        json!({"names": names, "sizeBytes": 123_456_789})
    };
    json!({"status": {"images": (0..50).map(image).collect::<Vec<_>>()}})
}

/// Counts what the server is asked from its creation on.
struct RequestMeter<'a> {
    cluster: &'a Cluster,
    requests: usize,
    bytes: u64,
}

impl<'a> RequestMeter<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            requests: cluster.api.log().len(),
            bytes: cluster.api.counters().bytes,
        }
    }

    fn entries(&self) -> Vec<Entry> {
        self.cluster.api.log().split_off(self.requests)
    }

    fn cost(&self) -> Cost {
        let entries = self.entries();
        Cost {
            requests: entries.len() as u64,
            up: entries.iter().map(|entry| entry.asked).sum(),
            down: self.cluster.api.counters().bytes - self.bytes,
        }
    }

    /// What it was asked, a line each.
    fn told(&self) -> String {
        let mut told = String::new();
        for entry in self.entries() {
            let path = entry.path.split('?').next().unwrap_or_default();
            let line = (entry.verb, path, entry.status, entry.asked, entry.answered);
            writeln!(told, "{line:?}").unwrap();
        }
        told
    }
}

/// Requests to the number, bytes within a tenth: names and times differ in length.
fn differs(found: Cost, expected: Cost) -> bool {
    let near = |found: u64, expected: u64| found.abs_diff(expected) * 10 <= expected;
    found.requests != expected.requests
        || !near(found.up, expected.up)
        || !near(found.down, expected.down)
}

fn one(meter: &RequestMeter<'_>, verb: &str, path: &str) -> Cost {
    let mut entries = meter.entries().into_iter();
    let entry = entries
        .find(|entry| entry.verb == verb && entry.path.contains(path))
        .unwrap();
    cost(1, entry.asked, entry.answered)
}

fn at_rest(daemon: &Daemon, meter: &RequestMeter<'_>, requests: u64) {
    daemon.eventually("it has asked everything", |_| {
        meter.cost().requests >= requests
    });
    daemon.seconds_pass(2);
}

#[test]
fn the_scale_page_is_made_of_what_one_agent_really_asks() {
    let Some(cluster) = Cluster::new("the_scale_page") else {
        return;
    };
    cluster
        .admin
        .merge("nodes/status", "test", node_status())
        .unwrap();
    for number in 1..PODS {
        cluster.create(&format!("pod-{number}"), &pod_metadata());
    }
    let uid = cluster.create("hog", &pod_metadata());
    let mut hog = cluster.run(&uid, "--hold 2Mi --grow-to 120Mi --per-second 200Mi");

    let start = RequestMeter::new(&cluster);
    let lines = format!("{}\nevictionPressureTransitionPeriod: 1s", cluster.lines());
    // Less than half of what is left at rest, so that nothing is close.
    let daemon = Daemon::start(&cluster.node, &[("memory.available", "80Mi")], &lines);
    at_rest(&daemon, &start, START.requests);
    let heartbeat = one(&start, "patch", "/nodes/test/status");
    let census = one(&start, "list", "/nodes?");
    let mut found = vec![
        ("heartbeat", heartbeat, HEARTBEAT, String::new()),
        ("census", census, CENSUS, String::new()),
        ("start", start.cost(), START, start.told()),
    ];

    let renewal = RequestMeter::new(&cluster);
    cluster.api.cut_watches();
    at_rest(&daemon, &renewal, RENEWAL.requests);
    found.push(("renewal", renewal.cost(), RENEWAL, renewal.told()));

    let relist = RequestMeter::new(&cluster);
    cluster.api.go_away();
    cluster.create("news", &pod_metadata());
    cluster.delete("news");
    cluster.api.compact();
    cluster.api.come_back();
    at_rest(&daemon, &relist, RELIST.requests);
    found.push(("list anew", relist.cost(), RELIST, relist.told()));

    let episode = RequestMeter::new(&cluster);
    hog.grow();
    daemon.evicted(1);
    at_rest(&daemon, &episode, EPISODE.requests);
    daemon.eventually("the pressure is over", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == false
    });
    daemon.seconds_pass(2);
    found.push(("episode", episode.cost(), EPISODE, episode.told()));

    let mut wrong = String::new();
    for (what, found, expected, told) in found {
        if differs(found, expected) {
            writeln!(wrong, "{what}: {found:?}, not {expected:?}\n{told}").unwrap();
        }
    }
    assert_eq!(wrong, "", "the page is made of other figures");
}

#[test]
fn the_scale_page_is_made_of_the_schedule() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scale.md");
    let made = page::page();
    if std::env::var_os("EVICTD_WRITE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == made,
        "docs/scale.md is not as it is made: run `just generate`"
    );
}
