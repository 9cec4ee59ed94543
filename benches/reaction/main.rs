//! From the moment a threshold is crossed to the end of the last process.
//!
//! For memory beside a bare kill of the same cgroup: both are measured in one run, in turn, with the same cgroup, process
//! and memory. Crossing to dead may take at most 1.25 times as long as the bare kill (medians of 20). For a disk the time
//! from the crossing to SIGKILL counts, where nothing that can be removed covers the shortage: at most 150 ms.
//!
//! `EVICTD_PROGRAM=FILE` measures that program, else it is the one built for the bench; `EVICTD_MEMORY=512Mi` sets how
//! much the process holds, and `EVICTD_ROUNDS=5` how often. `cargo test` runs one short round, to see that it works.

#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]
#![allow(clippy::print_stdout, reason = "this is how it reports")]
#![allow(
    clippy::disallowed_methods,
    reason = "its one thread has nothing else to do"
)]

mod daemon;
mod disk;
mod memory;
mod pod;

use evictd_demo::NodeError;
use evictd_pod::Quantity;
use std::{env, time::Duration};

/// The most that crossing to dead may take for memory, in bare kills.
const AT_MOST: f64 = 1.25;
/// The longest time from crossing to SIGKILL for a disk.
const DISK_AT_MOST: Duration = Duration::from_millis(150);

fn main() {
    let measures = env::args().any(|argument| argument == "--bench");
    let set = |name: &str, measured: &str, tried: &str| {
        let default = if measures { measured } else { tried };
        env::var(name).unwrap_or_else(|_| default.to_owned())
    };
    let memory: Quantity = set("EVICTD_MEMORY", "1Gi", "64Mi")
        .parse()
        .expect("EVICTD_MEMORY is a quantity");
    let memory = u64::try_from(memory.value()).expect("memory is positive");
    let rounds: u32 = set("EVICTD_ROUNDS", "20", "1")
        .parse()
        .expect("EVICTD_ROUNDS is a number");
    if let Err(why) = measure_memory(memory, rounds).and_then(|()| measure_disk(rounds)) {
        println!("LEFT OUT reaction: {why}");
    }
}

/// How long an eviction took.
struct Evicted {
    /// From the crossing to the end of the last process.
    all: Duration,
    /// From the crossing to SIGKILL.
    to_kill: Duration,
}

fn measure_memory(memory: u64, rounds: u32) -> Result<(), NodeError> {
    let mut bare = Vec::new();
    let mut evicted = Vec::new();
    for _ in 0..rounds {
        bare.push(memory::Round::prepare(memory)?.kill());
        evicted.push(memory::Round::prepare(memory)?.evict());
    }
    let bare = median(bare);
    let all = median(evicted.iter().map(|one| one.all).collect());
    let to_kill = median(evicted.iter().map(|one| one.to_kill).collect());
    let ratio = all.as_secs_f64() / bare.as_secs_f64();
    println!(
        "memory, {} MiB, medians of {}: bare kill {bare:.1?}; crossing to dead {all:.1?}, of that {to_kill:.1?} to \
         SIGKILL; ratio {ratio:.2} (at most {AT_MOST})",
        memory >> 20,
        evicted.len(),
    );
    Ok(())
}

fn measure_disk(rounds: u32) -> Result<(), NodeError> {
    let mut evicted = Vec::new();
    for _ in 0..rounds {
        evicted.push(disk::Round::prepare()?.evict());
    }
    let all = median(evicted.iter().map(|one| one.all).collect());
    let to_kill = median(evicted.iter().map(|one| one.to_kill).collect());
    println!(
        "disk, medians of {}: crossing to dead {all:.1?}, of that {to_kill:.1?} to SIGKILL (at most {DISK_AT_MOST:?})",
        evicted.len(),
    );
    Ok(())
}

fn median(mut of: Vec<Duration>) -> Duration {
    of.sort();
    let (low, high) = (of[(of.len() - 1) / 2], of[of.len() / 2]);
    (low + high) / 2
}
