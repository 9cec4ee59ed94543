//! The local storage of 110 pods with a million files in all (a tenth of it as a test), beside `du -s --inodes` on the
//! same trees. A first walk may take as long as `du`, a repeated one a twentieth of it.

#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]

use divan::{Bencher, black_box};
use evictd_kernel::walk::{Budget, DiskUsage, KeptTrees};
use jiff::Timestamp;
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{OnceLock, atomic::AtomicBool},
};
use tempfile::TempDir;

const PODS: usize = 110;
const FILES_IN_A_DIRECTORY: usize = 100;

static TREES: OnceLock<(TempDir, Vec<PathBuf>)> = OnceLock::new();

fn main() {
    let trees = tempfile::tempdir().expect("a directory for the trees");
    let measured = std::env::args().any(|argument| argument == "--bench");
    let directories = if measured { 10_000 } else { 1_000 };
    let pods = (0..PODS).map(|pod| trees.path().join(pod.to_string()));
    let pods: Vec<PathBuf> = pods.collect();
    for number in 0..directories {
        let directory = pods[number % PODS].join(number.to_string());
        fs::create_dir_all(&directory).expect("a directory");
        for name in 0..FILES_IN_A_DIRECTORY {
            File::create(directory.join(name.to_string())).expect("a file");
        }
    }
    let (trees, _) = TREES.get_or_init(|| (trees, pods));
    divan::main();
    fs::remove_dir_all(trees.path()).expect("the trees are removed");
}

fn pods() -> &'static [PathBuf] {
    &TREES.get().expect("made before the benches").1
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn du(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        let mut du = Command::new("du");
        du.args(["-s", "--inodes"]).args(pods());
        let done = du.stdout(Stdio::null()).status().expect("du runs");
        assert!(done.success());
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn first_walk(bencher: Bencher<'_, '_>) {
    let stop = AtomicBool::new(false);
    bencher.bench_local(|| {
        for pod in pods() {
            let mut budget = Budget {
                entries: u64::MAX,
                stop: &stop,
            };
            black_box(DiskUsage::of(pod, &mut budget)).expect("a pod's directory");
        }
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn repeated_walk(bencher: Bencher<'_, '_>) {
    let stop = AtomicBool::new(false);
    let mut kept = KeptTrees::new().expect("a kernel with inotify");
    let mut ledger = || {
        kept.update();
        for pod in pods() {
            let mut budget = Budget {
                entries: u64::MAX,
                stop: &stop,
            };
            let mut tree = kept.take(pod);
            black_box(tree.measure(Timestamp::UNIX_EPOCH, &mut budget)).expect("a pod's directory");
            kept.put(tree);
        }
    };
    ledger();
    bencher.bench_local(|| {
        // Every pod writes into one of its files.
        for pod in 0..PODS {
            let file = pods()[pod].join(pod.to_string()).join("0");
            fs::write(file, "x").expect("a file");
        }
        ledger();
    });
}
