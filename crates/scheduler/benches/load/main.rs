//! Loading a dump against `serde_json` parsing the same bytes to a borrowed value.
//!
//! `cargo bench -p evictd-scheduler --bench load` takes 5000 nodes with 30 small pods each (55 MB). With
//! `EVICTD_BENCH_POD_BYTES=7400` the pods are of real size (1.1 GB), and the borrowed value takes several GB of memory.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench's panic and output are its report, its figures approximate"
)]

mod borrowed;
mod recipe;

use borrowed::Value;
use evictd_pod::compatibility::Compatibility;
use evictd_scheduler::dump::{self, Nominations, Source};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::time::Instant;

/// The best of this many runs counts.
const RUNS: usize = 3;

fn main() {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let nodes = if measures { 5000 } else { 20 };
    let pod_bytes = std::env::var("EVICTD_BENCH_POD_BYTES");
    let pod_bytes = pod_bytes.map_or(0, |text| text.parse().unwrap());

    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut text = BufWriter::new(file.as_file_mut());
    recipe::write(&mut text, nodes, pod_bytes).unwrap();
    text.flush().unwrap();
    drop(text);
    let size = fs::metadata(file.path()).unwrap().len();
    println!(
        "{nodes} nodes, {} pods, {:.1} MB",
        nodes * 30,
        megabytes(size)
    );

    // First, because the kernel reports only the peak memory of a process.
    let before = peak();
    load(File::open(file.path()).unwrap(), nodes);
    let peak = peak();
    let share = peak as f64 / size as f64;
    println!(
        "peak memory {:.1} MB ({:.1} before), {share:.2} times the file",
        megabytes(peak),
        megabytes(before)
    );

    let bytes = fs::read(file.path()).unwrap();
    let ours = best(|| load(bytes.as_slice(), nodes));
    let theirs = best(|| drop(serde_json::from_slice::<Value<'_>>(&bytes).unwrap()));
    let ratio = ours / theirs;
    println!("load {ours:.3} s, serde_json {theirs:.3} s, ratio {ratio:.2}");
}

fn load(text: impl Read, nodes: usize) {
    let name = "bench".to_owned();
    let loaded = dump::load(
        [Source::new(name, text)],
        None,
        Nominations::All,
        Compatibility::default(),
    )
    .unwrap();
    let cluster = &loaded.cluster;
    let pods: usize = cluster.nodes().iter().map(|node| node.pods.len()).sum();
    assert_eq!((cluster.nodes().len(), pods), (nodes, nodes * 30));
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn best(mut run: impl FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// The peak memory of this process in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
