//! Pods whose processes are hard to see leave all the same.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup_support::{TestCgroup, left_out};
use crate::evictor_support::{IGNORES_TERM, evictor, victim};
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_kernel::kill::{CgroupEvictor, GraceCut, Method, SigtermBy, Termination};

const NO_GRACE: Duration = Duration::ZERO;

/// The hierarchies that lead to each of the three ways to kill on a machine with cgroup v1.
const WAYS: [(&[&str], Method); 3] = [
    (
        &["memory", "pids", "unified", "freezer"],
        Method::CgroupKill,
    ),
    (&["memory", "freezer", "cpu"], Method::FrozenKill),
    (&["pids"], Method::RepeatedKill),
];

fn hierarchies() -> Hierarchies {
    Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap()
}

async fn leave(group: &TestCgroup, proc_root: &Path, grace: Duration) -> Termination {
    leave_from(hierarchies(), group, proc_root, grace).await
}

async fn leave_from(
    hierarchies: Hierarchies,
    group: &TestCgroup,
    proc_root: &Path,
    grace: Duration,
) -> Termination {
    let evictor = CgroupEvictor {
        hierarchies,
        proc_root: proc_root.to_owned(),
        ..evictor(group)
    };
    let cut = GraceCut::default();
    evictor
        .end(&victim(group), grace, &cut, SigtermBy::Evictd)
        .await
        .unwrap()
}

/// Runs a process in a pod of each way to kill, has it moved by `hide`, and wants it dead.
async fn all_ways(test: &str, hide: impl Fn(&Path, u32)) {
    for (names, method) in WAYS {
        let Some(mut group) = TestCgroup::new(test, names) else {
            continue;
        };
        let hidden = group.script("pod/app", IGNORES_TERM);
        let root = Path::new(DEFAULT_ROOT);
        let is_v2 = hierarchies().version() == Version::V2;
        let mounts = if is_v2 {
            vec![root.to_owned()]
        } else {
            names.iter().map(|name| root.join(name)).collect()
        };
        for mount in mounts {
            hide(&mount.join(&group.relative).join("pod"), hidden);
        }
        let termination = leave(&group, Path::new("/proc"), NO_GRACE).await;
        let expected = if is_v2 { Method::CgroupKill } else { method };
        assert_eq!(termination.method, expected);
        assert!(termination.gone_at.is_some() && termination.survivors.is_empty());
        assert!(
            TestCgroup::has_ended(hidden),
            "{test} by {}",
            method.as_str()
        );
    }
}

#[tokio::test]
async fn a_group_whose_name_is_no_text_hides_no_process() {
    let test = "a_group_whose_name_is_no_text_hides_no_process";
    all_ways(test, |pod, pid| {
        let below = pod.join(OsStr::from_bytes(b"\xff\xfe")).join("deeper");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("cgroup.procs"), pid.to_string()).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_group_deeper_than_any_path_reaches_hides_no_process() {
    let test = "a_group_deeper_than_any_path_reaches_hides_no_process";
    all_ways(test, |pod, pid| {
        let name = OsString::from("n".repeat(250));
        let mut here = File::open(pod).unwrap();
        for _ in 0..20 {
            let short = PathBuf::from(format!("/proc/self/fd/{}", here.as_raw_fd()));
            fs::create_dir(short.join(&name)).unwrap();
            here = File::open(short.join(&name)).unwrap();
        }
        let procs = format!("/proc/self/fd/{}/cgroup.procs", here.as_raw_fd());
        fs::write(procs, pid.to_string()).unwrap();
    })
    .await;
}

/// What another user's processes look like where `/proc` is mounted with `hidepid`.
#[tokio::test]
async fn a_process_that_proc_does_not_show_is_not_dead() {
    let test = "a_process_that_proc_does_not_show_is_not_dead";
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join("self")).unwrap();
    fs::copy("/proc/self/cgroup", empty.path().join("self/cgroup")).unwrap();
    for grace in [NO_GRACE, Duration::from_millis(100)] {
        for (names, _) in WAYS {
            let Some(mut group) = TestCgroup::new(test, names) else {
                continue;
            };
            let hidden = group.script("pod/app", IGNORES_TERM);
            let termination = leave(&group, empty.path(), grace).await;
            assert_ne!(termination.method, Method::AlreadyGone);
            assert!(termination.gone_at.is_some() && termination.killed_at.is_some());
            assert!(TestCgroup::has_ended(hidden));
        }
    }
}

/// A limit below a name that is no text is lifted and put back, too.
#[tokio::test]
async fn cpu_time_is_freed_below_any_name() {
    let test = "cpu_time_is_freed_below_any_name";
    let Some(mut group) = TestCgroup::new(test, &["memory", "cpu"]) else {
        return;
    };
    let pid = group.script("pod/app", IGNORES_TERM);
    let dir = hierarchies().dir(Controller::Cpu, &group.relative.join("pod/app"));
    let below = dir.unwrap().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&below).unwrap();
    let limit = below.join("cpu.cfs_quota_us");
    if fs::write(&limit, "1000").is_err() {
        return left_out(test, "no CPU limits below a pod's group here");
    }
    fs::write(below.join("cgroup.procs"), pid.to_string()).unwrap();
    let termination = leave(&group, Path::new("/proc"), NO_GRACE).await;
    assert!(termination.gone_at.is_some());
    assert_eq!(fs::read_to_string(limit).unwrap().trim(), "1000");
}

/// As if the tree beside cgroup v1 were the only one.
#[tokio::test]
async fn in_cgroup_v2_a_pod_that_hides_its_processes_is_killed_too() {
    let test = "in_cgroup_v2_a_pod_that_hides_its_processes_is_killed_too";
    let beside = Path::new(DEFAULT_ROOT).join("unified");
    let root = if beside.exists() {
        beside
    } else {
        DEFAULT_ROOT.into()
    };
    let tree = Hierarchies::detect(&root).unwrap();
    if tree.version() != Version::V2 {
        return left_out(test, "no cgroup2 tree here");
    }
    for grace in [NO_GRACE, Duration::from_millis(100)] {
        let Some(mut group) = TestCgroup::new(test, &["unified"]) else {
            return;
        };
        let hidden = group.script("pod/app", IGNORES_TERM);
        let below = root.join(&group.relative).join("pod");
        let below = below.join(OsStr::from_bytes(b"\xff"));
        fs::create_dir(&below).unwrap();
        fs::write(below.join("cgroup.procs"), hidden.to_string()).unwrap();
        let termination = leave_from(tree.clone(), &group, Path::new("/proc"), grace).await;
        assert_eq!(termination.method, Method::CgroupKill);
        assert!(termination.gone_at.is_some() && termination.processes >= 1);
        assert!(TestCgroup::has_ended(hidden));
    }
}
