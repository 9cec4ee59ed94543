//! Pods of real processes in real cgroups leave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cgroup_support::{TestCgroup, eventually, left_out};
use crate::evictor_support::{IGNORES_TERM, evictor, victim};
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_kernel::kill::{CgroupEvictor, GraceCut, Method, SigtermBy, Termination, Victim};

const NO_GRACE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_mins(1);

/// The hierarchies that lead to each of the three ways to kill on a machine with cgroup v1.
const WAYS: [(&[&str], Method); 3] = [
    (&["memory", "unified", "freezer"], Method::CgroupKill),
    (&["memory", "freezer"], Method::FrozenKill),
    (&["pids"], Method::RepeatedKill),
];

const SLEEPER: &str = "echo ready; exec sleep 600";
const FORKER: &str = "trap '' TERM; echo ready; while :; do sleep 0.01 & done";
/// Never the same process for long: each starts the next and ends.
const HOPPER: &str = r#"HOP='sh -c "$HOP" &'; export HOP; echo ready; eval "$HOP""#;

async fn leave(group: &TestCgroup, grace: Duration) -> Termination {
    let cut = GraceCut::default();
    let termination = evictor(group)
        .end(&victim(group), grace, &cut, SigtermBy::Evictd)
        .await;
    let termination = termination.unwrap();
    assert_eq!(termination.survivors, []);
    let procs = evictor(group).hierarchies.procs(&victim(group).cgroup);
    assert_eq!(procs.unwrap(), Vec::<u32>::new());
    termination
}

fn milliseconds(from: Option<jiff::Timestamp>, to: Option<jiff::Timestamp>) -> i128 {
    to.unwrap().duration_since(from.unwrap()).as_millis()
}

/// Which method is right where the machine has not all of cgroup v1.
fn expected(method: Method) -> Method {
    match Hierarchies::detect(Path::new(DEFAULT_ROOT))
        .unwrap()
        .version()
    {
        Version::V2 => Method::CgroupKill,
        Version::V1 | Version::Hybrid => method,
    }
}

/// Runs each script in a pod for each way to kill and wants it gone at once.
async fn all_ways(test: &str, script: &str) {
    for (hierarchies, method) in WAYS {
        let Some(mut group) = TestCgroup::new(test, hierarchies) else {
            continue;
        };
        group.script("pod/app", script);
        let termination = leave(&group, NO_GRACE).await;
        assert_eq!(termination.method, expected(method));
        assert!(termination.processes >= 1);
        let took = milliseconds(termination.first_signal_at, termination.gone_at);
        eprintln!("{test} by {}: {took} ms", method.as_str());
        assert!(took < 5000, "{took} ms");
    }
}

#[tokio::test]
async fn without_grace_a_pod_is_killed_at_once() {
    all_ways("without_grace_a_pod_is_killed_at_once", IGNORES_TERM).await;
}

#[tokio::test]
async fn a_forker_does_not_get_away() {
    all_ways("a_forker_does_not_get_away", FORKER).await;
}

#[tokio::test]
async fn a_process_that_hops_from_id_to_id_does_not_get_away() {
    all_ways(
        "a_process_that_hops_from_id_to_id_does_not_get_away",
        HOPPER,
    )
    .await;
}

#[tokio::test]
async fn a_stopped_process_is_killed() {
    all_ways("a_stopped_process_is_killed", "echo ready; kill -STOP $$").await;
}

/// It is lifted meanwhile (tests/vm/scenarios/limited); what starts in that group again is limited as before.
#[tokio::test]
async fn a_killed_pods_limit_on_cpu_time_is_put_back() {
    let test = "a_killed_pods_limit_on_cpu_time_is_put_back";
    let Some(mut group) = TestCgroup::new(test, &["memory", "cpu"]) else {
        return;
    };
    let hog = "exec 3>&1; { head -c 150M /dev/zero; echo ready >&3; sleep 600; } | tail -c 150M";
    group.script("pod/app", hog);
    let hierarchies = evictor(&group).hierarchies;
    let relative = group.relative.join("pod/app");
    let dir = hierarchies.dir(Controller::Cpu, &relative).unwrap();
    let (file, limited) = match hierarchies.version() {
        Version::V2 => ("cpu.max", "1000 100000"),
        Version::V1 | Version::Hybrid => ("cpu.cfs_quota_us", "1000"),
    };
    fs::write(dir.join(file), limited).unwrap();
    leave(&group, NO_GRACE).await;
    assert_eq!(fs::read_to_string(dir.join(file)).unwrap().trim(), limited);
}

