//! Usage of 500 pods with a cgroup each, beside the bare reads that it needs.
//!
//! It may cost at most one and a half times as much, and allocates nothing. The cgroups are real, empty, and removed
//! at the end.

#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]
#![allow(clippy::print_stdout, reason = "it says why it measured nothing")]

use divan::{AllocProfiler, Bencher, black_box};
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_node::{BoundCgroup, CgroupUsage, LocalPod, PodSet, raise_open_files};
use evictd_pod::{Pod, wire};
use evictd_usage::Usage;
use jiff::Timestamp;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const PODS: usize = 500;

fn main() {
    divan::main();
}

#[divan::bench]
fn usage_of_500_pods(bencher: Bencher<'_, '_>) {
    let Some(groups) = Groups::make("usage") else {
        return;
    };
    let mut reader = CgroupUsage::new(groups.hierarchies.clone(), raise_open_files());
    let (set, mut usage) = (groups.pods(), Usage::default());
    let now = Timestamp::UNIX_EPOCH;
    // The first look opens the files.
    reader.read_pods(now, &set, &mut usage);
    bencher.bench_local(|| {
        let warnings = reader.read_pods(black_box(now), &set, &mut usage);
        assert!(warnings.is_empty());
    });
    assert!(
        usage.pods.iter().flatten().count() == PODS,
        "every pod has figures"
    );
}

#[divan::bench]
fn bare_system_calls(bencher: Bencher<'_, '_>) {
    let Some(groups) = Groups::make("bare") else {
        return;
    };
    raise_open_files();
    let files = groups.files();
    let mut buffer = vec![0; 16 * 1024];
    bencher.bench_local(|| {
        for file in &files {
            black_box(file.read_at(&mut buffer, 0)).expect("a kernel file reads");
        }
    });
}

/// 500 empty cgroups with memory and process figures.
struct Groups {
    hierarchies: Hierarchies,
    relative: Vec<PathBuf>,
    made: Vec<PathBuf>,
}

impl Groups {
    /// None, with a line that says why, where they can't be made.
    fn make(bench: &str) -> Option<Self> {
        let mut groups = match Hierarchies::detect(Path::new(DEFAULT_ROOT)) {
            Ok(hierarchies) => Self {
                hierarchies,
                relative: Vec::new(),
                made: Vec::new(),
            },
            Err(error) => {
                println!("LEFT OUT {bench}: {error}");
                return None;
            }
        };
        let top = PathBuf::from(format!("evictd-bench-{bench}-{}", std::process::id()));
        let made = groups.make_all(&top);
        if let Err(error) = &made {
            println!("LEFT OUT {bench}: cannot make cgroups: {error}");
        }
        made.ok().map(|()| groups)
    }

    fn make_all(&mut self, top: &Path) -> io::Result<()> {
        self.make_one(top)?;
        for number in 0..PODS {
            let relative = top.join(format!("pod{number}"));
            self.make_one(&relative)?;
            self.relative.push(relative);
        }
        Ok(())
    }

    fn make_one(&mut self, relative: &Path) -> io::Result<()> {
        for controller in [Controller::Memory, Controller::Pids] {
            let Some(dir) = self.hierarchies.dir(controller, relative) else {
                continue;
            };
            if !self.made.contains(&dir) {
                fs::create_dir(&dir)?;
                self.made.push(dir);
            }
        }
        Ok(())
    }

    fn pods(&self) -> PodSet {
        let bound = |relative: &PathBuf| {
            Some(BoundCgroup {
                relative: relative.clone(),
                by_annotation: false,
            })
        };
        PodSet {
            generation: 1,
            pods: self
                .relative
                .iter()
                .map(|group| LocalPod::new(Pod::from_wire(wire::Pod::default()), bound(group)))
                .collect(),
            ..PodSet::default()
        }
    }

    /// The files that hold the figures, open.
    fn files(&self) -> Vec<File> {
        let memory: &[&str] = if self.hierarchies.version() == Version::V2 {
            &["memory.current", "memory.stat", "memory.swap.current"]
        } else {
            &["memory.usage_in_bytes", "memory.stat"]
        };
        let open = |controller, relative: &Path, name: &str| {
            File::open(self.hierarchies.dir(controller, relative)?.join(name)).ok()
        };
        let mut files = Vec::new();
        for relative in &self.relative {
            files.extend(
                memory
                    .iter()
                    .filter_map(|name| open(Controller::Memory, relative, name)),
            );
            files.extend(open(Controller::Pids, relative, "pids.current"));
        }
        files
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in self.made.iter().rev() {
            if let Err(error) = fs::remove_dir(dir) {
                println!("cannot remove {}: {error}", dir.display());
            }
        }
    }
}
