//! What 20 000 pods cost the controllers: the built program beside the testkit's API server, with one Job of all pods and with
//! 200 jobs of 100. The figures of interest are requests and memory; the seconds include those of the server, which shares the
//! processors.
//!
//! `cargo bench -p evictd-batch-controller --bench controllers`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench's panic and output are its report"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the tests use more of what is shared"
)]

#[path = "../tests/batch/live.rs"]
mod live;
#[path = "../tests/batch/scale.rs"]
mod scale;

use live::Live;
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};

fn batch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
}

fn main() {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let pods = if measures { 20_000 } else { 200 };
    for jobs in [1, pods / 100] {
        let live = Live::new(&[]);
        let begin = Instant::now();
        // The tensorflow plugin writes all workers into each pod, so a job of 20 000 would exceed a pod's size.
        let plugins = match jobs {
            1 => json!({"svc": []}),
            _ => json!({"tensorflow": ["--worker=w"], "svc": []}),
        };
        let requests = scale::run(&live, [jobs, pods / jobs], &plugins, |what, is| {
            while !is() {
                assert!(begin.elapsed() < Duration::from_mins(30), "{what}");
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        println!(
            "{pods} pods in {jobs} jobs: {:.1} s, at most {} MiB; {requests:?}",
            begin.elapsed().as_secs_f64(),
            live.peak_memory() >> 10,
        );
    }
}
