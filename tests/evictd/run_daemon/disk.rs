//! Disks: limits of the pods' own, a node filesystem that fills up, and a full disk under the history.

use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, names, seconds_between};
use crate::node::{Node, Traits, Worker, requests};
use evictd_testkit::program;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Gives this thread and the processes it starts mounts of their own.
pub(crate) fn own_mounts(test: &str) -> bool {
    let nothing = None::<&str>;
    let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    let done = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(nothing, "/", nothing, private, nothing));
    if let Err(error) = done {
        left_out(test, format!("cannot have mounts of its own: {error}"));
    }
    done.is_ok()
}

pub(crate) fn tmpfs(at: &Path, size: &str) {
    fs::create_dir_all(at).unwrap();
    mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(size),
    )
    .unwrap();
}

/// Writes a file that leaves no page of a filesystem of so many KiB free.
pub(crate) fn fill_up(disk: &Path, kibibytes: usize) -> PathBuf {
    let filler = disk.join("filler");
    let fits = |pages: &usize| fs::write(&filler, vec![1; pages << 12]).is_ok();
    (1..=kibibytes / 4).rev().find(fits).unwrap();
    filler
}

fn fill(path: &Path, mebibytes: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![1; mebibytes << 20]).unwrap();
}

#[test]
fn s1_034_s1_053_s1_058_s1_069_a_pod_over_the_limit_of_its_emptydir_goes() {
    let name = "a_pod_over_the_limit_of_its_emptydir_goes";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    // The daemon, which is started from here, finds a kubelet's directory of this test's own.
    tmpfs(Path::new("/var/lib"), "size=32m");
    let volume = |uid: &str| {
        Path::new("/var/lib/kubelet/pods")
            .join(uid)
            .join("volumes/kubernetes.io~empty-dir/scratch")
    };
    let limited = |uid: &str| Traits {
        metadata: json!({ "uid": uid }),
        spec: json!({ "volumes": [{ "name": "scratch", "emptyDir": { "sizeLimit": "2Mi" } }] }),
    };
    fill(&volume("uid-over").join("data"), 3);
    fill(&volume("uid-under").join("data"), 1);
    let mut over = node.pod("over", "--hold 8Mi", limited("uid-over"));
    let mut under = node.pod("under", "--hold 8Mi", limited("uid-under"));
    let mut other = node.pod("other", "--hold 8Mi", Traits::default());
    let daemon = Daemon::start(&node, &[("memory.available", "16Mi")], "");
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/over"]);
    let decision = &decisions[0];
    assert_eq!(decision["kind"], "localStorage");
    assert_eq!(decision["signal"], "emptydirfs.limit");
    assert_eq!(
        decision["message"],
        "Usage of EmptyDir volume \"scratch\" exceeds the limit \"2Mi\". It was using 3Mi. "
    );
    assert_eq!(
        (&decision["disruptionTarget"], &decision["annotations"]),
        (&json!(false), &json!(null))
    );
    let labels = "{signal=\"emptydirfs.limit\",kind=\"localStorage\"}";
    assert_eq!(daemon.count(&format!("evictd_evictions_total{labels}")), 1);
    daemon.some_turns_pass();
    assert!(!over.lives() && under.lives() && other.lives());
    assert_eq!(daemon.evictions().len(), 1);
}

#[test]
fn s1_059_when_the_nodes_disk_fills_up_only_whoever_filled_it_goes() {
    let name = "when_the_nodes_disk_fills_up_only_whoever_filled_it_goes";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=24m");
    let with_directory = |pod: &str, limit: serde_json::Value| {
        fill(
            &volume_on(&disk, pod).join("data"),
            if pod == "writer" { 12 } else { 2 },
        );
        Traits {
            metadata: json!({ "uid": format!("uid-{pod}") }),
            spec: json!({
                "volumes": [{ "name": "data", "emptyDir": {} }],
                "containers": [{ "name": "main", "image": "none", "resources": { "limits": limit } }],
            }),
        }
    };
    // One with a limit of its own, whose directories are therefore walked anyway, and one without.
    let limited = with_directory("limited", json!({ "ephemeral-storage": "20Mi" }));
    let mut limited = node.pod("limited", "--hold 8Mi", limited);
    let writer = with_directory("writer", json!({}));
    let mut writer = node.pod("writer", "--hold 8Mi", writer);
    let place = disk.display();
    let daemon = Daemon::start(
        &node,
        &[("nodefs.available", "11Mi")],
        &format!(
            "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: '{place}/kubelet'}}"
        ),
    );
    daemon.eventually("somebody goes", |daemon| daemon.said(" is gone: ") > 0);
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions)[0], "shop/writer");
    assert_eq!(decisions[0]["signal"], "nodefs.available");
    let ranking = decisions[0]["ranking"].to_string();
    assert!(!ranking.contains("\"usage\":null"), "{ranking}");
    // What it has written is still there, and disks are looked at beside the loop.
    daemon.seconds_pass(1);
    assert!(!writer.lives() && limited.lives());
}