#[tokio::test]
async fn a_frozen_pod_is_thawed_and_killed() {
    let test = "a_frozen_pod_is_thawed_and_killed";
    for (hierarchies, frozen) in [
        (&["freezer", "memory"], "pod"),
        (&["freezer", "memory"], "pod/app"),
        (&["freezer", "unified"], "pod/app"),
    ] {
        let Some(mut group) = TestCgroup::new(test, hierarchies) else {
            continue;
        };
        group.script("pod/app", SLEEPER);
        let dir = group.dir(frozen);
        let (switch, on, is_on) = if dir.join("freezer.state").exists() {
            ("freezer.state", "FROZEN", "FROZEN")
        } else {
            ("cgroup.freeze", "1", "1")
        };
        fs::write(dir.join(switch), on).unwrap();
        eventually("the group is frozen", || {
            fs::read_to_string(dir.join(switch)).unwrap().trim() == is_on
        });
        let termination = leave(&group, NO_GRACE).await;
        assert!(termination.gone_at.is_some());
    }
}

#[tokio::test]
async fn a_zombie_is_not_waited_for() {
    let test = "a_zombie_is_not_waited_for";
    let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
        return;
    };
    let zombie = group.script("pod/app", "echo ready");
    eventually("the child has ended", || TestCgroup::has_ended(zombie));
    let termination = leave(&group, LONG).await;
    assert_eq!(termination.method, Method::AlreadyGone);
    assert_eq!(termination.first_signal_at, None);
}

/// A threaded group has no list of processes of its own.
#[tokio::test]
async fn a_threaded_group_in_the_pod_is_no_obstacle() {
    let test = "a_threaded_group_in_the_pod_is_no_obstacle";
    let Some(mut group) = TestCgroup::new(test, &["unified"]) else {
        return;
    };
    group.script("pod", SLEEPER);
    group.make("pod/threads");
    let threads = group.dir("pod/threads");
    fs::write(threads.join("cgroup.type"), "threaded").unwrap();
    assert!(fs::read_to_string(threads.join("cgroup.procs")).is_err());
    let termination = leave(&group, NO_GRACE).await;
    assert_eq!(termination.method, Method::CgroupKill);
}

#[tokio::test]
async fn a_process_that_exits_within_its_grace_period_is_not_killed() {
    let test = "a_process_that_exits_within_its_grace_period_is_not_killed";
    for hierarchies in [&["memory"][..], &["memory", "unified"]] {
        let Some(mut group) = TestCgroup::new(test, hierarchies) else {
            continue;
        };
        group.script("pod", SLEEPER);
        group.script(
            "pod",
            "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done",
        );
        let termination = leave(&group, LONG).await;
        assert_eq!(termination.method, Method::Terminated);
        assert_eq!(termination.killed_at, None);
        assert!(termination.processes >= 2);
    }
}

#[tokio::test]
async fn a_grace_can_be_cut() {
    let test = "a_grace_can_be_cut";
    let Some(mut group) = TestCgroup::new(test, &["memory", "freezer"]) else {
        return;
    };
    let heard = tempfile::tempdir().unwrap();
    let heard = heard.path().join("term");
    group.script("pod", &hears(&heard));
    let (evictor, victim, cut) = (evictor(&group), victim(&group), GraceCut::default());
    let cutter = async {
        until_exists(&heard).await;
        cut.clone().cut_grace();
    };
    let (termination, ()) =
        tokio::join!(evictor.end(&victim, LONG, &cut, SigtermBy::Evictd), cutter);
    let termination = termination.unwrap();
    assert_eq!(termination.method, expected(Method::FrozenKill));
    let took = milliseconds(termination.first_signal_at, termination.gone_at);
    assert!(took < 10_000, "{took} ms");
}

/// A script that notes in a file that it got SIGTERM, and stays.
fn hears(file: &Path) -> String {
    format!("{}; done", hears_in(file))
}

/// [`hears`] before the end of its loop.
fn hears_in(file: &Path) -> String {
    let file = file.display();
    format!("trap 'echo > {file}' TERM; echo ready; while :; do sleep 0.02")
}

async fn until_exists(file: &Path) {
    let look = async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(10), look).await;
    assert!(seen.is_ok(), "{} never came", file.display());
}

