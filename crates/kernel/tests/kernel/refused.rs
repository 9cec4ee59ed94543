//! What must never be ended is refused, and who is not in the pod is not hit. The kernel's files are fixtures here.
use std::fs;
use std::process::Command;
use std::time::Duration;

use evictd_kernel::cgroup::Hierarchies;
use evictd_kernel::clock::Clock;
use evictd_kernel::kill::{
    CgroupEvictor, GraceCut, KillError, Method, Refusal, SigtermBy, Termination, Victim,
};

const NO_GRACE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_mins(1);

/// A cgroup v2 tree and a /proc of plain files.
fn fixture(procs: &str) -> (tempfile::TempDir, CgroupEvictor) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("cgroup/cgroup.controllers", "memory\n"),
        ("cgroup/pods/app/cgroup.procs", procs),
        ("cgroup/pods/us/cgroup.procs", ""),
        ("cgroup/kubepods/podother/cgroup.procs", ""),
        ("proc/self/cgroup", "0::/pods/us/deep\n"),
        ("proc/4000000/cgroup", "0::/../../elsewhere\n"),
        (
            "proc/4000000/stat",
            "4000000 (x) S 1 2 3 4 5 0 7 8 9 10 11 12 13 14 15 16 1 0 99 1\n",
        ),
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let evictor = CgroupEvictor {
        hierarchies: Hierarchies::detect(&dir.path().join("cgroup")).unwrap(),
        proc_root: dir.path().join("proc"),
        pod_roots: vec!["pods".into(), "kubepods".into()],
        kill_deadline: LONG,
        clock: Clock::start(),
        spare: std::sync::Arc::default(),
    };
    (dir, evictor)
}

async fn refusal(procs: &str, cgroup: &str) -> KillError {
    let (_dir, evictor) = fixture(procs);
    let victim = Victim {
        uid: "uid".into(),
        cgroup: cgroup.into(),
        sandbox: None,
    };
    evictor
        .end(&victim, NO_GRACE, &GraceCut::default(), SigtermBy::Evictd)
        .await
        .unwrap_err()
}

#[tokio::test]
async fn the_root_our_own_group_and_foreign_groups_are_refused() {
    for (cgroup, expected) in [
        ("/", Refusal::OutsidePodCgroups),
        ("", Refusal::OutsidePodCgroups),
        ("pods", Refusal::OutsidePodCgroups),
        ("pods/..", Refusal::OutsidePodCgroups),
        ("pods/app/../../other", Refusal::OutsidePodCgroups),
        ("podsapp", Refusal::OutsidePodCgroups),
        ("system.slice", Refusal::OutsidePodCgroups),
        ("pods/us", Refusal::HoldsEvictd),
        ("/pods/us/deep", Refusal::HoldsEvictd),
        (
            "kubepods/podother",
            Refusal::OtherPod {
                found: "other".into(),
            },
        ),
    ] {
        match refusal("", cgroup).await {
            KillError::Refused { why, .. } => assert_eq!(why, expected, "{cgroup}"),
            other => panic!("{cgroup}: {other}"),
        }
    }
}

