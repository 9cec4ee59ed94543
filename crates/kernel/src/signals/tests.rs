//! Whole looks: at fixture trees of both cgroup versions, and at this machine.

use super::*;
use evictd_signals::Observation;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

mod machine;

const MI: i64 = 1 << 20;
const GI: i64 = 1 << 30;
/// `MemTotal` of the fixtures.
const TOTAL: i64 = 24_684_084 * 1024;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A copy of a fixture tree, which a test may damage.
struct Tree {
    directory: TempDir,
    sources: SignalSources,
}

impl Tree {
    fn v1() -> Self {
        Self::copy("v1")
    }

    fn v2() -> Self {
        Self::copy("v2")
    }

    fn copy(version: &str) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/signals");
        let directory = tempfile::tempdir().unwrap();
        copy_tree(&fixtures.join(version), directory.path());
        let hierarchies = Hierarchies::detect(&directory.path().join("cgroup")).unwrap();
        let sources = SignalSources {
            proc_root: directory.path().join("proc"),
            hierarchies: Some(hierarchies),
            node_cgroup: None,
            pods_cgroups: Vec::new(),
            memory_available: MemoryAvailable::MemAvailable,
            filesystems: FilesystemPaths::default(),
        };
        Self { directory, sources }
    }

    fn bounded_by(mut self, group: &str) -> Self {
        self.sources.node_cgroup = Some(group.into());
        self
    }

    fn with_pods_in(mut self, group: &str) -> Self {
        self.sources.pods_cgroups = vec!["kubepods.nowhere".into(), group.into()];
        self
    }

    fn sampler(&self) -> Sampler {
        Sampler::new(&self.sources).unwrap()
    }

    fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(file), content).unwrap();
    }
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn left(observation: Option<&Observation>) -> Option<(i64, i64)> {
    observation.map(|found| (found.available, found.capacity))
}

#[test]
fn s1_018_s1_021_the_machine_as_the_node() {
    for tree in [Tree::v1(), Tree::v2()] {
        let sample = tree.sampler().sample(at(1));
        let memory = sample.observations.get(Signal::MemoryAvailable);
        assert_eq!(left(memory), Some((20 * GI, TOTAL)));
        assert_eq!(memory.unwrap().time, Some(at(1)));
        assert_eq!(
            left(sample.memory.mem_available.as_ref()),
            Some((20 * GI, TOTAL))
        );
        assert_eq!(
            left(sample.memory.working_set.as_ref()),
            Some((TOTAL - 8 * GI, TOTAL))
        );
        let pids = sample.observations.get(Signal::PidAvailable);
        assert_eq!(left(pids), Some((32768 - 84, 32768)));
        assert_eq!(sample.observations.iter().count(), 2);

        assert_eq!(sample.swap.unwrap().free, 1 << 30);
        assert!((sample.memory_pressure.unwrap().some_avg10 - 12.5).abs() < 1e-6);
        assert!((sample.io_pressure.unwrap().full_avg10 - 0.25).abs() < 1e-6);
    }
}

#[test]
fn s1_018_the_working_set_decides_where_it_is_configured() {
    for mut tree in [Tree::v1(), Tree::v2()] {
        tree.sources.memory_available = MemoryAvailable::WorkingSet;
        let sample = tree.sampler().sample(at(1));
        let memory = sample.observations.get(Signal::MemoryAvailable);
        assert_eq!(left(memory), Some((TOTAL - 8 * GI, TOTAL)));
        assert_eq!(
            left(sample.memory.mem_available.as_ref()),
            Some((20 * GI, TOTAL))
        );
    }
}

