//! Nobody goes in vain: what a victim leaves behind in the kernel's memory is waited for.

use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, spec};
use nix::mount::{MsFlags, mount, umount};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde_json::json;
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

#[test]
fn no_pod_is_evicted_while_the_last_victims_files_in_memory_exist() {
    let Some(mut node) = Node::new("nobody_goes_while_the_files_in_memory") else {
        return;
    };
    let volume = Volume::new(node.path("volume"));
    let file = volume.path().join("data");
    let script = format!(
        "dd if=/dev/zero of={} bs=1M count=85 2>/dev/null; echo ready; exec sleep 600",
        file.display()
    );
    let writer = node.group.script("writer", &script).cast_signed();
    node.admit("writer", Traits::default());
    let important = spec(json!({ "priority": 1000 }));
    let mut neighbour = node.pod("neighbour", "--hold 20Mi", important);
    let daemon = Daemon::start(&node, &LOW, "");
    assert_eq!(names(&daemon.evicted(1)), ["shop/writer"]);
    // A process that nobody has waited for holds its id.
    waitpid(Pid::from_raw(writer), None).unwrap();
    // Its processes are gone, and its memory stays until the volume is unmounted.
    daemon.eventually("it is said what is waited for", |daemon| {
        let leaving = daemon.status()["leaving"].to_string();
        leaving.contains("what it holds is not released yet")
    });
    // Longer than a victim is waited for that gives nothing back.
    daemon.seconds_pass(4);
    assert!(neighbour.lives(), "{:#?}", daemon.history());
    drop(volume);
    daemon.eventually("all is back", |daemon| {
        daemon.status()["leaving"] == json!([])
    });
    daemon.some_turns_pass();
    assert!(neighbour.lives());
    assert!(!names(&daemon.history()).contains(&"shop/neighbour"));
}