#[tokio::test]
async fn a_group_with_process_1_or_ourselves_in_it_is_refused() {
    let ourselves = format!("{}\n", std::process::id());
    for (procs, expected) in [
        ("1\n", Refusal::HoldsInit),
        (&ourselves, Refusal::HoldsEvictd),
    ] {
        match refusal(procs, "pods/app").await {
            KillError::Refused { why, .. } => assert_eq!(why, expected),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_foreign_pid_namespace_is_not_permitted() {
    let error = refusal("0\n", "pods/app").await;
    assert!(
        matches!(error, KillError::ForeignPidNamespace { .. }),
        "{error}"
    );
    assert!(error.is_not_permitted());
}

#[tokio::test]
async fn processes_that_are_elsewhere_by_their_own_account_are_not_signalled() {
    let error = refusal("4000000\n", "pods/app").await;
    assert!(matches!(error, KillError::Unverifiable { .. }), "{error}");
    assert!(!error.is_not_permitted(), "it may hold for this pod alone");
}

/// A list that still holds the id of a process that ended, while another process elsewhere has that id by now.
#[tokio::test]
async fn a_recycled_process_id_is_not_hit() {
    let sleeper = || Command::new("sleep").arg("60").spawn().unwrap();
    let (mut member, mut stranger) = (sleeper(), sleeper());
    let (dir, evictor) = fixture(&format!("{}\n{}\n", member.id(), stranger.id()));
    for (process, group) in [(&member, "/pods/app"), (&stranger, "/elsewhere")] {
        let proc = dir.path().join("proc").join(process.id().to_string());
        fs::create_dir(&proc).unwrap();
        fs::write(proc.join("cgroup"), format!("0::{group}\n")).unwrap();
        fs::copy(dir.path().join("proc/4000000/stat"), proc.join("stat")).unwrap();
    }
    let evictor = CgroupEvictor {
        kill_deadline: Duration::from_millis(200),
        ..evictor
    };
    let termination = evictor
        .end(
            &app(),
            Duration::from_millis(50),
            &GraceCut::default(),
            SigtermBy::Evictd,
        )
        .await;
    assert_eq!(termination.unwrap().method, Method::RepeatedKill);
    member.wait().unwrap();
    assert_eq!(stranger.try_wait().unwrap(), None);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Kernels before 5.3 list zombies.
#[tokio::test]
async fn a_listed_zombie_is_not_alive() {
    let (dir, evictor) = fixture("4000000\n");
    let stat = dir.path().join("proc/4000000/stat");
    let zombie = fs::read_to_string(&stat).unwrap().replace(" S ", " Z ");
    fs::write(stat, zombie).unwrap();
    let termination = evictor
        .end(&app(), LONG, &GraceCut::default(), SigtermBy::Evictd)
        .await
        .unwrap();
    assert_eq!(termination.method, Method::AlreadyGone);
}

fn app() -> Victim {
    Victim {
        uid: "uid".into(),
        cgroup: "pods/app".into(),
        sandbox: None,
    }
}

#[tokio::test]
async fn a_cgroup_that_is_gone_has_left_already() {
    let (_dir, evictor) = fixture("");
    let victim = Victim {
        uid: "uid".into(),
        cgroup: "pods/gone".into(),
        sandbox: None,
    };
    let termination = evictor
        .end(&victim, LONG, &GraceCut::default(), SigtermBy::Evictd)
        .await
        .unwrap();
    assert_eq!(termination.method, Method::AlreadyGone);
    assert!(termination.gone_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn process_lists_that_stay_unreadable_are_errors_with_the_file_and_what_was_tried() {
    for procs in ["rubbish\n", "4000001\n4000000 \n"] {
        let start = tokio::time::Instant::now();
        let error = refusal(procs, "pods/app").await;
        assert!(start.elapsed() >= LONG, "{:?}", start.elapsed());
        let KillError::GaveUp { tries, source, .. } = error else {
            panic!("{error}")
        };
        assert!(tries > 1000, "{tries}");
        assert!(
            source.to_string().contains("pods/app/cgroup.procs"),
            "{source}"
        );
    }
}

/// A pod of cgroup v2 whose list nobody can read, and to which the kernel writes what `populated` says once it is killed.
async fn killed_unread(populated: &'static str) -> Result<Termination, KillError> {
    let (dir, evictor) = fixture("rubbish\n");
    let pod = dir.path().join("cgroup/pods/app");
    fs::write(pod.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
    fs::write(pod.join("cgroup.kill"), "").unwrap();
    let kernel = async {
        while fs::read_to_string(pod.join("cgroup.kill")).unwrap() != "1" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fs::write(pod.join("cgroup.events"), populated).unwrap();
    };
    let (app, cut) = (app(), GraceCut::default());
    let (termination, ()) =
        tokio::join!(evictor.end(&app, NO_GRACE, &cut, SigtermBy::Evictd), kernel);
    termination
}

#[tokio::test(start_paused = true)]
async fn in_the_one_tree_a_pod_is_killed_before_anybody_is_looked_for() {
    let termination = killed_unread("populated 0\nfrozen 0\n").await.unwrap();
    assert_eq!(termination.method, Method::CgroupKill);
    assert!(termination.gone_at.is_some() && termination.killed_at.is_some());
    assert!(termination.processes >= 1 && termination.survivors.is_empty());
    let error = killed_unread("populated 1\nfrozen 0\n").await.unwrap_err();
    assert!(matches!(error, KillError::GaveUp { .. }), "{error}");
}

/// What the kernel counts and does not list is there.
#[tokio::test(start_paused = true)]
async fn an_empty_list_of_a_populated_group_does_not_end_the_kill() {
    let (dir, evictor) = fixture("");
    let pod = dir.path().join("cgroup/pods/app");
    fs::write(pod.join("cgroup.events"), "populated 1\n").unwrap();
    fs::write(pod.join("cgroup.kill"), "").unwrap();
    let error = evictor
        .end(&app(), NO_GRACE, &GraceCut::default(), SigtermBy::Evictd)
        .await;
    let error = error.unwrap_err();
    assert!(matches!(error, KillError::GaveUp { .. }), "{error}");
}