#[test]
fn s7_280_huge_pages_are_taken_from_the_working_set_and_never_from_mem_available() {
    let huge = GI;
    for mut tree in [Tree::v1(), Tree::v2()] {
        let meminfo = fs::read_to_string(tree.sources.proc_root.join("meminfo")).unwrap();
        let reserved =
            meminfo.replace("Hugetlb:               0 kB", "Hugetlb:         1048576 kB");
        assert_ne!(reserved, meminfo);
        tree.write("proc/meminfo", &reserved);
        let memory = |tree: &Tree, subtract| {
            let mut sampler = tree.sampler();
            sampler.subtract_huge_pages(subtract);
            let sample = sampler.sample(at(1));
            left(sample.observations.get(Signal::MemoryAvailable))
        };
        assert_eq!(memory(&tree, true), Some((20 * GI, TOTAL)));
        tree.sources.memory_available = MemoryAvailable::WorkingSet;
        let before = TOTAL - 8 * GI;
        // The kubelet's from 1.37 on, and ours; the kubelet's before.
        assert_eq!(memory(&tree, true), Some((before - huge, TOTAL)));
        assert_eq!(memory(&tree, false), Some((before, TOTAL)));
        let all = reserved.replace("Hugetlb:         1048576 kB", "Hugetlb:        24000000 kB");
        tree.write("proc/meminfo", &all);
        assert_eq!(memory(&tree, true), Some((0, TOTAL)));
        tree.write("proc/meminfo", reserved.replace("1048576 kB", "many kB"));
        assert_eq!(memory(&tree, true), None);
        // A cgroup as the node with a limit of its own, and without one.
        tree.write("proc/meminfo", &reserved);
        let group = if tree.directory.path().join("cgroup/machine.slice").exists() {
            "machine.slice/node"
        } else {
            continue;
        };
        let tree = tree.bounded_by(group);
        assert_eq!(memory(&tree, true), memory(&tree, false));
        tree.write("cgroup/machine.slice/memory.max", "max\n");
        tree.write("cgroup/machine.slice/node/memory.max", "max\n");
        let without = memory(&tree, false).unwrap();
        assert_eq!(memory(&tree, true), Some((without.0 - huge, TOTAL)));
    }
}

#[test]
fn a_cgroup_as_the_node() {
    let v1 = Tree::v1().bounded_by("node");
    let v2 = Tree::v2().bounded_by("machine.slice/node");
    // 400 Mi used, of them 30 + 50 Mi of file cache with 12 Mi yet to be written; v2 tells of 4 Mi of slab besides.
    for (tree, mem_available) in [(v1, 180 * MI), (v2, 184 * MI)] {
        let sample = tree.sampler().sample(at(1));
        let node = |available| Some((available, 512 * MI));
        let memory = sample.observations.get(Signal::MemoryAvailable);
        assert_eq!(left(memory), node(mem_available));
        assert_eq!(
            left(sample.memory.mem_available.as_ref()),
            node(mem_available)
        );
        assert_eq!(left(sample.memory.working_set.as_ref()), node(162 * MI));
        let pids = sample.observations.get(Signal::PidAvailable);
        assert_eq!(left(pids), Some((600, 1000)));
    }
}

#[test]
fn the_tightest_limit_above_a_cgroup_is_the_nodes_capacity() {
    let tree = Tree::v2().bounded_by("machine.slice/node");
    tree.write("cgroup/machine.slice/memory.max", "402653184\n"); // 384 Mi, below the 400 Mi in use
    let sample = tree.sampler().sample(at(1));
    let memory = sample.observations.get(Signal::MemoryAvailable);
    assert_eq!(left(memory), Some((56 * MI, 384 * MI)));
    assert_eq!(
        left(sample.memory.working_set.as_ref()),
        Some((34 * MI, 384 * MI))
    );

    tree.write("cgroup/machine.slice/memory.max", "max\n");
    tree.write("cgroup/machine.slice/node/memory.max", "max\n");
    tree.write("cgroup/machine.slice/node/pids.max", "max\n");
    let sample = tree.sampler().sample(at(1));
    let memory = sample.observations.get(Signal::MemoryAvailable);
    assert_eq!(left(memory).unwrap().1, TOTAL);
    let pids = sample.observations.get(Signal::PidAvailable);
    assert_eq!(left(pids), Some((32768 - 84, 32768)));
}

