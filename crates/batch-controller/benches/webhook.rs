//! How many job creations a second the webhook keeps up with, and how long each waits: the built program over TLS on
//! loopback, two reviews a job as the API server sends them.
//!
//! `cargo bench -p evictd-batch-controller --bench webhook` creates 20 000 jobs over 32 connections. The clients share the
//! processors with the webhook.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a bench's panic and output are its report, its figures approximate"
)]
#![allow(dead_code, reason = "the tests use more of what is served")]

#[path = "../tests/batch/served.rs"]
mod served;

use served::{Webhook, bundle, cluster, connect, job};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 32;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let jobs = if measures { 20_000 } else { 200 };
    let api = cluster();
    let webhook = Webhook::start(&api.kubeconfig(), &[]);
    while !webhook.is_ready().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let bundle = bundle(&api.actor("bench")).unwrap();
    let begin = Instant::now();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (address, bundle) = (webhook.address, bundle.clone());
            tokio::spawn(async move { create(jobs / CONNECTIONS, address, &bundle).await })
        })
        .collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.unwrap());
    }
    let seconds = begin.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let (process, jobs) = (webhook.program.id(), times.len());
    println!(
        "{:.2} ms of processor time a job, at most {} MiB of memory",
        processor_time(process) * 1e3 / jobs as f64,
        peak_memory(process) >> 10,
    );
    println!(
        "{:.0} job creations a second; a job waits {:.1} ms (p50), {:.1} ms (p99), {:.1} ms (longest) for both reviews",
        times.len() as f64 / seconds,
        at(50),
        at(99),
        at(100),
    );
}

/// The processor time that a process has taken, in seconds.
fn processor_time(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program is in brackets and may hold spaces. User and system time follow 12 fields later, in ticks of 10 ms.
    let fields = stat.rsplit(") ").next().unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

/// The most memory that a process held, in KiB.
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

/// Creates jobs one after the other over a connection; how long each took.
async fn create(count: usize, address: std::net::SocketAddr, bundle: &str) -> Vec<Duration> {
    let mut connection = connect(address, bundle).await.unwrap();
    let mut times = Vec::with_capacity(count);
    for index in 0..count {
        let job = job(&format!("job-{index}"), "default");
        let begin = Instant::now();
        for path in ["/jobs/mutate", "/jobs/validate"] {
            let answer = connection.review(path, "CREATE", &job).await;
            assert_eq!(answer["allowed"], true, "{answer}");
        }
        times.push(begin.elapsed());
    }
    times
}