#[tokio::test]
async fn only_the_first_process_of_each_container_is_asked_to_stop() {
    let test = "only_the_first_process_of_each_container_is_asked_to_stop";
    let Some(mut group) = TestCgroup::new(test, &["memory", "unified"]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let pause = dir.path().join("pause");
    fs::copy("/bin/sh", &pause).unwrap();
    let file = |name: &str| dir.path().join(name);
    group.script_of(&pause, "pod/0-by-name", &hears(&file("sandbox-by-name")));
    group.script("pod/1-by-id", &hears(&file("sandbox-by-id")));
    group.script("pod/a", &hears(&file("first-of-a")));
    group.script("pod/b", &hears(&file("first-of-b")));
    // Start times count ticks of 10 ms.
    tokio::time::sleep(Duration::from_millis(30)).await;
    group.script("pod/a", &hears(&file("second-of-a")));
    let evictor = evictor(&group);
    let victim = Victim {
        sandbox: Some("1-by-id".into()),
        ..victim(&group)
    };
    let cut = GraceCut::default();
    let cutter = async {
        until_exists(&file("first-of-a")).await;
        until_exists(&file("first-of-b")).await;
        // Time enough for a signal to the others to show.
        tokio::time::sleep(Duration::from_millis(100)).await;
        cut.cut_grace();
    };
    let (termination, ()) =
        tokio::join!(evictor.end(&victim, LONG, &cut, SigtermBy::Evictd), cutter);
    assert!(termination.unwrap().processes >= 5);
    for never in ["sandbox-by-name", "sandbox-by-id", "second-of-a"] {
        assert!(!file(never).exists(), "{never} got SIGTERM");
    }
}

#[tokio::test]
async fn a_sandbox_that_is_left_alone_ends_the_grace() {
    let test = "a_sandbox_that_is_left_alone_ends_the_grace";
    let Some(mut group) = TestCgroup::new(test, &["memory", "freezer"]) else {
        return;
    };
    group.script("pod/sandbox", IGNORES_TERM);
    group.script("pod/app", SLEEPER);
    let victim = Victim {
        sandbox: Some("sandbox".into()),
        ..victim(&group)
    };
    let cut = GraceCut::default();
    let termination = evictor(&group)
        .end(&victim, LONG, &cut, SigtermBy::Evictd)
        .await
        .unwrap();
    assert_eq!(termination.method, expected(Method::FrozenKill));
    let took = milliseconds(termination.first_signal_at, termination.gone_at);
    assert!(took < 10_000, "{took} ms");
}

#[tokio::test]
async fn processes_elsewhere_in_the_cgroup2_tree_are_killed_one_by_one() {
    let test = "processes_elsewhere_in_the_cgroup2_tree_are_killed_one_by_one";
    let Some(mut group) = TestCgroup::new(test, &["memory", "unified"]) else {
        return;
    };
    if expected(Method::RepeatedKill) != Method::RepeatedKill {
        return;
    }
    let mover = "echo $$ > /sys/fs/cgroup/unified/cgroup.procs; trap '' TERM; echo ready; while :; do sleep 0.05; done";
    group.script("pod", mover);
    let termination = leave(&group, NO_GRACE).await;
    assert_eq!(termination.method, Method::RepeatedKill);
}

#[tokio::test]
async fn a_cgroup2_group_with_a_stranger_in_it_is_not_killed_as_a_whole() {
    let test = "a_cgroup2_group_with_a_stranger_in_it_is_not_killed_as_a_whole";
    let Some(mut group) = TestCgroup::new(test, &["memory", "unified"]) else {
        return;
    };
    if expected(Method::RepeatedKill) != Method::RepeatedKill {
        return;
    }
    group.script("pod", SLEEPER);
    let stranger = format!(
        "echo $$ > /sys/fs/cgroup/memory/{}/cgroup.procs; {SLEEPER}",
        group.relative.display()
    );
    let stranger = group.script("pod", &stranger);
    let termination = leave(&group, NO_GRACE).await;
    assert_eq!(termination.method, Method::RepeatedKill);
    assert!(!TestCgroup::has_ended(stranger));
}

#[tokio::test]
async fn a_cgroup_made_anew_under_the_same_name_is_left_alone() {
    let test = "a_cgroup_made_anew_under_the_same_name_is_left_alone";
    let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (heard, go) = (dir.path().join("term"), dir.path().join("go"));
    let leaver = format!(
        "{}; [ -e {} ] && exit; done",
        hears_in(&heard),
        go.display()
    );
    let old = group.script("pod", &leaver);
    let (evictor, victim, cut) = (evictor(&group), victim(&group), GraceCut::default());
    let replace = async {
        until_exists(&heard).await;
        // Nothing is awaited from here on, so the eviction sees the old group, then the new one, and nothing between.
        fs::write(&go, "").unwrap();
        eventually("the old pod has ended", || TestCgroup::has_ended(old));
        eventually("its group is empty", || {
            fs::read_to_string(group.dir("pod/cgroup.procs"))
                .unwrap()
                .is_empty()
        });
        group.remove("pod");
        group.script("pod", SLEEPER)
    };
    let (termination, new) =
        tokio::join!(evictor.end(&victim, LONG, &cut, SigtermBy::Evictd), replace);
    assert_eq!(termination.unwrap().method, Method::Terminated);
    assert!(!TestCgroup::has_ended(new));
}

/// A small file system that can be frozen: whoever writes to it then sleeps uninterruptibly.
struct SmallFilesystem {
    dir: tempfile::TempDir,
}

impl SmallFilesystem {
    fn new(test: &str) -> Option<Self> {
        let filesystem = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let image = filesystem.dir.path().join("image");
        fs::File::create(&image).unwrap().set_len(4 << 20).unwrap();
        fs::create_dir(filesystem.mount()).unwrap();
        let steps = [
            vec!["mkfs.ext4".into(), "-q".into(), image.clone()],
            vec![
                "mount".into(),
                "-o".into(),
                "loop".into(),
                image,
                filesystem.mount(),
            ],
        ];
        for step in steps {
            if !run(&step) {
                left_out(test, format!("{step:?} failed"));
                return None;
            }
        }
        Some(filesystem)
    }

    fn freeze(&self) {
        assert!(run(&["fsfreeze".into(), "-f".into(), self.mount()]));
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    fn thaw(&self) {
        run(&["fsfreeze".into(), "-u".into(), self.mount()]);
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        self.thaw();
        run(&["umount".into(), "--lazy".into(), self.mount()]);
    }
}

fn run(command: &[PathBuf]) -> bool {
    let output = Command::new(&command[0]).args(&command[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Starts a process in a pod that writes to the frozen file system; its id.
fn sleeps_uninterruptibly(group: &mut TestCgroup, filesystem: &SmallFilesystem) -> u32 {
    filesystem.freeze();
    let script = format!("echo ready; echo > {}/file", filesystem.mount().display());
    let sleeper = group.script("pod/app", &script);
    eventually("the process sleeps uninterruptibly", || {
        let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap();
        stat.contains(") D ")
    });
    sleeper
}

#[tokio::test]
async fn a_process_in_uninterruptible_sleep_is_named_at_the_deadline() {
    let test = "a_process_in_uninterruptible_sleep_is_named_at_the_deadline";
    for (hierarchies, method) in WAYS {
        let Some(mut group) = TestCgroup::new(test, hierarchies) else {
            continue;
        };
        let Some(filesystem) = SmallFilesystem::new(test) else {
            return;
        };
        let sleeper = sleeps_uninterruptibly(&mut group, &filesystem);
        let evictor = CgroupEvictor {
            kill_deadline: Duration::from_millis(300),
            ..evictor(&group)
        };
        let termination = evictor
            .end(
                &victim(&group),
                NO_GRACE,
                &GraceCut::default(),
                SigtermBy::Evictd,
            )
            .await;
        let termination = termination.unwrap();
        assert_eq!(termination.method, expected(method));
        assert_eq!(termination.gone_at, None);
        assert_eq!(termination.survivors.len(), 1);
        assert_eq!(termination.survivors[0].pid, sleeper);
        assert_eq!(termination.survivors[0].state, 'D');
        filesystem.thaw();
        eventually("it dies once it wakes", || TestCgroup::has_ended(sleeper));
    }
}

/// Those that count milliseconds.
mod alone {
    use super::*;

    #[tokio::test]
    async fn a_hog_has_exited_within_tens_of_milliseconds() {
        let test = "a_hog_has_exited_within_tens_of_milliseconds";
        for (hierarchies, method) in WAYS {
            let Some(mut group) = TestCgroup::new(test, hierarchies) else {
                continue;
            };
            let hog =
                "exec 3>&1; { head -c 150M /dev/zero; echo ready >&3; sleep 600; } | tail -c 150M";
            group.script("pod/app", hog);
            let termination = leave(&group, NO_GRACE).await;
            let took = milliseconds(termination.first_signal_at, termination.gone_at);
            eprintln!("{test} by {}: {took} ms", method.as_str());
            assert!(took < 1000, "{took} ms");
        }
    }

    #[tokio::test]
    async fn the_grace_is_waited_then_the_pod_is_killed() {
        let test = "the_grace_is_waited_then_the_pod_is_killed";
        let Some(mut group) = TestCgroup::new(test, &["memory", "unified"]) else {
            return;
        };
        group.script("pod", IGNORES_TERM);
        // Sampling goes on meanwhile.
        let mut looks = 0;
        let termination = tokio::select! {
            termination = leave(&group, Duration::from_millis(400)) => termination,
            () = async { loop { tokio::time::sleep(Duration::from_millis(5)).await; looks += 1; } } => unreachable!(),
        };
        let graced = milliseconds(termination.first_signal_at, termination.killed_at);
        assert!(graced >= 400, "{graced} ms");
        assert!(looks > 10, "only {looks} looks in 400 ms");
        assert_eq!(termination.method, expected(Method::CgroupKill));
    }
}
