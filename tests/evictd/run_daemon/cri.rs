//! Pods, usage and terminations through a real containerd, and what becomes of an eviction when it is frozen or killed.

use crate::daemon::{Daemon, names};
use crate::node::Node;
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_testkit::cri::Containerd;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const LOW: [(&str, &str); 1] = [("memory.available", "64Mi")];
const APP: &str = "evictd.test/app:1";
/// Holds 40 MiB: nobody reads what it has read.
pub(crate) const HOG: [&str; 3] = ["sh", "-c", "dd if=/dev/zero bs=40M | sleep 1000"];
/// What the pods may take before and after the memory becomes scarce.
pub(crate) const PLENTY: u64 = 192 << 20;
pub(crate) const SCARCE: u64 = 88 << 20;

/// The control group of all pods of a runtime, which is the node.
pub(crate) struct Pods {
    file: PathBuf,
    group: String,
}

impl Pods {
    pub(crate) fn of(containerd: &Containerd) -> Self {
        let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
        let group = containerd.group().to_owned();
        let directory = hierarchies.dir(Controller::Memory, Path::new(&group));
        let name = match hierarchies.version() {
            Version::V2 => "memory.max",
            Version::V1 | Version::Hybrid => "memory.limit_in_bytes",
        };
        let file = directory.unwrap().join(name);
        Self { file, group }
    }

    pub(crate) fn limit(&self, bytes: u64) {
        fs::write(&self.file, bytes.to_string()).unwrap();
    }

    fn lines(&self, containerd: &Containerd, more: &str) -> String {
        format!(
            "nodeCgroup: /{group}\ncgroupRoots: [/{group}]\npods: {{source: cri}}\n\
             containerRuntimeEndpoint: {socket}\n{more}",
            group = self.group,
            socket = containerd.socket().display(),
        )
    }
}

fn hog(containerd: &mut Containerd, name: &str) {
    let pod = containerd.pod(name).unwrap();
    containerd.container(&pod, ("main", 0), APP, &HOG).unwrap();
}

/// Waits until this pod is all that it knows: one that has just been evicted stays for a moment.
fn knows(daemon: &Daemon, name: &str) {
    let pods = [format!("default/{name}")];
    daemon.eventually("it knows the pod", |daemon| daemon.pods() == pods);
}

#[test]
fn a_frozen_runtime_delays_no_eviction() {
    let test = "a_frozen_runtime_delays_no_eviction";
    let (Some(node), Some(mut containerd)) = (Node::new(test), Containerd::start(test)) else {
        return;
    };
    if !containerd.is_own() {
        return;
    }
    containerd.image(APP, 0).unwrap();
    let settings = [
        ("pods", ""),
        ("usage", "usage: {source: cri}\n"),
        ("evict", "evict: {method: cri}\n"),
    ];
    for (setting, more) in settings {
        let mut reactions = Vec::new();
        for frozen in [false, true] {
            let name = format!("hog-{setting}-{frozen}");
            hog(&mut containerd, &name);
            let pods = Pods::of(&containerd);
            pods.limit(PLENTY);
            let _ = fs::remove_dir_all(node.path("state"));
            let lines = pods.lines(&containerd, &format!("priorityUnknown: accept\n{more}"));
            let daemon = Daemon::start(&node, &LOW, &lines);
            knows(&daemon, &name);
            if frozen {
                containerd.signal(Signal::SIGSTOP).unwrap();
            }
            pods.limit(SCARCE);
            let decisions = daemon.evicted(1);
            assert_eq!(names(&decisions), [format!("default/{name}")]);
            let reaction = decisions[0]["outcome"]["reactionSeconds"].as_f64().unwrap();
            assert!(reaction < 1.0, "{setting} {frozen}: {:#}", decisions[0]);
            if frozen {
                daemon.eventually("the age of the pods is shown", |daemon| {
                    daemon.status().to_string().contains("stay in use")
                });
                containerd.signal(Signal::SIGCONT).unwrap();
            }
            reactions.push(reaction);
            pods.limit(PLENTY);
        }
        eprintln!(
            "{setting}: containerd runs {:.3} s, is frozen {:.3} s",
            reactions[0], reactions[1]
        );
    }
}

#[test]
fn a_runtime_that_dies_while_it_stops_a_pod_leaves_it_to_the_control_group() {
    let test = "a_runtime_that_dies_while_it_stops_a_pod";
    let (Some(node), Some(mut containerd)) = (Node::new(test), Containerd::start(test)) else {
        return;
    };
    if !containerd.is_own() {
        return;
    }
    containerd.image(APP, 0).unwrap();
    // As first process of its namespace it is deaf to SIGTERM.
    hog(&mut containerd, "hog");
    let pods = Pods::of(&containerd);
    pods.limit(PLENTY);
    let more = "priorityUnknown: accept\nevict: {method: cri}\nevictionHardGracePeriod: 4s\n";
    let daemon = Daemon::start(&node, &LOW, &pods.lines(&containerd, more));
    knows(&daemon, "hog");
    pods.limit(SCARCE);
    daemon.eventually("it is decided", |daemon| !daemon.history().is_empty());
    containerd.stop();
    let decisions = daemon.evicted(1);
    let reaction = decisions[0]["outcome"]["reactionSeconds"].as_f64().unwrap();
    assert!(reaction < 6.0, "{:#}", decisions[0]);
    daemon.eventually("the fallback is told", |daemon| {
        daemon
            .log_text()
            .contains("is terminated through its cgroup")
    });
    containerd.restart().unwrap();
    pods.limit(PLENTY);
    daemon.eventually("the runtime is heard again", |daemon| {
        !daemon.status().to_string().contains("stay in use")
    });
}

#[test]
fn without_priorities_it_is_a_dry_run_that_says_what_to_set_and_spares_the_system() {
    let test = "without_priorities_it_is_a_dry_run";
    let (Some(node), Some(mut containerd)) = (Node::new(test), Containerd::start(test)) else {
        return;
    };
    if !containerd.is_own() {
        return;
    }
    containerd.image(APP, 0).unwrap();
    hog(&mut containerd, "hog");
    let pods = Pods::of(&containerd);
    pods.limit(SCARCE);
    let daemon = Daemon::start(&node, &LOW, &pods.lines(&containerd, ""));
    daemon.eventually("it is decided", |daemon| !daemon.history().is_empty());
    let decision: Value = daemon.history().remove(0);
    assert_eq!(
        (&decision["pod"], &decision["dryRun"]),
        (&"default/hog".into(), &true.into())
    );
    let status = daemon.status();
    assert_eq!(status["dryRun"], true);
    assert!(
        status.to_string().contains("Set priorityUnknown: accept"),
        "{status:#}"
    );
    let ranking = daemon.get("/v1/ranking?signal=memory.available").unwrap();
    assert_eq!(ranking["pods"][0]["pod"], "default/hog");
}
