//! `docs/scale.md`.

use super::crowd::{NODES, PRESSED, Restart};
use super::{CENSUS, Cost, EPISODE, HEARTBEAT, PODS, RELIST, RENEWAL, START, cost};
use evictd_cluster_client::Fleet;
use evictd_cluster_client::WATCH_LIFE;
use evictd_node::{ANNOTATIONS, CALM_HEARTBEAT, HEARTBEAT as PERIOD};
use std::fmt::Write;
use std::time::Duration;

/// A watch that nothing happens on gets one a minute.
const BOOKMARK: Cost = cost(0, 0, 200);
/// What a Node is without its status, managed fields and all; answered from the server's cache.
const METADATA: Cost = cost(1, 230, 3_000);
/// All nodes under pressure cross their thresholds within this many seconds.
const CROSSING: f64 = 60.0;
/// Seconds without the server.
const AWAY: [u64; 5] = [0, 10, 60, 300, 1800];

const INTRODUCTION: &str = "\
# 5000 nodes on one API server

`just generate` writes this page. The requests of one agent are measured with the built daemon against the API server of
`crates/testkit`, by a test that fails when they change; the rest is computed from that and from the daemon's own schedule
(`crates/cluster-client/src/stagger.rs`), which a test simulates for every node. Bytes are those of requests with their headers and of
the bodies of answers, as JSON, without TLS; a real cluster adds a token of about 1 kB to a request and 0.3 kB of headers to an answer.

Each agent has one watch, of the pods of its own node only, on a connection of its own, and writes through a second one.
";

const RESTART: &str = "\
## The API server restarts

All watches end in one second. The last known pods stay in use, with their age shown. An agent does not know whether it is the only
one, so each chooses a random moment in a period that grows with the cluster (60 ms a node, at most 5 minutes), and keeps to it until
the server has returned. A node under pressure (1 % of the nodes here) reconnects within a thirtieth of that period, at any time.
Failed heartbeats wait twice as long. For this the agents count the nodes once an hour.
";

const PRICE: &str = "
The price: a pod that is bound to a node without pressure after the restart stays unknown to its agent until the node's moment has
come, and cannot be evicted until then; a crossed threshold brings the moment forward, but a pod that fills its node within a second
is faster. `pods.source: kubelet` has no such gap. The same applies if only one connection is cut, which an agent cannot
distinguish. A watch that ends at its timeout is renewed at once.

An agent that has not reached the server since its own start does not know the number of nodes. It doubles its waits up to
5 minutes, so a cluster that is switched on before its API server exceeds 1 % in the first minutes, with refused connections.
Starts are not spread: a rollout is as fast as the DaemonSet's `maxUnavailable`. Evictions and events are published again by their
own back-off, at most 30 s apart.
";

