//! Nobody goes in vain: what a victim leaves behind, who only seems to be the one, and who is going already.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names, wait};
use crate::node::{Node, Traits, Worker, spec};
use nix::mount::{MsFlags, mount, umount};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Of the node's 192 MiB; a pod that holds 90 crosses it.
const LOW: [(&str, &str); 1] = [("memory.available", "110Mi")];

/// A filesystem in memory, as a volume of a pod; unmounted when dropped.
struct Volume(PathBuf);

impl Volume {
    fn new(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        let source = Some("evictd-test");
        mount(source, &path, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        umount(&self.0).unwrap();
    }
}

fn priority(priority: i32) -> Traits {
    spec(json!({ "priority": priority }))
}

#[test]
fn nobody_goes_while_the_files_in_memory_of_the_last_victim_are_still_there() {
    let Some(mut node) = Node::new("nobody_goes_while_the_files_in_memory") else {
        return;
    };
    let volume = Volume::new(node.path("volume"));
    let file = volume.path().join("data");
    let script = format!(
        "dd if=/dev/zero of={} bs=1M count=85 2>/dev/null; echo ready; exec sleep 600",
        file.display()
    );
    node.group.script("writer", &script);
    node.admit("writer", Traits::default());
    let mut neighbour = node.pod("neighbour", "--hold 20Mi", priority(1000));
    let daemon = Daemon::start(&node, &LOW, "");
    assert_eq!(names(&daemon.evicted(1)), ["shop/writer"]);
    // Its processes are gone, and its memory stays until the volume is unmounted.
    daemon.eventually("it is said what is waited for", |daemon| {
        let leaving = daemon.status()["leaving"].to_string();
        leaving.contains("what it holds is not released yet")
    });
    for _ in 0..3 {
        daemon.some_turns_pass();
    }
    assert!(neighbour.lives(), "{:#?}", daemon.history());
    drop(volume);
    daemon.eventually("all is back", |daemon| {
        daemon.status()["leaving"] == json!([])
    });
    daemon.some_turns_pass();
    assert!(neighbour.lives());
    assert!(!names(&daemon.history()).contains(&"shop/neighbour"));
}

#[test]
fn decoys_of_low_priority_protect_no_hog() {
    let Some(mut node) = Node::new("decoys_of_low_priority_protect_no_hog") else {
        return;
    };
    // Nothing that ends gives back as much as is missing, or a hundredth of it.
    for number in 0..5 {
        let name = format!("decoy-{number}");
        node.group.script(&name, "echo ready; exec sleep 600");
        node.admit(&name, priority(-1));
    }
    let mut hog = node.pod("hog", "--hold 100Mi", Traits::default());
    let mut neighbour = node.pod("neighbour", "--hold 4Mi", priority(1000));
    let daemon = Daemon::start(&node, &LOW, "");
    daemon.eventually("the hog goes", |_| !hog.lives());
    daemon.some_turns_pass();
    assert!(neighbour.lives());
    let decisions = daemon.history();
    let gone = names(&decisions);
    assert_eq!((gone.len(), gone[3]), (4, "shop/hog"), "{gone:?}");
}

#[test]
fn a_hog_that_was_deleted_by_force_goes_and_nobody_else() {
    let Some(cluster) = Cluster::new("a_hog_that_was_deleted_by_force_goes") else {
        return;
    };
    let uid = cluster.create("hog", &Value::Null);
    let cgroup = format!("evictd-pod{}.slice", uid.replace('-', "_"));
    let arguments = "--hold 2Mi --grow-to 90Mi --per-second 400Mi";
    let mut hog = cluster.node.deaf_worker(&cgroup, arguments);
    let mut bystanders = ["a", "b", "c"].map(|name| cluster.pod(name, "--hold 4Mi"));
    let daemon = cluster.daemon("110Mi");
    daemon.eventually_knows(&["a", "b", "c", "hog"]);
    cluster.delete("hog");
    daemon.eventually("it is missed", |daemon| {
        daemon.said("pod shop/hog is no longer listed and still runs") == 1
    });
    hog.grow();
    assert!(wait(|| !hog.lives()));
    daemon.some_turns_pass();
    assert!(bystanders.iter_mut().all(Worker::lives));
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
}