#[test]
fn s1_059_the_next_victim_goes_when_the_bytes_of_the_one_before_are_back() {
    let name = "the_next_victim_goes_when_the_bytes_of_the_one_before_are_back";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=24m");
    let file = |pod: &str| {
        let volumes = disk.join(format!("kubelet/pods/uid-{pod}/volumes"));
        volumes.join("kubernetes.io~empty-dir/scratch/data")
    };
    let mut pods = [("first", 10), ("second", 8)].map(|(pod, holds)| {
        fill(&file(pod), holds);
        let traits = Traits {
            metadata: json!({ "uid": format!("uid-{pod}") }),
            spec: json!({ "volumes": [{ "name": "scratch", "emptyDir": {} }] }),
        };
        node.pod(pod, "--hold 1Mi", traits)
    });
    let place = disk.display();
    let daemon = Daemon::start(
        &node,
        &[("nodefs.available", "20Mi")],
        &format!(
            "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: '{place}/kubelet'}}"
        ),
    );
    daemon.eventually("the first is gone", |daemon| {
        daemon.said("shop/first is gone: ") == 1
    });
    daemon.some_turns_pass();
    assert!(pods[1].lives(), "its files are still there");
    // Its manifest stays, as its object does in a cluster.
    fs::remove_file(file("first")).unwrap();
    let decisions = daemon.evicted(2);
    assert_eq!(names(&decisions), ["shop/first", "shop/second"]);
    let waited = seconds_between(&decisions[0]["time"], &decisions[1]["time"]);
    assert!(waited < 25.0, "{waited} s");
    assert!(!pods[0].lives());
}

#[test]
fn a_full_disk_under_the_history_delays_no_eviction_and_loses_no_record() {
    let name = "a_full_disk_under_the_history_delays_no_eviction";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let state = node.path("state");
    tmpfs(&state, "size=64k");
    let filler = fill_up(&state, 64);
    let _small = node.pod("small", "--hold 8Mi", requests("64Mi"));
    let mut hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let daemon = Daemon::start(&node, &[("memory.available", "110Mi")], "");
    daemon.eventually("the hog is gone", |daemon| {
        daemon.said("shop/hog is gone: ") == 1
    });
    assert!(!hog.lives());
    daemon.eventually("the trouble is told", |daemon| {
        daemon.status()["history"]["error"].is_string()
    });
    assert_eq!(
        daemon.said("a decision could not be written; evictions continue"),
        1
    );
    // What the disk refuses is told from memory.
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    fs::remove_file(&filler).unwrap();
    daemon.eventually("everything is written", |daemon| {
        let history = &daemon.status()["history"];
        history["records"] == 2 && history["waiting"] == 0 && history["error"].is_null()
    });
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
}

fn remount(at: &Path, read_only: MsFlags) {
    let nothing = None::<&str>;
    mount(
        nothing,
        at,
        nothing,
        MsFlags::MS_REMOUNT | read_only,
        nothing,
    )
    .unwrap();
}

#[test]
fn a_disk_on_which_no_history_can_be_begun_keeps_no_node_unguarded() {
    let name = "a_disk_on_which_no_history_can_be_begun";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=1m");
    remount(&disk, MsFlags::MS_RDONLY);
    let mut hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let lines = format!("stateDirectory: {}/state", disk.display());
    let daemon = Daemon::start(&node, &[("memory.available", "110Mi")], &lines);
    daemon.eventually("the hog is gone", |daemon| {
        daemon.said("shop/hog is gone: ") == 1
    });
    assert!(!hog.lives());
    assert_eq!(daemon.said("no decision can be saved yet"), 1);
    remount(&disk, MsFlags::empty());
    daemon.eventually("everything is written", |daemon| {
        let history = &daemon.status()["history"];
        history["records"] == 2 && history["waiting"] == 0 && history["error"].is_null()
    });
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
}

