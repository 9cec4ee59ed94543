use super::*;
use evictd_testkit::testing::with_tmpfs;
use std::{fs, os::unix::fs::symlink};
use tempfile::tempdir;

const STAT: &str = "anon 1000\nshmem 6000\ninactive_file 2000\n";

fn remaining_of(cgroups: &Path, mounts: &Path, uid: &str) -> RemainingUsage {
    let hierarchies = Hierarchies::detect(cgroups).unwrap();
    let mut buffer = Box::new([0; size_of::<Buffer>()]);
    read(&hierarchies, mounts, (uid, Path::new("pod")), &mut buffer)
}

fn remaining(memory: i64, swap: i64, processes: u64) -> RemainingUsage {
    RemainingUsage {
        memory: Some(memory),
        swap: Some(swap),
        processes: Some(processes),
        ..RemainingUsage::default()
    }
}

/// A tree of cgroup v2 with the group `pod` in it.
fn tree(top: &Path) {
    fs::write(top.join("cgroup.controllers"), "memory pids\n").unwrap();
    fs::create_dir(top.join("pod")).unwrap();
    for (file, text) in [
        ("memory.current", "9000\n"),
        ("memory.stat", STAT),
        ("memory.swap.current", "70\n"),
        ("pids.current", "3\n"),
        ("cgroup.procs", ""),
    ] {
        fs::write(top.join("pod").join(file), text).unwrap();
    }
}

#[test]
fn what_a_group_shows_counts_and_what_an_error_hides_is_unknown() {
    let top = tempdir().unwrap();
    tree(top.path());
    let now = || remaining_of(top.path(), Path::new("/proc/self/mountinfo"), "u");
    assert_eq!(now(), remaining(7000, 70, 3));
    let write =
        |file: &str, text: &str| fs::write(top.path().join("pod").join(file), text).unwrap();
    for (file, good) in [
        ("memory.current", "9000\n"),
        ("memory.stat", STAT),
        ("memory.swap.current", "70\n"),
    ] {
        write(file, "?\n");
        let hidden = now();
        assert_eq!((hidden.memory, hidden.swap), (None, None), "{file}");
        assert_eq!(hidden.processes, Some(3));
        write(file, good);
    }
    write("pids.current", "?\n");
    let hidden = now();
    assert_eq!((hidden.memory, hidden.processes), (Some(7000), None));

    // Without the controllers: what is listed, and what volumes hold.
    for file in ["pids.current", "memory.current"] {
        fs::remove_file(top.path().join("pod").join(file)).unwrap();
    }
    write("cgroup.procs", "7\n8\n");
    assert_eq!(now(), remaining(0, 0, 2));
    fs::remove_dir_all(top.path().join("pod")).unwrap();
    assert_eq!(now(), remaining(0, 0, 0));
}

#[test]
fn volumes_in_memory_count_once_the_group_is_gone() {
    let top = tempdir().unwrap();
    let volumes = "kubelet/pods/u-1/volumes/kubernetes.io~empty-dir";
    let volume = top.path().join(volumes).join("cache");
    fs::create_dir_all(&volume).unwrap();
    let group = top.path().join("cgroup");
    fs::create_dir(&group).unwrap();
    tree(&group);
    let proc = top.path().join("proc");
    fs::create_dir(&proc).unwrap();
    // The test's thread has a mount table of its own.
    symlink("/proc/thread-self", proc.join("self")).unwrap();
    let name = "volumes_in_memory_count_once_the_group_is_gone";
    with_tmpfs(name, volume, 4096, move |volume| {
        let now = |uid| remaining_of(&group, &proc.join("self/mountinfo"), uid);
        fs::write(volume.join("data"), vec![1; 3 << 20]).unwrap();
        assert_eq!(now("u-1"), remaining(7000, 70, 3));
        fs::remove_dir_all(group.join("pod")).unwrap();
        assert_eq!(now("u-1"), remaining(3 << 20, 0, 0));
        // Others have none of it, and neither has who has no UID.
        for uid in ["u-2", "u-", "1", ""] {
            assert_eq!(now(uid), remaining(0, 0, 0), "{uid:?}");
        }
        fs::remove_file(volume.join("data")).unwrap();
        assert_eq!(now("u-1"), remaining(0, 0, 0));
        fs::remove_file(proc.join("self")).unwrap();
        assert_eq!(now("u-1").memory, None);
    });
}
