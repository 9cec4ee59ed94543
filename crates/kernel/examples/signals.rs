//! Samples this machine once a second, three times, and prints what is left of each signal.
//!
//! `cargo run -p evictd-kernel --example signals` needs no rights and changes nothing.

use evictd_kernel::{
    cgroup::{DEFAULT_ROOT, Hierarchies},
    clock::Clock,
    signals::{FilesystemPaths, MemoryAvailable, Sample, Sampler, SignalSources},
};
use evictd_signals::{Signal, human_bytes};
use std::{error::Error, io::Write, path::Path, time::Duration};

const SAMPLES: usize = 3;

fn sources() -> SignalSources {
    SignalSources {
        proc_root: "/proc".into(),
        // Without control groups the machine's own figures are left.
        hierarchies: Hierarchies::detect(Path::new(DEFAULT_ROOT)).ok(),
        node_cgroup: None,
        pods_cgroups: Vec::new(),
        memory_available: MemoryAvailable::MemAvailable,
        filesystems: FilesystemPaths {
            nodefs: Some("/".into()),
            ..FilesystemPaths::default()
        },
    }
}

fn line(sample: &Sample, signal: Signal) -> Option<String> {
    let seen = sample.observations.get(signal)?;
    let shown = |figure: i64| {
        if signal.counts_bytes() {
            human_bytes(figure)
        } else {
            figure.to_string()
        }
    };
    let (available, capacity) = (shown(seen.available), shown(seen.capacity));
    Some(format!(
        "{:<28} {available:>10} of {capacity}",
        signal.as_str()
    ))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut sampler = Sampler::new(&sources())?;
    let clock = Clock::start();
    let mut out = std::io::stdout();
    for number in 1..=SAMPLES {
        // A filesystem is asked by another thread, so that one that hangs costs no look: its figures come with a later one.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sample = sampler.sample(clock.now());
        writeln!(out, "sample {number} of {SAMPLES}")?;
        let signals = Signal::ALL
            .into_iter()
            .filter(|signal| !signal.is_pressure());
        for line in signals.filter_map(|signal| line(&sample, signal)) {
            writeln!(out, "  {line}")?;
        }
    }
    if let Some(layout) = sampler.layout() {
        writeln!(out, "{layout}")?;
    }
    Ok(())
}