#[test]
fn s1_019_allocatable_memory_is_the_limit_of_the_pods_group_less_its_usage() {
    let v1 = Tree::v1().with_pods_in("kubepods");
    let v2 = Tree::v2().with_pods_in("kubepods.slice");
    for (tree, limit) in [
        (v1, "cgroup/memory/kubepods/memory.stat"),
        (v2, "cgroup/kubepods.slice/memory.max"),
    ] {
        let mut sampler = tree.sampler();
        let observed =
            |sample: &Sample| left(sample.observations.get(Signal::AllocatableMemoryAvailable));
        assert_eq!(observed(&sampler.sample(at(1))), Some((6 * GI, 8 * GI)));

        // A limit that is no tighter than the node's is none.
        let path = tree.directory.path().join(limit);
        let unlimited = fs::read_to_string(&path).unwrap();
        fs::write(&path, unlimited.replace("8589934592", "25276502016")).unwrap();
        let sample = sampler.sample(at(2));
        assert_eq!(observed(&sample), None);
        let health = sample.health(Signal::AllocatableMemoryAvailable);
        assert_eq!((health.state, health.failed), (SignalState::Absent, 0));

        fs::write(&path, unlimited).unwrap();
        assert_eq!(observed(&sampler.sample(at(3))), Some((6 * GI, 8 * GI)));
    }
    let no_pods = Tree::v1().with_pods_in("nowhere");
    let sample = no_pods.sampler().sample(at(1));
    let health = sample.health(Signal::AllocatableMemoryAvailable);
    assert_eq!((health.state, health.failed), (SignalState::Absent, 0));
}

/// A sampler that follows the process ids of the pods.
fn follows_pids(tree: &Tree) -> Sampler {
    let mut sampler = tree.sampler();
    sampler.follow(&[Threshold {
        signal: Signal::AllocatablePidAvailable,
        value: evictd_signals::ThresholdValue::Percentage(0.1),
        grace_period: SignedDuration::ZERO,
        min_reclaim: None,
    }]);
    sampler
}

#[test]
fn the_process_ids_that_the_pods_may_still_take() {
    let signal = Signal::AllocatablePidAvailable;
    let v1 = (Tree::v1().with_pods_in("kubepods"), "cgroup/pids/kubepods");
    let v2 = (
        Tree::v2().with_pods_in("kubepods.slice"),
        "cgroup/kubepods.slice",
    );
    for (tree, group) in [v1, v2] {
        let unfollowed = tree.sampler().sample(at(1));
        assert_eq!(unfollowed.observations.get(signal), None);
        let mut sampler = follows_pids(&tree);
        let mut second = 0;
        let mut look = |limit: &str| {
            second += 1;
            tree.write(&format!("{group}/pids.max"), limit);
            let sample = sampler.sample(at(second));
            (
                left(sample.observations.get(signal)),
                sample.health(signal).state,
            )
        };
        assert_eq!(look("1200\n"), (Some((50, 1200)), SignalState::Observed));
        // A limit that is no tighter than the node's is none: the signal of the node sees the same.
        for none in ["max\n", "32768\n"] {
            assert_eq!(look(none), (None, SignalState::Absent));
        }
        // A cgroup may hold more than a limit that was lowered.
        assert_eq!(look("1199\n"), (Some((49, 1199)), SignalState::Observed));
        assert_eq!(look("rubbish"), (None, SignalState::Failed));
    }
    let no_pods = Tree::v1().with_pods_in("nowhere");
    let sample = follows_pids(&no_pods).sample(at(1));
    let health = sample.health(signal);
    assert_eq!((health.state, health.failed), (SignalState::Absent, 0));
}

