//! The ports of the running controllers, and secrets that no log may contain.

use crate::live::{Live, job, running};
use crate::served::job as reviewed_job;
use crate::webhook::Scene;
use evictd_testkit::testing::wait_until;
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// An address at which nothing listens now.
fn free() -> SocketAddr {
    let any = TcpListener::bind("127.0.0.1:0").unwrap();
    any.local_addr().unwrap()
}

/// `None` where nothing listens yet.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn s6_144_metrics_are_served_over_http() {
    let port = free();
    let live = Live::new(&["--listen-address", &port.to_string()]);
    running(&live, "train", |_| {});
    let mut text = String::new();
    wait_until("the group is counted", || {
        text = get(port, "/metrics").unwrap_or_default();
        text.contains("volcano_queue_pod_group_inqueue_count{queue_name=\"default\"} 1")
    });
    assert!(
        text.contains("volcano_job_retry_counts{job_id=\"default/train\"} 0"),
        "{text}"
    );
}

#[test]
fn hundreds_of_idle_connections_delay_no_probe_of_the_controllers() {
    let (metrics, probes) = (free(), free());
    let live = Live::new(&[
        "--listen-address",
        &metrics.to_string(),
        "--healthz-address",
        &probes.to_string(),
    ]);
    let ok = |address, path: &str| {
        get(address, path).is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    };
    wait_until("it is ready", || ok(probes, "/readyz"));
    let mut silent = Vec::new();
    for _ in 0..300 {
        for address in [metrics, probes] {
            silent.push(TcpStream::connect(address).unwrap());
        }
    }
    for (address, path) in [
        (probes, "/livez"),
        (probes, "/healthz"),
        (metrics, "/metrics"),
    ] {
        assert!(ok(address, path), "{path}");
    }
    drop((silent, live));
}

#[test]
fn no_log_level_shows_the_data_of_a_secret() {
    for level in ["3", "5", "8"] {
        let live = Live::new(&["-v", level]);
        let with_keys = job("train", |job| job["spec"]["plugins"] = json!({"ssh": []}));
        live.admin.create(with_keys).unwrap();
        wait_until("the Secret is made", || {
            live.admin.get("secrets", "default/train-ssh").is_some()
        });
        let secret = live.admin.get("secrets", "default/train-ssh").unwrap();
        let log = fs::read_to_string(live.log.path()).unwrap();
        assert_eq!(log.contains("Secret \"train-ssh\""), level != "3", "{log}");
        for field in ["data", "stringData"] {
            for text in secret[field].as_object().into_iter().flatten() {
                let text = text.1.as_str().unwrap();
                let part = text.lines().nth(1).unwrap_or(text);
                assert!(!log.contains(part), "-v {level}: {part}");
            }
        }
        assert!(!log.contains("PRIVATE KEY"), "-v {level}: {log}");
    }
}

/// A webhook sees names before an API server has looked at them.
#[tokio::test]
async fn a_name_cannot_forge_a_line_of_the_log() {
    let scene = Scene::ready(&[]).await;
    let mut connection = scene.connect().await;
    let mut forged = reviewed_job("a", "team");
    forged["metadata"]["name"] = json!("a\n2026-11-26T00:00:00Z  INFO forged\u{1b}[2J");
    forged["spec"]["tasks"][0]["name"] = json!("w\nforged");
    let answer = connection.review("/jobs/validate", "CREATE", &forged).await;
    assert_eq!(answer["allowed"], false);
    let log = || scene.webhook.log.lock().unwrap().clone();
    let denied = async || log().contains("denied: ");
    scene.until("the denial is never logged", denied).await;
    let log = log();
    assert!(
        log.contains("a\\u000a2026-11-26T00:00:00Z  INFO forged\\u001b[2J"),
        "{log}"
    );
    let begins =
        |line: &str| line.starts_with("forged") || line.starts_with("2026-11-26T00:00:00Z ");
    assert!(!log.lines().any(begins), "{log}");
}