#[test]
fn a_history_that_cannot_be_had_is_told_before_anything_is_decided() {
    let name = "a_history_that_cannot_be_had_is_told";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=1m");
    remount(&disk, MsFlags::MS_RDONLY);
    let lines = format!("stateDirectory: {}/state", disk.display());
    let daemon = Daemon::start(&node, &[("memory.available", "1Mi")], &lines);
    let history = || {
        let mut command = crate::evictd(&["history", "--socket"]);
        let output = program::run(command.arg(&daemon.socket), "");
        (program::stdout(&output), program::stderr(&output))
    };
    daemon.eventually("it is told", |daemon| {
        daemon.status()["history"]["error"].is_string()
    });
    let (shown, warned) = history();
    assert!(shown.starts_with("No eviction is known"), "{shown}");
    assert!(warned.contains("Read-only file system"), "{warned}");
    remount(&disk, MsFlags::empty());
    daemon.eventually("it is mended without a decision", |daemon| {
        daemon.status()["history"]["error"].is_null()
    });
    let nothing = ("Nothing was ever evicted.\n".to_owned(), String::new());
    assert_eq!(history(), nothing);
}

/// The volume `data` of a pod whose kubelet has its directory on this disk.
fn volume_on(disk: &Path, pod: &str) -> PathBuf {
    disk.join(format!(
        "kubelet/pods/uid-{pod}/volumes/kubernetes.io~empty-dir/data"
    ))
}

/// A disk with these pods on it, each with a volume that holds so many MiB.
fn pods_on(node: &Node, disk: &Path, pods: [(&str, usize); 2]) -> [Worker; 2] {
    tmpfs(disk, "size=24m");
    pods.map(|(pod, holds)| {
        fill(&volume_on(disk, pod).join("data"), holds);
        let traits = Traits {
            metadata: json!({ "uid": format!("uid-{pod}") }),
            spec: json!({ "volumes": [{ "name": "data", "emptyDir": {} }] }),
        };
        node.pod(pod, "--hold 8Mi", traits)
    })
}

#[test]
fn usage_that_a_command_read_before_the_crossing_decides_nothing() {
    let name = "usage_that_a_command_read_before_the_crossing_decides_nothing";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    let [mut other, mut writer] = pods_on(&node, &disk, [("other", 3), ("writer", 1)]);
    let place = disk.display();
    let daemon = Daemon::start(
        &node,
        &[("nodefs.available", "11Mi")],
        &format!(
            "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: '{place}/kubelet'}}"
        ),
    );
    daemon.eventually("it shows what pods hold", |daemon| {
        let shown = daemon.get("/v1/ranking?signal=nodefs.available");
        shown.is_some_and(|shown| shown["next"] == "shop/other")
    });
    fill(&volume_on(&disk, "writer").join("data"), 12);
    assert_eq!(names(&daemon.evicted(1)), ["shop/writer"]);
    assert!(other.lives() && !writer.lives());
}

#[test]
fn pods_of_a_kubelet_with_a_directory_of_its_own_are_found_there_and_unknown_elsewhere() {
    let name = "pods_of_a_kubelet_with_a_directory_of_its_own";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=24m");
    let mut pods = [("small", 1), ("writer", 12)].map(|(pod, holds)| {
        let volume = format!("kubelet/pods/uid-{pod}/volumes/kubernetes.io~empty-dir/scratch");
        fill(&disk.join(volume).join("data"), holds);
        let traits = Traits {
            metadata: json!({ "uid": format!("uid-{pod}") }),
            spec: json!({ "volumes": [{ "name": "scratch", "emptyDir": {} }] }),
        };
        node.pod(pod, "--hold 8Mi", traits)
    });
    let place = disk.display();
    let low = [("nodefs.available", "13Mi"), ("memory.available", "1Mi")];
    let filesystems =
        format!("filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}");
    let daemon = Daemon::start(&node, &low, &format!("{filesystems}\ndryRun: true"));
    daemon.eventually("it says that it finds none of them", |daemon| {
        daemon.warns("/var/lib/kubelet/pods; set kubelet.rootDir to the kubelet's --root-dir")
    });
    // Whose ranking would be all unknown says nothing to whoever asks for the nearest.
    daemon.eventually("it ranks for a signal that ranks anything", |daemon| {
        let nearest = daemon.get("/v1/ranking").unwrap_or_default();
        nearest["signal"] == "memory.available" && nearest["pods"][0]["usage"].is_string()
    });
    let asked = daemon.get("/v1/ranking?signal=nodefs.available");
    assert_eq!(asked.unwrap()["signal"], "nodefs.available");
    drop(daemon);
    let root = format!("{filesystems}\nkubelet: {{rootDir: '{place}/kubelet'}}");
    let daemon = Daemon::start(&node, &low, &root);
    daemon.eventually("somebody goes", |daemon| daemon.said(" is gone: ") > 0);
    let decisions = daemon.history();
    let done = |decision: &&serde_json::Value| decision["dryRun"] == false;
    let first = decisions.iter().find(done).unwrap();
    assert_eq!(first["pod"], "shop/writer");
    assert!(!daemon.warns("kubelet.rootDir"));
    assert_eq!(pods.each_mut().map(Worker::lives), [true, false]);
}

