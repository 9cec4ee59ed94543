//! `top`: queues, pod groups and a scheduler's metrics.

use crate::cluster::Cluster;
use evictd_testkit::program::{page, refusal};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

/// Serves this scrape once, and returns its address.
fn metrics(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
    });
    format!("http://{address}")
}

#[test]
fn top_shows_shares_what_groups_wait_on_and_decisions() {
    let cluster = Cluster::start();
    let empty = page(&cluster.run("top"));
    assert!(
        empty.contains("No queue exists.") && empty.contains("No pod group waits."),
        "{empty}"
    );
    cluster.queue(
        "gold",
        json!({"spec": {"deserved": {"cpu": "4"}}, "status": {"state": "Open", "allocated": {"cpu": "3"}}}),
    );
    cluster.queue("silver", json!({}));
    cluster.pod_group("waits", "gold", "Pending");
    cluster.pod_group("runs", "gold", "Running");
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(3 * 24 + 12);
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "stuck"},
        "spec": {"minMember": 2, "queue": "silver"},
        "status": {"phase": "Inqueue", "conditions": [{
            "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "transitionID": "1",
            "message": "2/2 tasks in gang unschedulable", "lastTransitionTime": since,
        }]},
    });
    cluster.admin.create(group).unwrap();
    let shown = page(&cluster.run("top"));
    for words in [
        "2 queues, 3 pod groups",
        "running 1, inqueue 1, pending 1",
        "75%",
        " 3d  default/stuck",
        "not placed: 2/2 tasks in gang unschedulable",
        "its queue, to be enqueued",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let server = metrics(
        "volcano_queue_share{queue_name=\"silver\"} 0.5\nvolcano_e2e_scheduling_latency_milliseconds_sum 20\n\
         volcano_e2e_scheduling_latency_milliseconds_count 10\nvolcano_unschedule_job_count 1\n",
    );
    let shown = page(&cluster.run(&format!("top --server {server}")));
    for words in ["50%", "75%", "10 of 2 ms on average; jobs that wait: 1"] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

#[test]
fn top_names_what_it_cannot_read() {
    let cluster = Cluster::start();
    let nothing = refusal(&cluster.run("top --server http://127.0.0.1:1"), 1);
    assert!(
        nothing.contains("--server http://127.0.0.1:1: "),
        "{nothing}"
    );
    let bad = refusal(&cluster.run("top --server 127.0.0.1"), 2);
    assert!(bad.contains("is not a URL"), "{bad}");
}
