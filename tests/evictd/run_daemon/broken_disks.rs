//! Filesystems that do not answer, or fail, while pods are evicted.

use super::disk::{own_mounts, tmpfs};
use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, Worker};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A FUSE filesystem whose server never answers, until it is dropped.
struct Hanging {
    path: PathBuf,
    /// `None` once the server is gone: then each call fails.
    server: Option<File>,
}

impl Hanging {
    fn mount(test: &str, path: &Path) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let mounted = device
            .map_err(|error| error.to_string())
            .and_then(|server| {
                let fd = server.as_raw_fd();
                let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0");
                let fuse = Some("fuse");
                mount(fuse, path, fuse, MsFlags::empty(), Some(&*options))
                    .map_err(|error| error.to_string())?;
                Ok(server)
            });
        match mounted {
            Ok(server) => Some(Self {
                path: path.to_owned(),
                server: Some(server),
            }),
            Err(why) => {
                left_out(test, format!("no FUSE filesystem can be mounted: {why}"));
                None
            }
        }
    }

    /// From now on every call fails.
    fn fail(&mut self) {
        self.server = None;
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.fail();
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

fn volume(disk: &Path, pod: &str) -> PathBuf {
    let volumes = format!("kubelet/pods/uid-{pod}/volumes/kubernetes.io~empty-dir");
    disk.join(volumes).join("scratch")
}

fn traits(pod: &str) -> Traits {
    Traits {
        metadata: json!({ "uid": format!("uid-{pod}") }),
        spec: json!({ "volumes": [{ "name": "scratch", "emptyDir": {} }] }),
    }
}

fn usage(ranking: &Value, pod: &str) -> Value {
    let pods = ranking["pods"].as_array();
    let found = pods.and_then(|pods| pods.iter().find(|one| one["pod"] == pod));
    found.map_or(Value::Null, |one| one["usage"].clone())
}

#[test]
fn a_volume_that_does_not_answer_or_fails_costs_only_its_own_figure() {
    let name = "a_volume_that_does_not_answer";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=16m");
    let stuck = volume(&disk, "stuck");
    let Some(mut hanging) = Hanging::mount(name, &stuck) else {
        return;
    };
    let scratch = volume(&disk, "writer").join("two\nlines");
    fs::create_dir_all(&scratch).unwrap();
    fs::write(scratch.join("data"), vec![1; 5 << 20]).unwrap();
    let mut pods = [
        ("stuck", ""),
        ("writer", ""),
        ("hog", "--grow-to 150Mi --per-second 400Mi"),
    ]
    .map(|(pod, more)| node.pod(pod, &format!("--hold 4Mi {more}"), traits(pod)));
    let place = disk.display();
    let lines = format!(
        "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: '{place}/kubelet'}}"
    );
    let low = [("nodefs.available", "8Mi"), ("memory.available", "64Mi")];
    let daemon = Daemon::start(&node, &low, &lines);
    let mut ranked = Value::Null;
    daemon.eventually("the other is counted", |daemon| {
        let ranking = daemon.get("/v1/ranking?signal=nodefs.available");
        ranked = ranking.unwrap_or_default();
        usage(&ranked, "shop/writer") == "5Mi"
    });
    assert_eq!(usage(&ranked, "shop/stuck"), Value::Null, "{ranked:#}");
    // Memory is protected all the while.
    pods[2].grow();
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/hog"]);
    let reaction = decisions[0]["outcome"]["reactionSeconds"].as_f64().unwrap();
    assert!(reaction < 1.0, "{:#}", decisions[0]);
    // Now the disk is filled.
    fs::write(scratch.join("more"), vec![1; 5 << 20]).unwrap();
    let decisions = daemon.evicted(2);
    assert_eq!(names(&decisions), ["shop/hog", "shop/writer"]);
    hanging.fail();
    daemon.some_turns_pass();
    let alive = pods.each_mut().map(Worker::lives);
    assert_eq!(alive, [true, false, false]);
}