/// The agent may start before the kubelet has made its groups, and outlive them.
#[test]
fn s1_019_the_group_of_the_pods_may_come_later() {
    let v1 = (Tree::v1().with_pods_in("kubepods"), "memory/kubepods");
    let v2 = (Tree::v2().with_pods_in("kubepods.slice"), "kubepods.slice");
    for (tree, group) in [v1, v2] {
        let root = tree.directory.path();
        let (place, away) = (root.join("cgroup").join(group), root.join("away"));
        let mut sampler = tree.sampler();
        let mut look = |milliseconds| {
            let sample = sampler.sample(Timestamp::from_millisecond(milliseconds).unwrap());
            let health = sample.health(Signal::AllocatableMemoryAvailable);
            assert_eq!(health.failed, 0);
            left(sample.observations.get(Signal::AllocatableMemoryAvailable))
        };
        // At the next renewal; on a node in a hurry at once.
        for (gone, found) in [(1_000, 11_000), (12_000, 12_999)] {
            fs::rename(&place, &away).unwrap();
            assert_eq!(look(gone), None);
            fs::rename(&away, &place).unwrap();
            assert_eq!(look(found), Some((6 * GI, 8 * GI)));
        }
        fs::rename(&place, &away).unwrap();
        assert_eq!(look(14_000), None);
        fs::rename(&away, &place).unwrap();
        for second in 15..21 {
            assert_eq!(look(second * 1000), None);
        }
        assert_eq!(look(21_000), Some((6 * GI, 8 * GI)));
    }
}

/// Damages one file in every way, and expects that it takes its signal with it and nothing else.
fn damage(tree: &Tree, file: &str, signal: Signal) {
    let path = tree.directory.path().join(file);
    let good = fs::read(&path).unwrap();
    let mut sampler = tree.sampler();
    let complete = sampler.sample(at(0)).observations.iter().count();
    let rubbish: [Option<&[u8]>; 7] = [
        None,
        Some(b""),
        Some(b"\n"),
        Some(b"rubbish"),
        Some(b"-1\n"),
        Some(b"99999999999999999999999\n"),
        Some(b"\xff\xfe\x00"),
    ];
    for (failed, content) in (1..).zip(rubbish) {
        let time = 20 * i64::try_from(failed).unwrap();
        match content {
            None => fs::remove_file(&path).unwrap(),
            Some(content) => fs::write(&path, content).unwrap(),
        }
        let sample = sampler.sample(at(time));
        assert_eq!(sample.observations.get(signal), None, "{file}: {content:?}");
        assert!(sample.observations.iter().count() < complete);
        let health = sample.health(signal);
        assert_eq!((health.state, health.failed), (SignalState::Failed, failed));

        fs::write(&path, &good).unwrap();
        // What is not known is not waited for.
        let now = at(time + 1);
        let sample = sampler.sample(now);
        assert_eq!(sample.observations.iter().count(), complete, "{file}");
        assert_eq!(sample.health(signal).state, SignalState::Observed);
        assert_eq!(sample.observations.get(signal).unwrap().time, Some(now));
    }
}