#[test]
fn of_two_pods_that_hold_equally_much_the_one_that_writes_goes_where_that_is_asked_for() {
    let name = "of_two_pods_that_hold_equally_much_the_one_that_writes_goes";
    let Some(mut node) = Node::new(name) else {
        return;
    };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=24m");
    let traits = |pod: &str| {
        let scratch = json!([{ "name": "scratch", "emptyDir": {} }]);
        Traits {
            metadata: json!({ "uid": format!("uid-{pod}") }),
            spec: json!({ "volumes": scratch }),
        }
    };
    let volume = |pod: &str| {
        let volumes = disk.join(format!("kubelet/pods/uid-{pod}/volumes"));
        volumes.join("kubernetes.io~empty-dir/scratch")
    };
    fill(&volume("quiet").join("data"), 8);
    let place = volume("writer");
    fs::create_dir_all(&place).unwrap();
    // It arrives at what the other holds, and stays there: before, it held less.
    let script = format!(
        "cd {}; dd if=/dev/zero of=data bs=1M count=7 status=none; echo ready; \
         while ! test -e go; do sleep 0.05; done; rm go; \
         dd if=/dev/zero of=more bs=1M count=1 status=none; exec sleep 600",
        place.display()
    );
    // Of equals the first in the list goes, so the quiet one comes first.
    let mut quiet = node.pod("a-quiet", "--hold 1Mi", traits("quiet"));
    node.group.script("b-writer", &script);
    node.admit("b-writer", traits("writer"));
    let disk = disk.display();
    let daemon = Daemon::start(
        &node,
        &[("nodefs.available", "8500Ki")],
        &format!(
            "filesystems: {{nodefs: {disk}, imagefs: {disk}, containerfs: {disk}}}\n\
             kubelet: {{rootDir: '{disk}/kubelet'}}\nfastestWriterFirst: true"
        ),
    );
    daemon.eventually("what the pods hold is read once", |daemon| {
        let ranking = daemon.get("/v1/ranking?signal=nodefs.available");
        ranking.is_some_and(|ranking| ranking["next"].is_string())
    });
    fs::write(place.join("go"), "").unwrap();
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/b-writer"], "{decisions:#?}");
    let ranking = &decisions[0]["ranking"];
    assert_eq!(ranking[0]["usage"], ranking[1]["usage"], "{ranking}");
    let why = decisions[0]["why"].as_str().unwrap();
    assert!(
        why.contains("/s; shop/a-quiet, next, uses as much"),
        "{why}"
    );
    assert!(quiet.lives());
}

#[test]
fn a_limit_is_checked_of_a_volume_that_is_made_after_its_pod_is_known() {
    let name = "a_limit_is_checked_of_a_volume_that_is_made_after_its_pod_is_known";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    tmpfs(Path::new("/var/lib"), "size=32m");
    let volume =
        Path::new("/var/lib/kubelet/pods/uid-late/volumes/kubernetes.io~empty-dir/scratch");
    let limited = Traits {
        metadata: json!({ "uid": "uid-late" }),
        spec: json!({ "volumes": [{ "name": "scratch", "emptyDir": { "sizeLimit": "2Mi" } }] }),
    };
    let mut late = node.pod("late", "--hold 8Mi", limited);
    let daemon = Daemon::start(&node, &[("memory.available", "16Mi")], "");
    daemon.eventually("its directory is looked for in vain", |daemon| {
        daemon.said("disk usage of pods is unknown") == 1
    });
    fill(&volume.join("data"), 3);
    assert_eq!(names(&daemon.evicted(1)), ["shop/late"]);
    assert!(!late.lives());
}