/// So many times a second.
struct Stream(&'static str, f64, Cost);

#[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}

fn size(bytes: f64) -> String {
    for (unit, least) in [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
        if bytes >= least {
            return format!("{:.1} {unit}", bytes / least);
        }
    }
    format!("{bytes:.0} B")
}

fn streams(page: &mut String, streams: &[Stream]) {
    page.push_str(
        "\n| what | times/s | requests/s | to the server | from it |\n|---|---|---|---|---|\n",
    );
    let mut sums = [0.0; 3];
    for Stream(what, rate, cost) in streams {
        let figures = [cost.requests, cost.up, cost.down].map(|figure| float(figure) * rate);
        let [requests, up, down] = figures;
        let (up, down) = (size(up), size(down));
        writeln!(
            page,
            "| {what} | {rate:.1} | {requests:.1} | {up}/s | {down}/s |"
        )
        .unwrap();
        for (sum, figure) in sums.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
    let [requests, up, down] = sums;
    let (up, down) = (size(up), size(down));
    writeln!(
        page,
        "| **in all** | | **{requests:.1}** | **{up}/s** | **{down}/s** |"
    )
    .unwrap();
}

fn agent(page: &mut String) {
    let (calm, held) = (CALM_HEARTBEAT.as_secs() / 60, PERIOD.as_secs());
    let life = WATCH_LIFE.as_secs() / 60;
    writeln!(
        page,
        "\n## One agent, {PODS} pods of 7.4 kB, a Node of 11 kB\n"
    )
    .unwrap();
    page.push_str("| when | requests | to the server | from it |\n|---|---|---|---|\n");
    for (when, cost) in [
        (
            "at its start: the pods, the Node, its conditions, how many nodes there are".to_owned(),
            START,
        ),
        (
            format!(
                "a heartbeat: every {calm} min while calm, every {held} s while a condition holds"
            ),
            HEARTBEAT,
        ),
        (
            format!("a watch that is renewed: every {life} to {} min", 2 * life),
            RENEWAL,
        ),
        (
            "a bookmark: every minute (as kube-apiserver sends it)".to_owned(),
            BOOKMARK,
        ),
        (
            format!(
                "the Node's annotations: every {} s while nothing is written (as kube-apiserver sends a Node's metadata)",
                ANNOTATIONS.as_secs()
            ),
            METADATA,
        ),
        ("the number of nodes: once an hour".to_owned(), CENSUS),
        (
            "an eviction, from the crossing until the condition is cleared".to_owned(),
            EPISODE,
        ),
        (
            "a watch whose resource version is too old: a new list".to_owned(),
            RELIST,
        ),
    ] {
        let (up, down) = (size(float(cost.up)), size(float(cost.down)));
        writeln!(page, "| {when} | {} | {up} | {down} |", cost.requests).unwrap();
    }
    page.push_str("\nA list is streamed; if the server does not support that, it is one answer from its cache (`resourceVersion=0`) of the same size.\n");
}

fn load(page: &mut String, nodes: f64, pressed: f64) {
    let every = |nodes: f64, period: Duration| nodes / period.as_secs_f64();
    let mut calm = vec![
        Stream("heartbeats", every(nodes, CALM_HEARTBEAT), HEARTBEAT),
        Stream(
            "renewed watches",
            every(nodes, WATCH_LIFE.mul_f64(1.5)),
            RENEWAL,
        ),
        Stream(
            "the Node's annotations",
            every(nodes, ANNOTATIONS),
            METADATA,
        ),
        Stream("the number of nodes", nodes / 3600.0, CENSUS),
        Stream("bookmarks", nodes / 60.0, BOOKMARK),
    ];
    writeln!(page, "\n## No pressure: {NODES} watches").unwrap();
    streams(page, &calm);
    let writes = every(nodes, CALM_HEARTBEAT);
    writeln!(
        page,
        "\n{writes:.1} of them a second write a Node, which is sent to all watchers of Nodes; the kubelets of that many nodes \
         write {:.1} (every 5 minutes each), and renew {:.0} leases.",
        nodes / 300.0,
        nodes / 10.0
    )
    .unwrap();
    writeln!(
        page,
        "\n## 1 % under pressure: {PRESSED} nodes cross within a minute and evict one pod each"
    )
    .unwrap();
    calm.push(Stream("evictions", pressed / CROSSING, EPISODE));
    calm.push(Stream(
        "heartbeats of held conditions",
        every(pressed, PERIOD),
        HEARTBEAT,
    ));
    streams(page, &calm);
    let requests = pressed * float(EPISODE.requests);
    writeln!(page, "\nIf all cross in the same second, {requests:.0} requests are added, most of them within that second.").unwrap();
}

fn restart(page: &mut String, nodes: f64) {
    page.push('\n');
    page.push_str(RESTART);
    page.push_str("\n| away for | watches/s at the peak | of the nodes | requests/s at the peak | from it, watches renewed | from it, new lists | half are back after | all |\n|---|---|---|---|---|---|---|---|\n");
    for away in AWAY {
        let played = Restart::play(Duration::from_secs(away), PRESSED, 1);
        let peak = f64::from(played.peak_of_watches());
        let (share, requests) = (peak / nodes * 100.0, played.peak());
        let (renewed, anew) = (
            size(peak * float(RENEWAL.down)),
            size(peak * float(RELIST.down)),
        );
        let (half, all) = (played.until(50), played.until(100));
        writeln!(
            page,
            "| {away} s | {peak} | {share:.2} % | {requests} | {renewed}/s | {anew}/s | {half:.0} s | {all:.0} s |"
        )
        .unwrap();
    }
    let whole = size(nodes * float(RELIST.down));
    writeln!(
        page,
        "\nNew lists are {whole} in all, {} pods.",
        NODES as u64 * PODS
    )
    .unwrap();
    page.push_str("\n| nodes | they reconnect within | nodes/s |\n|---|---|---|\n");
    for nodes in [1_u64, 10, 100, 1000, 5000, 15_000] {
        let spread = Fleet::of(nodes).spread().unwrap_or_default().as_secs_f64();
        writeln!(
            page,
            "| {nodes} | {spread:.1} s | {:.1} |",
            float(nodes) / spread
        )
        .unwrap();
    }
    page.push_str("\nIn a smaller cluster this is more than 1 % of the nodes a second, but only 17 nodes a second.\n");
    page.push_str(PRICE);
}

pub(crate) fn page() -> String {
    let (nodes, pressed) = (float(NODES as u64), float(PRESSED as u64));
    let mut page = INTRODUCTION.to_owned();
    agent(&mut page);
    load(&mut page, nodes, pressed);
    restart(&mut page, nodes);
    page
}