#[test]
fn s1_022_a_missing_or_malformed_file_costs_its_signal_until_it_is_back() {
    let memory = Signal::MemoryAvailable;
    let pids = Signal::PidAvailable;
    for tree in [Tree::v1(), Tree::v2()] {
        damage(&tree, "proc/meminfo", memory);
        damage(&tree, "proc/loadavg", pids);
        damage(&tree, "proc/sys/kernel/pid_max", pids);
        damage(&tree, "proc/sys/kernel/threads-max", pids);
    }
    let v1 = Tree::v1().bounded_by("node");
    damage(&v1, "cgroup/memory/node/memory.usage_in_bytes", memory);
    damage(&v1, "cgroup/memory/node/memory.stat", memory);
    damage(&v1, "cgroup/pids/node/pids.max", pids);
    damage(&v1, "cgroup/pids/node/pids.current", pids);
    let v2 = Tree::v2().bounded_by("machine.slice/node");
    damage(&v2, "cgroup/machine.slice/node/memory.current", memory);
    damage(&v2, "cgroup/machine.slice/node/memory.stat", memory);
    damage(&v2, "cgroup/machine.slice/node/memory.max", memory);
    damage(&v2, "cgroup/machine.slice/memory.max", memory);
    damage(&v2, "cgroup/machine.slice/node/pids.current", pids);

    let mut parity = Tree::v1();
    parity.sources.memory_available = MemoryAvailable::WorkingSet;
    damage(&parity, "cgroup/memory/memory.usage_in_bytes", memory);
    damage(&parity, "cgroup/memory/memory.stat", memory);
    let mut parity = Tree::v2();
    parity.sources.memory_available = MemoryAvailable::WorkingSet;
    damage(&parity, "cgroup/memory.stat", memory);
}

#[test]
fn a_figure_that_only_reports_may_be_missing() {
    let tree = Tree::v1();
    for file in [
        "proc/pressure/memory",
        "proc/pressure/io",
        "cgroup/memory/memory.stat",
    ] {
        fs::remove_file(tree.directory.path().join(file)).unwrap();
    }
    let sample = tree.sampler().sample(at(1));
    assert_eq!((sample.memory_pressure, sample.io_pressure), (None, None));
    assert_eq!(sample.memory.working_set, None);
    assert_eq!(sample.observations.iter().count(), 2);
}

#[test]
fn impossible_figures_are_turned_away_and_counted() {
    let tree = Tree::v1();
    let mut sampler = tree.sampler();
    let mut sample = |available: &str, total: &str| {
        let text = format!("MemTotal: {total} kB\nMemAvailable: {available} kB\n");
        tree.write("proc/meminfo", text);
        let sample = sampler.sample(at(1));
        let health = sample.health(Signal::MemoryAvailable);
        let observed = sample.observations.get(Signal::MemoryAvailable).is_some();
        assert_eq!(observed, health.state == SignalState::Observed);
        (health.state, health.rejected)
    };
    assert_eq!(sample("20971520", "24684084"), (SignalState::Observed, 0));
    assert_eq!(sample("24684085", "24684084"), (SignalState::Rejected, 1));
    assert_eq!(sample("0", "0"), (SignalState::Rejected, 2));
    assert_eq!(
        sample("18014398509481983", "18014398509481983"),
        (SignalState::Rejected, 3)
    );
    assert_eq!(sample("100", "24684"), (SignalState::Rejected, 4));
    assert_eq!(sample("20971520", "24684084"), (SignalState::Observed, 4));
    assert_eq!(sample("100", "24684"), (SignalState::Rejected, 5));
    assert_eq!(sample("100", "24684"), (SignalState::Rejected, 6));
    assert_eq!(sample("100", "24684"), (SignalState::Observed, 6));

    // Threads by the million where no more than 2^22 ids can be.
    tree.write("proc/loadavg", "0 0 0 1/5000000 1\n");
    let sample = sampler.sample(at(2));
    assert_eq!(sample.health(Signal::PidAvailable).rejected, 1);
}

#[test]
fn the_working_set_needs_a_memory_controller_and_so_does_a_cgroup() {
    let mut tree = Tree::v1();
    tree.sources.hierarchies = None;
    let sample = tree.sampler().sample(at(1));
    assert_eq!(sample.memory.working_set, None);
    assert!(sample.observations.get(Signal::MemoryAvailable).is_some());

    tree.sources.memory_available = MemoryAvailable::WorkingSet;
    let error = Sampler::new(&tree.sources).err().unwrap();
    assert!(matches!(error, SourceError::NoWorkingSet));
    let error = Sampler::new(&tree.bounded_by("node").sources)
        .err()
        .unwrap();
    assert!(error.to_string().ends_with("could have the cgroup node"));
}
